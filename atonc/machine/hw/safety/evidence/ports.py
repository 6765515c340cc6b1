"""The memory behind every port: what a stream engine in its role reads from or writes to.

Kernels come from flash in nearly all published programs and from RAM in a few; a unit that gets its words at another
pace, or an engine on another path of the bus, is another form. A buffer of the application may be anywhere, so it is
judged by direction only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from atonc.machine.hw.machine import CPU_RAM, stm32n6
from atonc.machine.hw.safety.evidence.grades import Feature
from atonc.machine.hw.safety.evidence.streng import direction
from atonc.machine.hw.safety.view import EpochView, PoolKind

NAME = "STRENG memory"
NPU_SIDE, CPU_SIDE = "NPU RAM", "CPU RAM"


def pool_kind(view: EpochView, engine: str) -> PoolKind:
    """What is in no pool belongs to the application."""
    home = view.memory_of[engine]
    return home.kind if home else PoolKind.USER


def memory(view: EpochView, engine: str) -> str:
    """The same, with the memories on the chip told apart."""
    kind = pool_kind(view, engine)
    if kind != PoolKind.ON_CHIP:
        return str(kind)
    bank = stm32n6().memory_at(view.engines[engine].address)
    return CPU_SIDE if bank is not None and bank.kind == CPU_RAM else NPU_SIDE


def features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    for engine, config in view.engines.items():
        port, place = view.role(engine), memory(view, engine)
        yield engine, _feature(direction(config) if place == PoolKind.USER else port, place)


@lru_cache(maxsize=1 << 8)
def _feature(role: str, place: str) -> Feature:
    return Feature(NAME, role, place)
