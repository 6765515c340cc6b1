"""What the safety rules may know of our own programs: the memories, and the buffers that live in each step."""

from __future__ import annotations

from collections.abc import Iterable

from atonc.emit.program import Program
from atonc.hw.mpool import MemoryPool
from atonc.hw.safety import Buffer, Context, Pool, PoolKind, pool
from atonc.plan.types import BufferKind


def safety_contexts(program: Program, pools: Iterable[MemoryPool]) -> dict[int, Context]:
    """By number of the step; constants are left out, since no writer may be there at all."""
    memories = tuple(pool(p.name, p.base, p.size_bytes, p.writable) for p in pools)
    users = tuple(Pool(u.symbol, u.address, u.limit - u.address, PoolKind.USER) for u in program.user_io)
    alive: dict[int, list[Buffer]] = {step.number: [] for step in program.steps}
    for home in program.placed.values():
        if home.buffer.kind != BufferKind.CONSTANT:
            buffer = Buffer(home.buffer.name, home.address, home.buffer.size_bytes)
            for number in range(home.first + 1, home.last + 2):
                alive.setdefault(number, []).append(buffer)
    return {number: Context((*memories, *users), tuple(buffers)) for number, buffers in alive.items()}
