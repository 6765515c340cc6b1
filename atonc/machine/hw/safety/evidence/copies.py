"""Copies from memory to memory by two stream engines, and what runs beside them.

Copies of activations beside convolutions are common; weights that are fetched from flash into RAM while a convolution
reads flash are in no published program.
"""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.hw.safety.evidence.grades import Feature
from atonc.machine.hw.safety.evidence.ports import CPU_SIDE, NPU_SIDE, memory
from atonc.machine.hw.safety.view import EpochView, PoolKind

NAME, CHAIN = "copy", "IN>OUT"
CONVOLVED, ACCOMPANIED, ALONE = "beside a convolution", "beside other units", "alone"
BUSIER = {ALONE: (ACCOMPANIED, CONVOLVED), ACCOMPANIED: (CONVOLVED,)}  # what was seen there works with less beside it


def _copy(beside: str, source: str, target: str) -> Feature:
    return Feature(NAME, beside, f"{source} > {target}")


FETCHES = tuple(
    _copy(beside, PoolKind.FLASH, ram) for beside in (CONVOLVED, ACCOMPANIED, ALONE) for ram in (NPU_SIDE, CPU_SIDE)
)  # weights that are fetched ahead


def features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    beside = CONVOLVED if view.convaccs else ACCOMPANIED if view.processing else ALONE
    for units, text in view.chains.items():
        if text == CHAIN:
            source, target = sorted(units, key=lambda unit: unit in view.writers)
            yield source, _copy(beside, memory(view, source), memory(view, target))
