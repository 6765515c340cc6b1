"""Sums to results of 16 bits: one ARITH scales them, and a second one adds what is left of the bias.

    x = sat16(round((A[c] * acc16 + C[c]) >> R)),   y = sat16(w * x + B[c])

Published programs scale sums to 16 bits with addends of 16 bits only, so C holds less than a code of the bias and B the
whole codes. Without any B the second unit falls away. Results without their bias may leave 16 bits where those with it
do not: then x counts pairs of codes, and w is 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atonc.compiler.lower.conv.coefficients import Coefficients
from atonc.compiler.lower.conv.requantise import Accumulated, Ints, Requantisation, best_rules, coefficient_unit
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.fixed import finish
from atonc.machine.hw.units.arith import ArithConfig

CODES = 1 << 16  # that results have
WIDEST = (1 << 15) - 1
MOST_SHIFT = 14  # with which an addend of 16 bits holds a code
WHOLE = 1e18  # whole codes stand apart from the addends: no bound


@dataclass(frozen=True)
class WideRequantisation(Requantisation):
    """`addends` are biases in steps of the products, however long; errors count in steps of `WIDE_STEP` codes."""

    weight: int = 1  # w: 1 or 2

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
        cut = self.shift + self.weight - 1
        scale = _wide(coefficient_unit(self.factors[part], self.rest[part], batch, pixels, cut), self.rest[part])
        if not self.whole.any():  # of all channels: lanes of a chain have equal units
            return [scale]
        whole = self.whole[part]
        if np.abs(self.whole).max() <= WIDEST:
            add = coefficient_unit(np.full(count, 2 * self.weight), whole, batch, pixels, 1)
            return [scale, changed(_wide(add, whole), shift_c=1)]
        add = coefficient_unit(np.full(count, 8 * self.weight), whole >> 1, batch, pixels, 3)  # 8*w*x + (B/2 << 4)
        return [scale, changed(_wide(add, whole >> 1), shift_c=4)]

    def ariths(self, count: int) -> int:
        return 2 if self.whole.any() else 1

    def apply(self, sums: Ints) -> Ints:
        return self.wide(finish(sums.astype(np.int64), self.out_shift, 2, True, True))

    def wide(self, acc: Ints) -> Ints:
        """From sums of 16 bits."""
        scaled = finish(acc * self.factors + self.rest, self.shift + self.weight - 1, 2, True, True)
        return np.clip(self.weight * scaled + self.whole, -WIDEST - 1, WIDEST)


def weighed(rule: WideRequantisation, reach: float) -> tuple[WideRequantisation, float]:
    """The same for results that go so far without their bias, and the codes that this costs."""
    if not rule.whole.any() or reach <= WIDEST:
        return rule, 0.0
    return replace(rule, weight=2), 0.5 + max(0.0, reach - 2 * WIDEST)


def _wide(unit: ArithConfig, addends: Ints) -> ArithConfig:
    """Results of 16 bits, and addends of as many."""
    unit = changed(unit, combine_bc=0, out_bytes=2)
    if not unit.is_vector:
        return changed(unit, b=0, c=int(addends[0]))
    rows = unit.rows().copy()
    rows[: addends.size, 1] = 0
    rows[: addends.size, 2] = addends
    return changed(unit, a=1, table=rows.tobytes())


def wide_rules(acc: Accumulated, counts: Sequence[int], within: Coefficients) -> list[WideRequantisation]:
    """Rules for stretches of so many channels, one behind the other."""
    found, first = [], 0
    for rule in best_rules(acc, None, counts, within._replace(addend=WHOLE, shift=MOST_SHIFT)):
        wide = WideRequantisation(rule.out_shift, rule.factors, rule.addends, max(rule.shift, 1))
        if rule.shift < 1:
            wide = replace(wide, factors=rule.factors * 2, addends=rule.addends * 2)
        if abs(wide.factors).max(initial=0) > WIDEST:
            seen = f"factors of {abs(wide.factors).max()}"
            raise Refusal("coefficients", seen, f"{WIDEST}", "check the scales: they differ beyond all use")
        most = 2 * WIDEST << wide.shift  # what two steps of 16 bits hold; beyond, another way to read features may do
        lost = max(0, int(np.abs(wide.addends).max(initial=0)) - most) / 2.0**wide.shift
        some = slice(first, first + wide.factors.size)
        first = some.stop
        wide = replace(wide, addends=np.clip(wide.addends, -most, most))
        wide, more = weighed(wide, float((np.abs(acc.scale[some]) * acc.needed[some]).max(initial=0.0)))
        error, mean = ((one + lost + more) / WIDE_STEP for one in (rule.error, rule.mean_error))
        found.append(replace(wide, error=error, mean_error=mean))
    return found
