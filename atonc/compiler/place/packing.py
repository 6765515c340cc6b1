"""Which memories: the fastest alone, else all of the chip as one region, else external RAM too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atonc.compiler.place import greedy, solve
from atonc.compiler.place.cost import Meter, Traffic
from atonc.compiler.place.greedy import Problem
from atonc.compiler.place.pools import BoardMemory, PoolWindow, run_windows, same_end, segment_windows, usable
from atonc.compiler.place.spread import best_shift, spread
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class PackingProblem:
    problem: Problem
    board: BoardMemory
    traffic: Traffic
    taken: Mapping[str, int]  # pool -> first address behind its constants
    fast: bool  # spread over banks

    def cycles(self, addresses: Sequence[int]) -> float:
        sizes = [item.size for item in self.problem.items]
        return Meter(self.traffic, self.board, sizes, list(addresses)).cycles


@dataclass(frozen=True)
class Packing:
    """Addresses of the RAM buffers, in the order of the problem's items."""

    addresses: Sequence[int]
    solver: str = "greedy"
    proven: bool = False  # no layout has a smaller extent


def pack(job: PackingProblem) -> Packing | None:
    fast, whole = segment_windows(job.board), run_windows(job.board)
    for windows in _regions(fast, whole):
        if (found := _in_one_region(job, windows)) is not None:
            return _without_regard_for_pins(job, windows, found) if job.problem.has_fixed else found
    outside = _external_windows(job)
    for rest in ([], outside) if outside else ([],):
        choices = [c for c in ([*whole, *fast, *rest], [*fast, *whole, *rest], [*fast, *rest]) if c]
        layouts = [greedy.pack_windows(job.problem, windows, job.cycles) for windows in choices]
        fitting = [addresses for addresses in layouts if addresses is not None]
        if fitting:
            best = min(fitting, key=job.cycles)
            return Packing(_spread_beside_spills(job, best, [*whole, *fast]))
    return None


def _spread_beside_spills(job: PackingProblem, addresses: Sequence[int], windows: Sequence[PoolWindow]) -> list[int]:
    """In the space that the layout has on the chip; in all of it only where that is faster."""
    rooms = (_filled(job.problem, addresses, windows), windows)
    close, wide = (spread(job.problem, addresses, room, job.traffic, job.board) for room in rooms)
    return wide if job.cycles(wide) < job.cycles(close) else close


def _filled(problem: Problem, addresses: Sequence[int], windows: Sequence[PoolWindow]) -> list[PoolWindow]:
    """The parts of windows between the first and the last byte that a layout has there: what it leaves stays free."""
    ends = [(address, address + item.size) for address, item in zip(addresses, problem.items, strict=True)]
    found = []
    for window in windows:
        inside = [(low, end) for low, end in ends if window.start <= low and end <= window.end]
        if inside:
            start, end = min(low for low, _ in inside), max(end for _, end in inside)
            found.append(PoolWindow(start, end, npu_ram=window.npu_ram))
    return found


def _regions(fast: Sequence[PoolWindow], whole: Sequence[PoolWindow]) -> list[list[PoolWindow]]:
    """Single regions to try, each with the part of it for buffers that need the NPU's own RAM."""
    found = [[fast[0]]] if fast else []
    for region in whole[:1]:
        parts = [part for window in fast if window.npu_ram and (part := same_end(window, region))]
        found.append([region, *parts])
    return found


def _in_one_region(job: PackingProblem, windows: Sequence[PoolWindow]) -> Packing | None:
    problem, window = job.problem, windows[0]
    if problem.lower_bound > window.size_bytes and not problem.has_fixed:
        return None
    found = greedy.pack(problem, windows)
    extent = window.size_bytes + 1 if found is None else found[1]
    if extent > problem.lower_bound:
        found = greedy.repack(problem, windows, extent) or found
    if found is None:
        return None
    (addresses, extent), name = found, "greedy"
    proven = extent == problem.lower_bound and not problem.has_fixed
    if not proven and len(windows) == 1 and not problem.has_fixed and solve.available():
        solved = solve.smallest_peak(problem, window, addresses)
        if solved is not None:
            addresses, name, proven = solved.addresses, "cp-sat", solved.optimal
    if job.fast:
        addresses = _faster(job, addresses, window)
    return Packing(addresses, name, proven)


def _without_regard_for_pins(job: PackingProblem, windows: Sequence[PoolWindow], found: Packing) -> Packing:
    """The layout as if nothing were pinned, with what is pinned taken to its place, where that is free and faster."""
    problem = job.problem
    loose = Problem(tuple(replace(item, address=-1) for item in problem.items))
    other = _in_one_region(replace(job, problem=loose), windows)
    if other is None:
        return found
    addresses = [
        item.address if item.address >= 0 else address
        for item, address in zip(problem.items, other.addresses, strict=True)
    ]
    pinned = [n for n, item in enumerate(problem.items) if item.address >= 0]
    free = all(_apart(problem, addresses, n, other) for n in pinned for other in problem.conflicts[n])
    faster = free and job.cycles(addresses) < job.cycles(found.addresses)
    return replace(found, addresses=addresses) if faster else found


def _apart(problem: Problem, addresses: Sequence[int], one: int, other: int) -> bool:
    ends = addresses[one] + problem.items[one].size, addresses[other] + problem.items[other].size
    return ends[0] <= addresses[other] or ends[1] <= addresses[one]


def _faster(job: PackingProblem, addresses: Sequence[int], window: PoolWindow) -> list[int]:
    """The same extent, but at the place and in the order that keeps the banks apart."""
    if not window.downward and not job.problem.has_fixed:
        addresses = best_shift(job.problem, addresses, window, job.traffic, job.board)
    free = [(a, a + item.size) for a, item in zip(addresses, job.problem.items, strict=True) if item.address < 0]
    start, end = min((low for low, _ in free), default=window.start), max((high for _, high in free), default=0)
    room = PoolWindow(start, max(start, end), npu_ram=window.npu_ram)
    return spread(job.problem, addresses, [room], job.traffic, job.board)


def _external_windows(job: PackingProblem) -> list[PoolWindow]:
    found = []
    for pool in job.board.external_ram:
        start, end = usable([pool])
        start = -(-job.taken.get(pool.name, start) // 32) * 32
        found.append(PoolWindow(start, end, npu_ram=False))
    return found
