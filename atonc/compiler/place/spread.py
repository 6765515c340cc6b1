"""Speed without more memory: moves buffers inside the space that a layout has, so that no bank is too busy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atonc.compiler.place.cost import Meter, Traffic
from atonc.compiler.place.greedy import Problem
from atonc.compiler.place.pools import BoardMemory, PoolWindow
from atonc.machine.base.spans import gaps
from atonc.machine.hw.limits import CPU_CACHE_LINE

_ROUNDS = 8
_SHIFTS = 24
_WORTH_CYCLES = 1e-6  # more than rounding gives


def best_shift(
    problem: Problem, addresses: Sequence[int], room: PoolWindow, traffic: Traffic, board: BoardMemory
) -> list[int]:
    """The layout as a whole, moved up so that the border between two banks lies where it helps most."""
    sizes = [item.size for item in problem.items]
    best = list(addresses)
    meter = Meter(traffic, board, sizes, best)
    least = meter.cycles
    for shift in _shifts(problem, addresses, room, board):
        if meter.at_floor:
            break
        moved = [address + shift for address in addresses]
        tried = Meter(traffic, board, sizes, moved)
        if (cycles := tried.cycles) < least:
            best, least, meter = moved, cycles, tried
    return best


def spread(
    problem: Problem, addresses: Sequence[int], rooms: Sequence[PoolWindow], traffic: Traffic, board: BoardMemory
) -> list[int]:
    """Moves one buffer at a time, as long as an epoch gets faster."""
    meter = Meter(traffic, board, [item.size for item in problem.items], list(addresses))
    for _ in range(_ROUNDS):
        movable = [number for number in meter.bound_items() if problem.items[number].address < 0]
        if not any([_improve(problem, meter, number, rooms, board) for number in movable]):
            break
    return meter.addresses


def _improve(problem: Problem, meter: Meter, number: int, rooms: Sequence[PoolWindow], board: BoardMemory) -> bool:
    free = list(_free_addresses(problem, meter.addresses, number, rooms, board))
    changes = meter.changes(number, free)
    best = int(changes.argmin()) if free else 0
    if not free or changes[best] >= -_WORTH_CYCLES:
        return False
    meter.move(number, free[best])
    return True


def _free_addresses(
    problem: Problem, addresses: Sequence[int], number: int, rooms: Sequence[PoolWindow], board: BoardMemory
) -> Iterator[int]:
    """Both ends of every gap, and in front of, behind and half in front of the borders of banks inside it."""
    item = problem.items[number]
    half = item.size // 2 // item.alignment * item.alignment
    busy = sorted((addresses[n], addresses[n] + problem.items[n].size) for n in problem.conflicts[number])
    for room in rooms:
        if item.npu_ram_only and not room.npu_ram:
            continue
        for low, high in gaps((room.start, room.end), busy, item.alignment):
            last = (high - item.size) // item.alignment * item.alignment
            if last < low:
                continue
            yield low
            if last > low:
                yield last
            for pool in board.pools:
                for border in (pool.base, pool.base - item.size, pool.base - half):
                    if low < border < last and border % item.alignment == 0:
                        yield border


def _shifts(problem: Problem, addresses: Sequence[int], room: PoolWindow, board: BoardMemory) -> list[int]:
    """So far that some buffer begins, ends or has its middle at the border of a bank."""
    end = max((a + i.size for a, i in zip(addresses, problem.items, strict=True)), default=room.end)
    spare = room.end - end
    heavy = sorted(range(len(addresses)), key=lambda n: (-problem.items[n].traffic, n))
    found: dict[int, None] = {}
    for number in heavy:
        size = problem.items[number].size
        for edge in (addresses[number], addresses[number] + size, addresses[number] + size // 2):
            for pool in board.pools:
                shift = -(-(pool.base - edge) // CPU_CACHE_LINE) * CPU_CACHE_LINE
                if 0 < shift <= spare:
                    found[shift] = None
        if len(found) >= _SHIFTS:
            break
    return list(found)[:_SHIFTS]
