"""Constants that engines read from flash, and epochs that would read a copy instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from atonc.compiler.emit.program import Program
from atonc.compiler.plan.types import BufferKind, EpochPlan
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import CPU_CACHE_LINE, READ_ALIGNMENT
from atonc.machine.hw.target import Target
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass(frozen=True, eq=False)
class Weights:
    """One constant and the engines that read it."""

    name: str
    address: int
    size_bytes: int  # in whole cache lines
    readers: Mapping[int, tuple[str, ...]]  # number of the step -> engines
    anywhere: bool  # engines start at addresses that any memory takes
    exact_bytes: int


def in_flash(program: Program, target: Target) -> Iterator[Weights]:
    """Constants outside the chip that engines read; several names of one memory are one."""
    readers: dict[int, dict[int, tuple[str, ...]]] = {}
    aligned: dict[int, bool] = {}
    names: dict[int, str] = {}
    for step in program.steps:
        for unit, use in step.plan.engines.items() if isinstance(step.plan, EpochPlan) else ():
            home = program.placed[use.buffer]
            bank = target.machine.memory_at(home.address)
            if home.buffer.kind != BufferKind.CONSTANT or bank is None or not bank.external:
                continue
            names.setdefault(home.address, use.buffer)
            used = readers.setdefault(home.address, {})
            used[step.number] = (*used.get(step.number, ()), unit)
            fits = use.config.address % READ_ALIGNMENT == 0
            aligned[home.address] = aligned.get(home.address, True) and fits
    for address, name in names.items():
        exact = program.placed[name].buffer.size_bytes
        size = -(-exact // CPU_CACHE_LINE) * CPU_CACHE_LINE
        yield Weights(name, address, size, readers[address], aligned[address], exact)


def moved(epoch: Epoch, weights: Weights, number: int, address: int) -> Epoch:
    units = dict(epoch.units)
    for unit in weights.readers[number]:
        config = units[unit]
        assert isinstance(config, StrengConfig)
        shift = address - weights.address
        units[unit] = changed(
            config, address=config.address + shift, address_limit=config.address_limit + shift, cacheable=0
        )
    return replace(epoch, units=units)
