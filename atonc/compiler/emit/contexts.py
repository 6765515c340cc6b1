"""What the safety rules may know of our own programs: the memories, and the buffers that live in each step."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from atonc.compiler.emit.program import Program
from atonc.compiler.plan.types import BufferKind, CpuPlan
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.safety import CheckedBuffer, CheckedPool, PoolKind, SafetyContext, pool
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust
from atonc.machine.hw.safety.evidence.epochs import BY_CPU, BY_ENGINES

Life = tuple[int, int]  # numbers of the first and the last step


def safety_contexts(
    program: Program, pools: Iterable[MemoryPool], trust: Trust = PUBLISHED
) -> dict[int, SafetyContext]:
    """By number of the step; constants are left out, since no writer may be there at all."""
    memories = tuple(pool(p.name, p.base, p.size_bytes, p.writable) for p in pools)
    users = tuple(CheckedPool(u.symbol, u.address, u.limit - u.address, PoolKind.USER) for u in program.user_io)
    homes = [home for home in program.placed.values() if home.buffer.kind != BufferKind.CONSTANT]
    writers = _writers(program)
    buffers = [
        CheckedBuffer(home.buffer.name, home.address, home.buffer.size_bytes, tuple(writers[home.buffer.name]))
        for home in homes
    ]
    lives = [(home.first + 1, home.last + 1) for home in homes]
    known = partial(SafetyContext, (*memories, *users), trust=trust)
    found = {step.number: known() for step in program.steps}
    return found | {number: known(buffers=alive) for number, alive in _alive(buffers, lives)}


def _writers(program: Program) -> Mapping[str, Collection[str]]:
    """By buffer: who writes it in an inference; inputs are written for it."""
    found = defaultdict[str, dict[str, None]](dict)
    for name, home in program.placed.items():
        if home.buffer.kind == BufferKind.INPUT:
            found[name][str(BY_CPU.value)] = None
    for step in program.steps:
        if isinstance(step.plan, CpuPlan):
            written = [(name, BY_CPU) for name in step.plan.outputs]
        else:
            written = [(use.buffer, BY_ENGINES) for use in step.plan.engines.values() if use.writes]
        for name, who in written:
            found[name][str(who.value)] = None
    return found


def _alive(buffers: Sequence[CheckedBuffer], lives: Sequence[Life]) -> Iterator[tuple[int, tuple[CheckedBuffer, ...]]]:
    """Step by step, in the order of the list. A network may have thousands of buffers that live for thousands of steps:
    only those that come and go are looked at."""
    coming, going = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for place, (first, last) in enumerate(lives):
        if first <= last:
            coming[first].append(place)
            going[last].append(place)
    places: list[int] = []
    alive: list[CheckedBuffer] = []
    for number in range(min(coming, default=0), max(going, default=-1) + 1):
        for place in coming[number]:
            at = bisect_left(places, place)
            places.insert(at, place)
            alive.insert(at, buffers[place])
        yield number, tuple(alive)
        for place in going[number]:
            at = bisect_left(places, place)
            del places[at], alive[at]
