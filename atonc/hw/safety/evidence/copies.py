"""Copies from memory to memory by two stream engines, and what runs beside them.

Copies of activations beside convolutions are common; weights that are fetched from flash into RAM while a convolution
reads flash are in no published program.
"""

from __future__ import annotations

from collections.abc import Iterator

from atonc.hw.safety.evidence.grades import Feature
from atonc.hw.safety.evidence.ports import memory
from atonc.hw.safety.view import EpochView

NAME, CHAIN = "copy", "IN>OUT"


def features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    for units, text in view.chains.items():
        if text == CHAIN:
            source, target = sorted(units, key=lambda unit: unit in view.writers)
            yield source, Feature(NAME, _beside(view), f"{memory(view, source)} > {memory(view, target)}")


def _beside(view: EpochView) -> str:
    return "beside a convolution" if view.convaccs else "beside other units" if view.processing else "alone"
