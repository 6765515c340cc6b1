"""Weights that live in RAM for the whole run: where there is room beside everything else, and the layout with them.

Which weights are worth it is decided by cycles (`cost.resident`). Their bytes stay in flash; the copy in RAM is a
buffer of its own (`BufferKind.RESIDENT`), which the network fills when it is initialised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atonc.compiler.place.four_bits import with_packed
from atonc.compiler.place.pools import BoardMemory, banks_of, runs, usable
from atonc.compiler.place.types import Layout, Placed
from atonc.compiler.place.usage import covered, memory_use
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, StepPlan
from atonc.machine.hw.limits import CPU_CACHE_LINE

Span = tuple[int, int]  # first address, and the first one behind


def free_spans(placed: Mapping[str, Placed], board: BoardMemory) -> list[Span]:
    """What nobody uses at any time of the chip's RAM, in whole cache lines: the processor cleans and drops lines."""
    used = [(home.address, home.end) for home in placed.values() if not home.user_allocated]
    taken = sorted((_down(start), _up(end)) for start, end in (*used, *board.overwritten))
    found = []
    for cursor, end in on_chip_spans(board):
        for start, behind in taken:
            if start < end and behind > cursor:
                found.append((cursor, start))
                cursor = max(cursor, behind)
        found.append((cursor, end))
    return [(start, end) for start, end in found if end > start]


def free_bytes(placed: Mapping[str, Placed], board: BoardMemory, steps: int) -> list[int]:
    """Counts the free bytes of the chip's RAM in every step."""
    homes = [home for home in placed.values() if not home.user_allocated]
    found = []
    for step in range(steps):
        live = [(home.address, home.end) for home in homes if home.first <= step <= home.last]
        found.append(sum(end - start - covered(live, start, end) for start, end in on_chip_spans(board)))
    return found


def on_chip_spans(board: BoardMemory) -> list[Span]:
    return [usable(run) for run in runs(board.on_chip)]


def _down(address: int) -> int:
    return address // CPU_CACHE_LINE * CPU_CACHE_LINE


def _up(address: int) -> int:
    return -(-address // CPU_CACHE_LINE) * CPU_CACHE_LINE


def resident_name(constant: str) -> str:
    return f"{constant} (resident)"


def prefetched_name(constant: str) -> str:
    return f"{constant} (prefetched)"


def with_prefetched(layout: Layout, lives: Sequence[tuple[str, int, int, int]], board: BoardMemory) -> Layout:
    """`lives`: constant, address of its copy, first and last step of the copy."""
    placed = dict(layout.placed)
    for name, address, first, last in lives:
        size = layout.placed[name].buffer.size_bytes
        buffer = Buffer(prefetched_name(name), size, BufferKind.PREFETCHED)
        pool = board.pool_name(address, address + size)
        placed[buffer.name] = Placed(buffer, address, pool, first, last, reserved_bytes=_up(size))
    return _counted_again(layout, placed, board)


def with_copies_of(
    layout: Layout, homes: Mapping[str, int], board: BoardMemory, plans: Sequence[StepPlan]
) -> Layout:
    """`homes`: constant -> address of its copy; `plans` read the copies."""
    placed, last = dict(layout.placed), max(0, len(plans) - 1)
    for name, address in homes.items():
        buffer = replace(layout.placed[name].buffer, name=resident_name(name), kind=BufferKind.RESIDENT)
        pool = board.pool_name(address, address + buffer.size_bytes)
        room = _up(buffer.size_bytes)
        placed[buffer.name] = Placed(buffer, address, pool, 0, last, copy_of=name, reserved_bytes=room)
    return _counted_again(layout, with_packed(placed, plans), board)


def _counted_again(layout: Layout, placed: Mapping[str, Placed], board: BoardMemory) -> Layout:
    return replace(layout, placed=placed, memory=memory_use(placed.values(), banks_of(board.pools)))


def reading_copies(plans: Sequence[StepPlan], constants: Mapping[str, str]) -> tuple[StepPlan, ...]:
    """The same steps, but engines read the copies; `constants`: constant -> its copy."""
    found: list[StepPlan] = []
    for plan in plans:
        if isinstance(plan, CpuPlan) or not plan.reads() & constants.keys():
            found.append(plan)
            continue
        uses = {unit: replace(use, buffer=constants.get(use.buffer, use.buffer)) for unit, use in plan.engines.items()}
        found.append(replace(plan, engines=uses))
    return tuple(found)
