"""Packing by constraint solving (OR-Tools, when it is installed): proves the smallest peak.

Reproducible by settings that were measured: one worker, a fixed seed, and a limit in the solver's own units of work
instead of time. Addresses count in granules of 16 bytes, which keeps the numbers small.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atonc.place.greedy import Problem
from atonc.place.pools import Window

GRANULE = 16
PEAK_WORK = 5.0  # units of deterministic time, roughly seconds
_SEED = 1


@dataclass(frozen=True)
class Solved:
    addresses: list[int]
    optimal: bool


def available() -> bool:
    return importlib.util.find_spec("ortools") is not None


def _cp_model() -> Any:
    return importlib.import_module("ortools.sat.python.cp_model")


def smallest_peak(problem: Problem, window: Window, hint: Sequence[int], work: float = PEAK_WORK) -> Solved | None:
    """The smallest extent from the end of the window that is filled first, starting from a known layout."""
    model, offsets = _model(problem, window, window.size_bytes // GRANULE)
    sizes = [item.size // GRANULE for item in problem.items]
    known = _offsets(problem, window, hint)
    top = max((o + s for o, s in zip(known, sizes, strict=True)), default=0)
    peak = model.new_int_var(-(-problem.lower_bound // GRANULE), top, "peak")
    for offset, size in zip(offsets, sizes, strict=True):
        model.add(offset + size <= peak)
    model.minimize(peak)
    _hint(model, offsets, known)
    model.add_hint(peak, top)
    return _solve(problem, window, model, offsets, work)


def _model(problem: Problem, window: Window, room: int) -> tuple[Any, list[Any]]:
    """Offsets such that no two items that live together overlap. The sum of live sizes is redundant but guides."""
    cp_model = _cp_model()

    model = cp_model.CpModel()
    offsets, spaces, times, sizes = [], [], [], []
    for n, item in enumerate(problem.items):
        size, step = item.size // GRANULE, item.alignment // GRANULE
        slots = max(0, room - size) // step
        if step == 1:
            offset = model.new_int_var(0, max(0, room - size), f"o{n}")
        else:
            offset = model.new_int_var_from_domain(_multiples(cp_model, step, slots), f"o{n}")
        spaces.append(model.new_fixed_size_interval_var(offset, size, f"s{n}"))
        times.append(model.new_fixed_size_interval_var(item.first, item.last - item.first + 1, f"t{n}"))
        offsets.append(offset)
        sizes.append(size)
    model.add_no_overlap_2d(times, spaces)
    model.add_cumulative(times, sizes, room)
    return model, offsets


def _multiples(cp_model: Any, step: int, slots: int) -> Any:
    return cp_model.Domain.from_values([k * step for k in range(slots + 1)])


def _offsets(problem: Problem, window: Window, addresses: Sequence[int]) -> list[int]:
    if window.downward:
        return [(window.end - a - i.size) // GRANULE for a, i in zip(addresses, problem.items, strict=True)]
    return [(a - window.start) // GRANULE for a in addresses]


def _hint(model: Any, offsets: Sequence[Any], known: Sequence[int]) -> None:
    for variable, value in zip(offsets, known, strict=True):
        model.add_hint(variable, value)


def _solve(problem: Problem, window: Window, model: Any, offsets: Sequence[Any], work: float) -> Solved | None:
    cp_model = _cp_model()

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = _SEED
    solver.parameters.max_deterministic_time = work
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    found = [solver.value(offset) * GRANULE for offset in offsets]
    if window.downward:
        addresses = [window.end - o - i.size for o, i in zip(found, problem.items, strict=True)]
    else:
        addresses = [window.start + o for o in found]
    return Solved(addresses, status == cp_model.OPTIMAL)
