"""Sums to results of 16 bits by one ARITH, a few codes less exact than two of them (`wide_results`).

    y = sat16(round((round((A[c] * acc16) >> 8) + (C[c] << 4)) >> R))

Addends of 16 bits reach over all codes because products are cut before the sum, as far as published programs cut them.
Factors have about 13 bits then. A unit less is a second chain in the same epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log2

import numpy as np

from atonc.compiler.lower.conv.requantise import Accumulated, Ints, coefficient_unit
from atonc.compiler.lower.conv.wide_results import WIDEST, WideEnd, WideRequantisation, placed, stretched, widened
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.fixed import finish, shift_right_rounded
from atonc.machine.hw.limits import MOST_OUT_SHIFT, PARTIAL_LIMIT
from atonc.machine.hw.units.arith import ArithConfig

INNER = 8  # bits that products lose before the addend: the most that was seen
LONG = 4  # bits that addends are shifted by: the most that was seen
MOST_OFF = 16.0  # codes off: beyond, two units
_USUAL_PART = 0.25  # of the largest error: what values are off in the middle


@dataclass(frozen=True)
class WideLine(WideRequantisation):
    """`addends` in steps of the products, multiples of what one step of C is; `shift` is that of both cuts."""

    @property
    def last(self) -> int:
        """R."""
        return self.shift - INNER

    @property
    def terms(self) -> Ints:
        """C."""
        return self.addends >> INNER + LONG

    def units(self, first: int, count: int, batch: int, pixels: int) -> list[ArithConfig]:
        part = slice(first, first + count)
        factors, terms = self.factors[part], self.terms[part]
        line = widened(coefficient_unit(factors, terms, batch, pixels, self.last), terms)
        return [changed(line, shift_a=INNER, shift_c=LONG), *([self.end.unit()] if self.end.has_unit else [])]

    def ariths(self, count: int) -> int:
        return 1 + int(self.end.has_unit)

    def wide(self, acc: Ints) -> Ints:
        products = shift_right_rounded(acc * self.factors, INNER)
        return self.end.codes(finish(products + (self.terms << LONG), self.last, 2, True, True))


def line_rules(acc: Accumulated, end: WideEnd, counts: Sequence[int]) -> list[WideLine | None]:
    """Rules for stretches of so many channels, one behind the other; None where one unit does not do."""
    moved = placed(acc, end)
    return [_line(moved, some, end) for some in stretched(counts)]


def _line(acc: Accumulated, some: slice, end: WideEnd) -> WideLine | None:
    scale, offset, needed = acc.scale[some], acc.offset[some], acc.needed[some]
    room = PARTIAL_LIMIT - (acc.sums if acc.sums > 1 else 0)  # roundings on the way add up
    out_shift = max(0, ceil(log2(max(float(needed.max()), 1.0) / room)))
    steep = scale * 2.0**out_shift
    steepest, farthest = float(np.abs(steep).max()), float(np.abs(offset).max())
    last = min(
        floor(log2((WIDEST + 0.49) / max(steepest, 1e-30))) - INNER,
        LONG - max(0, ceil(log2(max(farthest, 1.0) / WIDEST))),
    )
    if out_shift > MOST_OUT_SHIFT or last < 1:
        return None
    shift = INNER + last
    factors = np.rint(steep * 2.0**shift).astype(np.int64)
    terms = np.rint(offset * 2.0 ** (last - LONG)).astype(np.int64)
    gains = np.abs(factors * 2.0**-shift - steep) * np.minimum(needed / 2.0**out_shift, room)
    added = np.abs(terms * 2.0 ** (LONG - last) - offset)
    # sums are rounded as often as they go on with 16 bits, then products, and results where others do too
    largest = float((0.5 * acc.sums * np.abs(steep) + gains + added).max()) + 2.0 ** -(last + 1)
    error = largest / end.gain + end.error
    if largest / end.gain > MOST_OFF:
        return None
    own = error / WIDE_STEP
    return WideLine(out_shift, factors, terms << INNER + LONG, shift, error=own, mean_error=_USUAL_PART * own, end=end)
