"""How long tasks take, before anything has an address: the calibrated model on the epochs that they pack into.

Every choice among forms uses these cycles; whoever narrows candidates down before there are tasks (tilings, cuts of
depthwise convolutions) uses a bound, and says so. Until placement is done, banks are assumed: constants in flash, where
nobody wants them in RAM, every other buffer of an epoch at the start of a bank of its own, as `place.spread` tries to
have it, and in external RAM if it is larger than all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from atonc.compiler.plan.streams import with_idle_steps
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.schedule.assign import assign_epoch
from atonc.compiler.schedule.pack import packed
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.limits import PREFETCH_BYTES
from atonc.machine.hw.machine import FLASH, HYPERRAM, Machine
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.target import Target
from atonc.machine.hw.units.arith import ArithConfig

Buffers = Mapping[str, Buffer]

MOST_KNOWN = 1 << 12  # epochs whose cycles are remembered
ROW_BYTES = 6  # of a table: three numbers of 16 bits


def cycles_of(groups: Iterable[TaskGroup], buffers: Buffers, target: Target) -> int:
    """Prices groups of tasks that run one after the other."""
    return sum(epoch_cycles(tasks, buffers, target) for tasks in packed(groups, target.trust))


def epoch_cycles(tasks: Sequence[Task], buffers: Buffers, target: Target) -> int:
    """Prices tasks side by side, with the program that sets them up. Layers that look alike cost alike: networks have
    most of theirs several times over, and forms of one layer share epochs."""
    known, outline = _known_cycles(target.machine, target.programmed_by, target.weights_near), _outline(tasks, buffers)
    found = known.get(outline)
    if found is None:
        found = target.cycles(target.with_words(assumed_epoch(tasks, buffers, target))).cycles
        if len(known) == MOST_KNOWN:
            known.clear()
        known[outline] = found
    return found


@memoise
def _known_cycles(machine: Machine, programmed_by: str, weights_near: bool) -> dict[Hashable, int]:
    """Keeps known cycles by outline."""
    return {}


def _outline(tasks: Sequence[Task], buffers: Buffers) -> Hashable:
    """All that cycles follow from: everything but names, and what is in buffers and tables."""
    numbers: dict[str, int] = {}
    for task in tasks:
        for use in task.engines.values():
            numbers.setdefault(use.buffer, len(numbers))
    memories = tuple((buffers[name].kind, buffers[name].size_bytes, buffers[name].near) for name in numbers)
    return memories, tuple(
        (
            tuple((name, *_without_table(config)) for name, config in task.units.items()),
            tuple((name, numbers[use.buffer], use.config, use.follows) for name, use in task.engines.items()),
            task.wires,
        )
        for task in tasks
    )


def _without_table(config: UnitConfig) -> tuple[UnitConfig, int, int]:
    """Keeps only the size of a table, and how many of its rows hold numbers: so many does the program write."""
    if not isinstance(config, ArithConfig) or not config.table:
        return config, 0, 0
    return changed(config, table=b""), len(config.table), -(-len(config.table.rstrip(b"\0")) // ROW_BYTES)


def assumed_epoch(tasks: Sequence[Task], buffers: Buffers, target: Target) -> Epoch:
    """The epoch as placement may leave it."""
    plan = assign_epoch(tasks)
    starts = _assumed_starts([use.buffer for use in plan.engines.values()], buffers, target)
    units: dict[str, UnitConfig] = dict(plan.units)
    for name, use in plan.engines.items():
        start = starts[use.buffer]
        limit = start + buffers[use.buffer].size_bytes + PREFETCH_BYTES - 1
        config = with_idle_steps(use.config)
        units[name] = changed(config, address=start + config.address, address_limit=limit)
    return Epoch(1, units, plan.links, tuple(name for name, use in plan.engines.items() if use.config.to_memory))


def _assumed_starts(names: Iterable[str], buffers: Buffers, target: Target) -> dict[str, int]:
    """Assumes an address for every buffer of an epoch. A board without external memory has nothing outside."""
    banks = target.machine.npu_ram
    outside = {bank.kind: bank.base for bank in reversed(target.machine.memories) if bank.external}
    room = sum(bank.size_bytes for bank in banks)
    found: dict[str, int] = {}
    taken = 0
    for name in dict.fromkeys(names):
        if buffers[name].kind == BufferKind.CONSTANT and not (buffers[name].near or target.weights_near):
            found[name] = outside.get(FLASH, banks[0].base)
        elif buffers[name].size_bytes > room:
            found[name] = outside.get(HYPERRAM, banks[0].base)
        else:
            found[name] = banks[taken % len(banks)].base
            taken += 1
    return found
