"""Function tables of ACTIV units: piecewise quadratics that reproduce any int8 -> int8 function as well as they can.

The 256 input codes form 32 cells of 8 codes. A cell is one segment or is cut into 2, 4 or 8 segments with consecutive
rows; several cells may share one row. At most 64 rows (A, B, C of 16 bits); the shifts of B, C and the output are
shared. y = sat8(round((A*x*x + (B << SB)*x + (C << SC)) >> SO)) with x the input code itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.elementwise.segments import Shifts, fit_segments
from atonc.compiler.lower.units.affine import output_bounds
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.units.activ import FUNCTION, ROM0_ROWS, ROM1_ROWS, ActivConfig, function_table

Array = NDArray[Any]

CELL = 8
MOST_ERROR = 2
_INDEX_BITS = 5
_SLACKS = (0, 1, 2, 4, 16, 255)  # with the last one any row fits
# (B, C) shifts inside what public networks use; fine ones first, then ones that reach steeper functions
_SHIFTS = tuple(Shifts(b, c, 15) for b, c in ((2, 9), (4, 10), (6, 11), (7, 12), (8, 13)))
_SMALLER = 24576  # the largest A of public networks; their B and C are larger


@dataclass(frozen=True)
class FunctionTable:
    """A fitted table: the unit's configuration, what it computes, and how far that is from what was asked for."""

    config: ActivConfig
    codes: Array  # 256 codes, for -128..127
    error: int  # largest distance in codes
    wrong: int  # codes that differ at all
    cuts: tuple[int, ...]  # the segments that it is made of, as in _Plan
    rows: tuple[tuple[tuple[int, int, int], ...], ...]
    shifts: Shifts


@dataclass(frozen=True)
class _TablePlan:
    """Which cells are cut how often, and the rows that they use."""

    cuts: tuple[int, ...]  # per cell: log2 of its segments
    rows: tuple[tuple[tuple[int, int, int], ...], ...]  # per cell


def fit_table(table: Array) -> FunctionTable:
    """The best table found for 256 output codes; the caller decides whether its error is acceptable."""
    return _fit(np.ascontiguousarray(table, np.int8).tobytes())


def fits(table: Array) -> Iterator[FunctionTable]:
    """The best table, and where that may not be used, those with no coefficient larger than any that was seen: the
    nearest first."""
    yield fit_table(table)
    yield from _fit_otherwise(np.ascontiguousarray(table, np.int8).tobytes())


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
        self.covered: dict[tuple[int, int], Array] = {}

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
        if _row_count(plan) > ROM1_ROWS:
            return None
        return self._refine(plan) if slack else plan

    def _cell(self, cell: int, slack: int) -> tuple[int, tuple[tuple[int, int, int], ...]] | None:
        """The fewest segments that cover a cell within the slack."""
        for cut in range(4):
            parts = 1 << cut
            if self._covered(cut, slack)[cell]:
                rows, _ = self.fit(CELL >> cut, slack)
                return cut, _tuples(rows[cell * parts : (cell + 1) * parts])
        return None

    def _covered(self, cut: int, slack: int) -> Array:
        """Says for every cell whether all segments of a cut fit."""
        if (cut, slack) not in self.covered:
            _, good = self.fit(CELL >> cut, slack)
            self.covered[cut, slack] = np.asarray(good.reshape(-1, 1 << cut).all(axis=1))
        return self.covered[cut, slack]

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
            trial = _TablePlan(_replaced(plan.cuts, cell, cut), _replaced(plan.rows, cell, rows))
            if _row_count(trial) <= ROM1_ROWS:
                plan = trial
        return plan


def _replaced(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _tuples(rows: Array) -> tuple[tuple[int, int, int], ...]:
    return tuple((a, b, c) for a, b, c in rows.tolist())


def _row_count(plan: _TablePlan) -> int:
    return sum(len(rows) for rows in set(plan.rows))


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
    return ActivConfig(
        type=FUNCTION,
        feature_bytes=1,
        feature_out_bytes=1,
        rounded=1,
        saturated=1,
        out_bytes=1,
        round_mode=1,
        parameter=0x7F80,
        normalise=8,
        out_shift=shifts.out,
        shift_c=shifts.c,
        shift_b=shifts.b,
        signed_operand=1,
        index_bits=_INDEX_BITS,
        rom0=selectors.tobytes(),
        rom1=table.tobytes(),
    )
