"""Function tables of ACTIV units: piecewise quadratics that reproduce any int8 -> int8 function as well as they can.

The 256 input codes form 32 cells of 8 codes. A cell is one segment or is cut into 2, 4 or 8 segments with consecutive
rows; several cells may share one row. At most 64 rows (A, B, C of 16 bits); the shifts of B, C and the output are
shared. y = sat8(round((A*x*x + (B << SB)*x + (C << SC)) >> SO)) with x the input code itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from atonc.compiler.lower.units.arith import Array, output_bounds
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.units.activ import FUNCTION, ROM0_ROWS, ROM1_ROWS, ActivConfig, function_table

_CURVES = (0.0, 0.5, 0.4, 0.6, 0.25, 0.75, 0.1, 0.9)  # places in the allowed range of A
_SLOPES = (0.5, 0.35, 0.65, 0.2, 0.8)
_MOST_POINTS = 16  # wider segments are thinned out while searching, and checked in full


@dataclass(frozen=True)
class Shifts:
    b: int
    c: int
    out: int
    most: int = 32767  # of a coefficient, either way


def fit_segments(low: Array, high: Array, shifts: Shifts) -> tuple[Array, Array]:
    """Rows [segments, 3] and whether they hold: low <= A*x*x + (B << SB)*x + (C << SC) <= high on every code of the
    segment. `low` and `high` are [segments, codes]; the segments lie side by side and cover -128..127."""
    segments, width = low.shape
    x = np.arange(-128, 128, dtype=np.int64).reshape(segments, width)
    far = 400 << shifts.out  # sums far beyond saturation gain nothing and would need large coefficients
    low, high = np.maximum(low, -far), np.minimum(high, far)
    rows = np.zeros((segments, 3), np.int64)
    done = np.zeros(segments, bool)
    points = np.unique(np.linspace(0, width - 1, min(width, _MOST_POINTS)).astype(np.int64))
    windows = x[:, points], low[:, points], high[:, points]
    straight = np.zeros((1, segments), np.int64), np.zeros(segments, bool)
    curves, hopeless = _curves(*windows, shifts.most) if width > 2 else straight
    for some in (curves[:1], curves[1:]):  # the first curve does for most segments, all others are tried at once
        left = np.flatnonzero(~(done | hopeless))
        if not left.size or not len(some):
            break
        a = some[:, None, left]
        seen = tuple(window[left] for window in windows)
        b = _slopes(some[:, left], seen[0], seen[1], seen[2], shifts)
        c, good = (one.reshape(-1, left.size) for one in _constants(a, b, x[left], low[left], high[left], shifts))
        found = np.flatnonzero(good.any(axis=0))
        first = good.argmax(axis=0)[found], found  # in the order of the candidates
        candidates = (np.broadcast_to(a, b.shape).reshape(c.shape), b.reshape(c.shape), c)
        rows[left[found]] = np.stack([one[first] for one in candidates], axis=1)
        done[left[found]] = True
    return rows, done


def _curves(x: Array, low: Array, high: Array, limit: int) -> tuple[Array, Array]:
    """Candidates for A per segment, [candidates, segments]: zero if allowed, then inside the range that second
    differences allow; and the segments for which they allow nothing."""
    i, j, k = _choices(x.shape[1], 3)
    xi, xj, xk = x[:, i], x[:, j], x[:, k]
    wi, wj, wk = 1 / ((xi - xj) * (xi - xk)), 1 / ((xj - xi) * (xj - xk)), 1 / ((xk - xi) * (xk - xj))  # wj < 0
    least = (low[:, i] * wi + high[:, j] * wj + low[:, k] * wk).max(axis=1)
    most = (high[:, i] * wi + low[:, j] * wj + high[:, k] * wk).min(axis=1)
    inside = [least + (most - least) * place for place in _CURVES[1:]]
    straight = np.clip(0.0, least, np.maximum(least, most))
    candidates = np.clip(np.rint(np.stack([straight, *inside])), -limit, limit).astype(np.int64)
    return candidates, least > most + 1


def _slopes(a: Array, x: Array, low: Array, high: Array, shifts: Shifts) -> Array:
    """Candidates for B once A is chosen, [curves, slopes, segments], from the differences between pairs of codes."""
    if x.shape[1] == 1:
        return np.zeros((a.shape[0], 1, a.shape[1]), np.int64)
    bend = a[..., None] * x * x
    i, j = _choices(x.shape[1], 2)
    run = (x[:, j] - x[:, i]).astype(np.float64)
    lowest, highest = low - bend, high - bend
    least = (lowest[..., j] - highest[..., i]).astype(np.float64)
    most = (highest[..., j] - lowest[..., i]).astype(np.float64)
    steepest_least, steepest_most = (least / run).max(axis=-1), (most / run).min(axis=-1)
    flat = np.where((steepest_least <= 0) & (steepest_most >= 0), 0.0, (steepest_least + steepest_most) / 2)
    places = [flat, *(steepest_least + (steepest_most - steepest_least) * place for place in _SLOPES)]
    scale = float(1 << shifts.b)
    return np.clip(np.rint(np.stack(places, axis=1) / scale), -shifts.most, shifts.most).astype(np.int64)


def _constants(a: Array, b: Array, x: Array, low: Array, high: Array, shifts: Shifts) -> tuple[Array, Array]:
    """The middle of the range left for C, and whether there is one; of all candidates for A and B."""
    rest = a[..., None] * x * x + (b[..., None] << shifts.b) * x
    least, most = (low - rest).max(axis=-1), (high - rest).min(axis=-1)
    least, most = -(-least >> shifts.c), most >> shifts.c
    least, most = np.maximum(least, -shifts.most), np.minimum(most, shifts.most)
    return (least + most) >> 1, least <= most


@cache
def _choices(points: int, many: int) -> Array:
    """All ways to take so many of them, [many, ways]."""
    return np.array(list(combinations(range(points), many)), np.int64).T


Rows = tuple[tuple[int, int, int], ...]  # A, B, C

CELL = 8
MOST_ERROR = 2
_INDEX_BITS = 5
_SLACKS = (0, 1, 2, 4, 16, 255)  # with the last one any row fits
# (B, C) shifts inside what public networks use; fine ones first, then ones that reach steeper functions
_SHIFTS = tuple(Shifts(b, c, 15) for b, c in ((2, 9), (4, 10), (6, 11), (7, 12), (8, 13)))
# with fewer bits behind the sum A reaches four times as far, for tables whose slopes change fast
_BENT = tuple(Shifts(b, c, 13) for b, c in ((5, 10), (6, 11), (7, 12)))
_SMALLER = 24576  # the largest A of public networks; their B and C are larger


@dataclass(frozen=True)
class FunctionTable:
    """A fitted table: the unit's configuration, what it computes, and how far that is from what was asked for."""

    config: ActivConfig
    codes: Array  # 256 codes, for -128..127
    error: int  # largest distance in codes
    wrong: int  # codes that differ at all
    cuts: tuple[int, ...]  # the segments that it is made of, as in _Plan
    rows: tuple[Rows, ...]
    shifts: Shifts


