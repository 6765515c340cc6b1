"""Packing by rules: several orders of the buffers, first and best fit, the best layout wins.

On networks one of the orders nearly always meets the lower bound; which one differs from network to network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.place.pools import PoolWindow
from atonc.compiler.plan.lives import live_bytes
from atonc.machine.base.frozen import dataclass

_Busy = list[tuple[int, int]]
_OVER = 1 << 62
_BLAME_WORK, _BLAME_ROUNDS = 30_000, 600  # buffers placed, orders tried, before giving up on a smaller extent


@dataclass(frozen=True)
class PackItem:
    """A buffer as the packer sees it; `size` is a multiple of `alignment`."""

    size: int
    first: int
    last: int
    alignment: int = 16
    traffic: int = 0
    npu_ram_only: bool = False
    address: int = -1  # where it must lie: others may have its place while it does not live


@dataclass(frozen=True)
class Problem:
    items: tuple[PackItem, ...]

    @cached_property
    def has_fixed(self) -> bool:
        return any(item.address >= 0 for item in self.items)

    @cached_property
    def live(self) -> NDArray[np.int64]:
        """Live bytes in every step."""
        return live_bytes((item.size, item.first, item.last) for item in self.items)

    @property
    def lower_bound(self) -> int:
        return int(self.live.max(initial=0))

    @property
    def peak_step(self) -> int:
        return int(self.live.argmax())

    @cached_property
    def conflicts(self) -> list[list[int]]:
        """Finds for every item those that live at the same time."""
        first = np.array([i.first for i in self.items], np.int64)
        last = np.array([i.last for i in self.items], np.int64)
        meets = (first[:, None] <= last[None, :]) & (first[None, :] <= last[:, None])
        np.fill_diagonal(meets, False)
        return [np.flatnonzero(row).tolist() for row in meets]

    @cached_property
    def orders(self) -> dict[str, list[int]]:
        items, live = self.items, self.live
        load = [int(live[i.first : i.last + 1].max()) for i in items]
        duration = [i.last - i.first + 1 for i in items]
        degree = [len(c) for c in self.conflicts]
        keys: dict[str, Callable[[int], tuple[float, ...]]] = {
            "size": lambda n: (-items[n].size, items[n].first),
            "area": lambda n: (-items[n].size * duration[n], items[n].first),
            "duration": lambda n: (-duration[n], -items[n].size),
            "conflicts": lambda n: (-degree[n], -items[n].size),
            "contention": lambda n: (-load[n], -items[n].size, -duration[n]),
            "start": lambda n: (items[n].first, -items[n].size),
        }
        return {name: self._sorted(key) for name, key in keys.items()}

    @cached_property
    def hot_first(self) -> list[int]:
        """Orders items for memories of different speed: what moves most per byte comes first."""
        return self._sorted(lambda n: (-self.items[n].traffic / self.items[n].size, -self.items[n].size))

    def _sorted(self, key: Callable[[int], tuple[float, ...]]) -> list[int]:
        return sorted(range(len(self.items)), key=lambda n: (not self.items[n].npu_ram_only, *key(n), n))


def pack(problem: Problem, windows: Sequence[PoolWindow]) -> tuple[list[int], int] | None:
    """Addresses in the first window with the smallest extent found, and that extent; None when nothing fits.

    Further windows are parts of the first, filled from the same end: for buffers that may not lie elsewhere.
    """
    window = windows[0]
    best, extent = None, window.size_bytes + 1
    for order, best_fit in attempts(problem):
        if extent <= problem.lower_bound:
            break
        found, _ = pack_in_order(problem, order, windows, best_fit, ceiling=extent - 1)
        if found is not None:
            best, extent = found, extent_of(problem, found, window)
    return None if best is None else (best, extent)


def repack(problem: Problem, windows: Sequence[PoolWindow], extent: int) -> tuple[list[int], int] | None:
    """Addresses with a smaller extent: whatever finds no room below `extent` goes first in the next round."""
    window, best = windows[0], None
    work = min(_BLAME_WORK, _BLAME_ROUNDS * len(problem.items))
    rank = {name: {n: place for place, n in enumerate(order)} for name, order in problem.orders.items()}
    blame = {name: [0] * len(problem.items) for name in rank}
    while work > 0 and extent > problem.lower_bound:
        for name, places in rank.items():
            blamed = blame[name]
            order = sorted(places, key=lambda n, b=blamed, p=places: (-b[n], p[n]))  # type: ignore[misc]
            found, failed = pack_in_order(problem, order, windows, False, ceiling=extent - 1)
            work -= len(order)
            if found is None:
                blamed[failed] += 1
            else:
                best, extent = found, extent_of(problem, found, window)
    return None if best is None else (best, extent)


def pack_windows(
    problem: Problem, windows: Sequence[PoolWindow], cost: Callable[[Sequence[int]], float]
) -> list[int] | None:
    """Addresses in several windows (each buffer in the first one that has room) with the smallest cost found."""
    best, least = None, float("inf")
    for order, best_fit in ((problem.hot_first, False), *attempts(problem)):
        found, _ = pack_in_order(problem, order, windows, best_fit)
        if found is not None and (price := cost(found)) < least:
            best, least = found, price
    return best


def pack_in_order(
    problem: Problem, order: Sequence[int], windows: Sequence[PoolWindow], best_fit: bool, ceiling: int = _OVER
) -> tuple[list[int] | None, int]:
    """One buffer after the other; `ceiling` bounds how far each window is filled. Fails with the buffer to blame."""
    addresses = [item.address for item in problem.items]
    ends = [item.address + item.size for item in problem.items]
    for number in order:
        item = problem.items[number]
        if item.address >= 0:
            continue
        busy = [(addresses[n], ends[n]) for n in problem.conflicts[number] if addresses[n] >= 0]
        busy.sort()
        for window in windows:
            if item.npu_ram_only and not window.npu_ram:
                continue
            offset = _fit(item, window, busy, best_fit, min(ceiling, window.size_bytes))
            if offset >= 0:
                addresses[number] = window.end - offset - item.size if window.downward else window.start + offset
                ends[number] = addresses[number] + item.size
                break
        else:
            return None, number
    return addresses, -1


def _fit(item: PackItem, window: PoolWindow, busy: _Busy, best_fit: bool, room: int) -> int:
    """Offset from the end of the window that is filled first, or -1."""
    size, mask = item.size, item.alignment - 1
    cursor, best, tightest = 0, -1, _OVER
    for start, end in _offsets(window, busy):
        gap = start - cursor
        if gap >= size and cursor + size <= room:
            if not best_fit:
                return cursor
            if gap < tightest:
                best, tightest = cursor, gap
        if end > cursor:
            cursor = (end + mask) & ~mask
    if best >= 0:
        return best
    return cursor if cursor + size <= room else -1


def _offsets(window: PoolWindow, busy: _Busy) -> _Busy | Iterator[tuple[int, int]]:
    if window.downward:
        edge = window.end
        return ((edge - end, edge - start) for start, end in sorted(busy, key=lambda b: -b[1]))
    base = window.start
    return [(start - base, end - base) for start, end in busy]


def attempts(problem: Problem) -> Iterator[tuple[list[int], bool]]:
    for best_fit in (False, True):
        for order in problem.orders.values():
            yield order, best_fit


def extent_of(problem: Problem, addresses: Sequence[int], window: PoolWindow) -> int:
    """How far a window is filled by what the packer was free to move."""
    free = [(a, i.size) for a, i in zip(addresses, problem.items, strict=True) if i.address < 0]
    if window.downward:
        return window.end - min((a for a, _ in free), default=window.end)
    return max((a + size for a, size in free), default=window.start) - window.start
