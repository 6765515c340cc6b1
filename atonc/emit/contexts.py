"""What the safety rules may know of our own programs: the memories, and the buffers that live in each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atonc.emit.program import Program
from atonc.hw.mpool import MemoryPool
from atonc.hw.safety import Buffer, Context, Pool, PoolKind, pool
from atonc.plan.types import BufferKind


def safety_contexts(program: Program, pools: Iterable[MemoryPool]) -> dict[int, Context]:
    """By number of the step; constants are left out, since no writer may be there at all."""
    memories = tuple(pool(p.name, p.base, p.size_bytes, p.writable) for p in pools)
    users = tuple(Pool(u.symbol, u.address, u.limit - u.address, PoolKind.USER) for u in program.user_io)
    homes = [home for home in program.placed.values() if home.buffer.kind != BufferKind.CONSTANT]
    alive = _alive([(home.first + 1, home.last + 1) for home in homes])
    buffers = [Buffer(home.buffer.name, home.address, home.buffer.size_bytes) for home in homes]
    numbers = {step.number for step in program.steps} | set(alive)
    return {
        number: Context((*memories, *users), tuple(map(buffers.__getitem__, alive.get(number, ()))))
        for number in sorted(numbers)
    }


def _alive(lives: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    """By step, the places in the list of those that live then, in its order. All at once: a network may have thousands
    of buffers that live for thousands of steps."""
    if not lives:
        return {}
    first, last = np.array(lives).T
    return {
        number: np.flatnonzero((first <= number) & (number <= last)).tolist()
        for number in range(int(first.min()), int(last.max()) + 1)
    }
