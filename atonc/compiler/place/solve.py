"""Packing by constraint solving (OR-Tools, when it is installed): proves the smallest peak.

Reproducible by settings that were measured: one worker, a fixed seed, and a limit in the solver's own units of work
instead of time. Addresses count in granules of 16 bytes, which keeps the numbers small.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

from atonc.compiler.place.greedy import Problem
from atonc.compiler.place.pools import PoolWindow
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED

WORK = 1.0  # of the solver's own time; one to three seconds
_SEED = 1


@dataclass(frozen=True)
class Solved:
    addresses: list[int]
    optimal: bool


def available() -> bool:
    return importlib.util.find_spec("ortools") is not None


def _cp_model() -> Any:
    return importlib.import_module("ortools.sat.python.cp_model")


def smallest_peak(problem: Problem, window: PoolWindow, hint: Sequence[int], work: float = WORK) -> Solved | None:
    """The smallest extent from the end of the window that is filled first, starting from a known layout."""
    known = _to_offsets(problem, window, hint)
    sizes = [item.size // ALIGNED for item in problem.items]
    top = max((o + s for o, s in zip(known, sizes, strict=True)), default=0)
    model, slots, offsets = _model(problem, top)
    peak = model.new_int_var(-(-problem.lower_bound // ALIGNED), top, "peak")
    for offset, size in zip(offsets, sizes, strict=True):
        model.add(offset + size <= peak)
    model.minimize(peak)
    model.add_hint(peak, top)
    for slot, value, item in zip(slots, known, problem.items, strict=True):
        model.add_hint(slot, value // (item.alignment // ALIGNED))
    return _solve(problem, window, model, offsets, work)


def _model(problem: Problem, room: int) -> tuple[Any, list[Any], list[Any]]:
    """Offsets (slot x alignment) such that no two items that live together overlap.

    That the live sizes never exceed the room follows, but saying so guides the search.
    """
    model = _cp_model().CpModel()
    slots, offsets, spaces, times, sizes = [], [], [], [], []
    for n, item in enumerate(problem.items):
        size, step = item.size // ALIGNED, item.alignment // ALIGNED
        slot = model.new_int_var(0, max(0, room - size) // step, f"o{n}")
        spaces.append(model.new_fixed_size_interval_var(step * slot, size, f"s{n}"))
        times.append(model.new_fixed_size_interval_var(item.first, item.last - item.first + 1, f"t{n}"))
        slots.append(slot)
        offsets.append(step * slot)
        sizes.append(size)
    model.add_no_overlap_2d(times, spaces)
    model.add_cumulative(times, sizes, room)
    return model, slots, offsets


def _solve(problem: Problem, window: PoolWindow, model: Any, offsets: Sequence[Any], work: float) -> Solved | None:
    cp_model = _cp_model()
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = _SEED
    solver.parameters.max_deterministic_time = work
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    found = [int(solver.value(offset)) for offset in offsets]
    return Solved(_to_addresses(problem, window, found), status == cp_model.OPTIMAL)


def _to_offsets(problem: Problem, window: PoolWindow, addresses: Sequence[int]) -> list[int]:
    if window.downward:
        return [(window.end - a - i.size) // ALIGNED for a, i in zip(addresses, problem.items, strict=True)]
    return [(a - window.start) // ALIGNED for a in addresses]


def _to_addresses(problem: Problem, window: PoolWindow, offsets: Sequence[int]) -> list[int]:
    if window.downward:
        return [window.end - o * ALIGNED - i.size for o, i in zip(offsets, problem.items, strict=True)]
    return [window.start + o * ALIGNED for o in offsets]