@dataclass(frozen=True)
class _TablePlan:
    """Which cells are cut how often, and the rows that they use."""

    cuts: tuple[int, ...]  # per cell: log2 of its segments
    rows: tuple[Rows, ...]  # per cell

    @property
    def row_count(self) -> int:
        return sum(len(rows) for rows in set(self.rows))

    def but(self, cell: int, cut: int, rows: Rows) -> _TablePlan:
        """With one cell cut in another way."""
        after = cell + 1
        cuts = (*self.cuts[:cell], cut, *self.cuts[after:])
        return _TablePlan(cuts, (*self.rows[:cell], rows, *self.rows[after:]))


def fit_table(table: Array) -> FunctionTable:
    """The best table found for 256 output codes; the caller decides whether its error is acceptable."""
    return _fit(np.ascontiguousarray(table, np.int8).tobytes())


def fits(table: Array) -> Iterator[FunctionTable]:
    """The best table, and where that may not be used, those with no coefficient larger than any that was seen: the
    nearest first."""
    yield fit_table(table)
    yield from _fit_otherwise(np.ascontiguousarray(table, np.int8).tobytes())


def bent_fits(table: Array) -> Iterator[FunctionTable]:
    """Tables with coefficients that bend more, and are coarser."""
    wanted = np.ascontiguousarray(table, np.int8)
    for shifts in _BENT:
        found = _fit_with(wanted, shifts, MOST_ERROR)
        if found is not None:
            yield found


@lru_cache(maxsize=64)
def _fit_otherwise(data: bytes) -> tuple[FunctionTable, ...]:
    wanted = np.frombuffer(data, np.int8)
    smaller = [replace(shifts, most=_SMALLER) for shifts in _SHIFTS]
    found = [fit for shifts in smaller if (fit := _fit_with(wanted, shifts, MOST_ERROR)) is not None]
    return tuple(sorted(found, key=lambda fit: (fit.error, fit.wrong)))


@lru_cache(maxsize=256)
def _fit(data: bytes) -> FunctionTable:
    wanted = np.frombuffer(data, np.int8)
    best = _fit_with(wanted, _SHIFTS[0], _SLACKS[-1])
    assert best is not None
    for shifts in _SHIFTS[1:]:
        if best.wrong == 0:
            break
        found = _fit_with(wanted, shifts, min(best.error, MOST_ERROR))  # more is of no use
        if found is not None and (found.error, found.wrong) < (best.error, best.wrong):
            best = found
    return best


