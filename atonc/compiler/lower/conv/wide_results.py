"""Sums to results of 16 bits: one ARITH scales them, and a second one adds what is left of the bias.

    x = sat16(round((A[c] * acc16 + C[c]) >> R)),   y = sat16(w * x + B[c])

Published programs scale sums to 16 bits with addends of 16 bits only, so C holds less than a code of the bias and B the
whole codes. Without any B the second unit falls away. Results without their bias may leave 16 bits where those with it
do not: then x counts pairs of codes, or fours, and w is 2 or 4.

A third unit ends results that have a ReLU or are stored on a coarser scale (`WideEnd`): the codes before it reach both
ends of 16 bits exactly where the clip is, so saturation clips, and the unit moves and shifts them into place.

One ARITH instead of two, a few codes less exact (`WideLine`):

    y = sat16(round((round((A[c] * acc16) >> 8) + (C[c] << 4)) >> R))

Addends of 16 bits reach over all codes because products are cut before the sum, as far as published programs cut them.
Factors have about 13 bits then. A unit less is a second chain in the same epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log2

import numpy as np

from atonc.compiler.lower.conv.requantise import (
    Accumulated,
    Coefficients,
    Ints,
    Requantisation,
    best_rules,
    coefficient_unit,
)
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.plan.coarse import HIGHEST, LOWEST, CoarseCodes
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.compiler.select.rules import SCALES, WIDE_CLIP
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import MOST_OUT_SHIFT, PARTIAL_LIMIT
from atonc.machine.hw.units.arith import ArithConfig

CODES = 1 << 16  # that results have
WIDEST = HIGHEST
MOST_SHIFT = 14  # with which an addend of 16 bits holds a code
WHOLE = 1e18  # whole codes stand apart from the addends: no bound
MOST_WEIGHT = 4  # w
SCALAR = ArithConfig(
    a=1, bytes_x=2, out_bytes_x=2, bytes_y=2, out_bytes_y=2, out_bytes=2, rounded=1, saturated=1, round_mode=1
)  # one stream of 16 bits, and coefficients for all of it


@dataclass(frozen=True)
class WideEnd:
    """What becomes of 16-bit results before they are written: stored = sat16(round((gain * code + moved + added) >>
    shift))."""

    gain: int = 1  # steps of a result for a code
    moved: int = 0  # what a code of 0 has in front of the last unit
    shift: int = 0
    coarse: CoarseCodes | None = None

    @property
    def has_unit(self) -> bool:
        return self.shift > 0

    @property
    def added(self) -> int:
        """By the last unit."""
        return (self.coarse.zero if self.coarse else 0) * (1 << self.shift) - self.moved

    def unit(self) -> ArithConfig:
        return changed(SCALAR, c=self.added >> 1, shift_c=1, shift_out=self.shift)

    @property
    def error(self) -> float:
        """In codes."""
        return 0.5 * (1 << self.shift) / self.gain if self.has_unit else 0.0


AS_CODES = WideEnd()


def wide_end(clip: tuple[int, int] | None, coarse: CoarseCodes | None) -> WideEnd:
    """A ReLU counts half codes from the lowest number on, so that it is the lower end of 16 bits and the highest code
    the upper one."""
    low, high = (max(LOWEST, int(clip[0])), min(HIGHEST, int(clip[1]))) if clip else (LOWEST, HIGHEST)
    dropped = coarse.dropped if coarse else 0
    if (low, high) == (0, HIGHEST):
        return WideEnd(2, LOWEST, dropped + 1, coarse)
    if low > LOWEST or high < HIGHEST:
        seen = f"a clip at {low} and {high}"
        raise Refusal(WIDE_CLIP, seen, f"0 and {HIGHEST}, or none", "clip in a step of its own")
    if coarse is None or dropped:
        return WideEnd(1, 0, dropped, coarse)
    return WideEnd(1, coarse.zero, 0, coarse)


@dataclass(frozen=True)
class WideRequantisation(Requantisation):
    """`addends` are biases in steps of the products, however long; errors count in steps of `WIDE_STEP` codes."""

    weight: int = 1  # w: a power of two
    end: WideEnd = AS_CODES

    @property
    def whole(self) -> Ints:
        """B: whole codes of every channel; even ones where 16 bits are too few for some."""
        found: Ints = (self.addends + (1 << self.shift >> 1)) >> self.shift
        return found if np.abs(found).max(initial=0) <= WIDEST else found & ~1

    @property
    def rest(self) -> Ints:
        """C: what is less than a code, or than two."""
        return np.minimum(self.addends - (self.whole << self.shift), WIDEST)

    def units(self, first: int, count: int, batch: int, pixels: int) -> list[ArithConfig]:
        part = slice(first, first + count)
        rest = self.rest[part]
        scale = widened(coefficient_unit(self.factors[part], rest, batch, pixels, self._cut), rest)
        last = [self.end.unit()] if self.end.has_unit else []
        if not self.whole.any():  # of all channels: lanes of a chain have equal units
            return [scale, *last]
        whole = self.whole[part]
        if np.abs(self.whole).max() <= WIDEST:
            add = coefficient_unit(np.full(count, 2 * self.weight), whole, batch, pixels, 1)
            return [scale, changed(widened(add, whole), shift_c=1), *last]
        add = coefficient_unit(np.full(count, 8 * self.weight), whole >> 1, batch, pixels, 3)  # 8*w*x + (B/2 << 4)
        return [scale, changed(widened(add, whole >> 1), shift_c=4), *last]

    @property
    def _cut(self) -> int:
        """Bits behind the products."""
        return self.shift + self.weight.bit_length() - 1

    def ariths(self, count: int) -> int:
        return 1 + int(self.whole.any()) + int(self.end.has_unit)


def weighed(rule: WideRequantisation, reach: float) -> tuple[WideRequantisation, float]:
    """The same for results that go so far without their bias, and the codes that this costs."""
    if not rule.whole.any() or reach <= WIDEST:
        return rule, 0.0
    weight = MOST_WEIGHT if rule.end.gain > 1 and reach > 2 * WIDEST else 2
    return replace(rule, weight=weight), weight / 4 + max(0.0, reach - weight * WIDEST)


def widened(unit: ArithConfig, addends: Ints) -> ArithConfig:
    """Results of 16 bits, and addends of as many."""
    unit = changed(unit, combine_bc=0, out_bytes=2)
    if not unit.is_vector:
        return changed(unit, b=0, c=int(addends[0]))
    rows = unit.rows().copy()
    rows[: addends.size, 1] = 0
    rows[: addends.size, 2] = addends
    return changed(unit, a=1, table=rows.tobytes())


def placed(acc: Accumulated, end: WideEnd) -> Accumulated:
    """In front of the last unit."""
    scale, offset, usual = acc.scale * end.gain, acc.offset * end.gain + end.moved, acc.usual * end.gain + end.moved
    return replace(acc, scale=scale, offset=offset, usual=usual)


def stretched(counts: Sequence[int]) -> Iterator[slice]:
    """Stretches of so many channels, one behind the other."""
    first = 0
    for count in counts:
        yield slice(first, first + count)
        first += count


def wide_rules(acc: Accumulated, end: WideEnd, counts: Sequence[int], within: Coefficients) -> list[WideRequantisation]:
    """Rules for stretches of so many channels, one behind the other."""
    found, acc = [], placed(acc, end)
    rules = best_rules(acc, None, counts, within._replace(addend=WHOLE, shift=MOST_SHIFT))
    for rule, some in zip(rules, stretched(counts), strict=True):
        wide = WideRequantisation(rule.out_shift, rule.factors, rule.addends, max(rule.shift, 1), end=end)
        if rule.shift < 1:
            wide = replace(wide, factors=rule.factors * 2, addends=rule.addends * 2)
        if abs(wide.factors).max(initial=0) > WIDEST:
            seen = f"factors of {abs(wide.factors).max()}"
            raise Refusal(SCALES, seen, f"{WIDEST}", "check the scales: they differ beyond all use")
        most = 2 * WIDEST << wide.shift  # what two steps of 16 bits hold; beyond, another way to read features may do
        lost = max(0, int(np.abs(wide.addends).max(initial=0)) - most) / 2.0**wide.shift
        wide = replace(wide, addends=np.clip(wide.addends, -most, most))
        wide, more = weighed(wide, float((np.abs(acc.scale[some]) * acc.needed[some]).max(initial=0.0)))
        own = (rule.error, rule.mean_error)
        error, mean = (((one + lost + more) / end.gain + end.error) / WIDE_STEP for one in own)
        found.append(replace(wide, error=error, mean_error=mean))
    return found


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