def _fit_with(wanted: Array, shifts: Shifts, most_slack: int) -> FunctionTable | None:
    options = _Options(wanted, shifts)
    slacks = [slack for slack in _SLACKS if slack <= most_slack]
    plan = next((plan for slack in slacks if (plan := options.plan(slack)) is not None), None)
    if plan is None:
        return None
    config = _config(plan, shifts)
    codes = function_table(config)
    distance = np.abs(codes.astype(np.int64) - wanted)
    wrong = int(np.count_nonzero(distance))
    return FunctionTable(config, codes, int(distance.max()), wrong, plan.cuts, plan.rows, shifts)


class _Options:
    """All segments of 1 to 256 codes, fitted for a growing slack, and the cheapest way to cover the codes with them."""

    def __init__(self, wanted: Array, shifts: Shifts) -> None:
        self.wanted, self.shifts = wanted, shifts
        self.fits: dict[tuple[int, int], tuple[Array, Array]] = {}

    def fit(self, width: int, slack: int) -> tuple[Array, Array]:
        """Rows and whether they fit, for all segments of a width."""
        if (width, slack) not in self.fits:
            low, high = output_bounds(self.wanted.reshape(-1, width), self.shifts.out, slack=slack)
            self.fits[width, slack] = fit_segments(low, high, self.shifts)
        return self.fits[width, slack]

    def plan(self, slack: int) -> _TablePlan | None:
        """The cover with the fewest wrong codes that needs at most 64 rows; None if all need more."""
        cheap = [choice for cell in range(256 // CELL) if (choice := self._cell(cell, slack)) is not None]
        if len(cheap) < 256 // CELL:
            return None
        plan = self._share(_TablePlan(tuple(c for c, _ in cheap), tuple(r for _, r in cheap)), slack)
        if plan.row_count > ROM1_ROWS:
            return None
        return self._refine(plan) if slack else plan

    def _cell(self, cell: int, slack: int) -> tuple[int, Rows] | None:
        """The fewest segments that cover a cell within the slack."""
        for cut in range(4):
            segments = slice(cell << cut, (cell + 1) << cut)
            rows, good = self.fit(CELL >> cut, slack)
            if good[segments].all():
                return cut, _tuples(rows[segments])
        return None

    def _share(self, plan: _TablePlan, slack: int) -> _TablePlan:
        """One row for neighbouring cells where one polynomial fits them all, the widest runs first."""
        rows, cuts = list(plan.rows), list(plan.cuts)
        taken = np.zeros(len(cuts), bool)
        for width in (256, 128, 64, 32, 16):
            found, good = self.fit(width, slack)
            span = width // CELL
            for k in np.flatnonzero(good):
                if not taken[k * span : (k + 1) * span].any():
                    taken[k * span : (k + 1) * span] = True
                    rows[k * span : (k + 1) * span] = [_tuples(found[k : k + 1])] * span
                    cuts[k * span : (k + 1) * span] = [0] * span
        return _TablePlan(tuple(cuts), tuple(rows))

    def _refine(self, plan: _TablePlan) -> _TablePlan:
        """Spend the rows that are left on cells that can be exact, those that need the fewest rows first."""
        exact = [(choice, cell) for cell in range(len(plan.cuts)) if (choice := self._cell(cell, 0)) is not None]
        for (cut, rows), cell in sorted(exact, key=lambda entry: (entry[0][0], entry[1])):
            trial = plan.but(cell, cut, rows)
            if trial.row_count <= ROM1_ROWS:
                plan = trial
        return plan


def _tuples(rows: Array) -> Rows:
    return tuple((a, b, c) for a, b, c in rows.tolist())


def _config(plan: _TablePlan, shifts: Shifts) -> ActivConfig:
    """Rows in the order of their first use; equal groups of rows are stored once."""
    selectors, first = np.zeros(ROM0_ROWS, np.uint8), {}
    table = np.zeros((ROM1_ROWS, 3), "<i2")
    used = 0
    for cell, rows in enumerate(plan.rows):
        if rows not in first:
            first[rows] = used
            table[used : used + len(rows)] = rows
            used += len(rows)
        selectors[cell] = first[rows] | plan.cuts[cell] << 6
    if not table[used - 1].any():
        table[used - 1, 2] = 1  # rounds to 0; programs end a table at the last row that is not zero
    rounding = {"rounded": 1, "saturated": 1, "round_mode": 1, "out_bytes": 1, "signed_operand": 1}
    numbers = {"out_shift": shifts.out, "shift_c": shifts.c, "shift_b": shifts.b, "normalise": 8, "parameter": 0x7F80}
    widths = {"feature_bytes": 1, "feature_out_bytes": 1, "index_bits": _INDEX_BITS}
    settings: dict[str, Any] = {"type": FUNCTION, **rounding, **numbers, **widths}
    return ActivConfig(**settings, rom0=selectors.tobytes(), rom1=table.tobytes())
