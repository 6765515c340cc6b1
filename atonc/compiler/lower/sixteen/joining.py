"""Two streams of 16 bits become codes: a weighted sum, clipped by the ends of 16 bits.

No published ARITH clips results of 16 bits. Saturation does: numbers are moved until the limit is an end of the format,
and back.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.conv.wide import SUM
from atonc.compiler.lower.conv.wide_results import SCALAR
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.arithmetic import limited
from atonc.compiler.plan.coarse import HIGHEST, LOWEST
from atonc.compiler.select.rules import WIDE_CLIP
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.arith import ArithConfig

Ints = NDArray[np.int64]

_LONG = 4  # bits that an addend is shifted by where 16 bits are too few for it, as seen


@dataclass(frozen=True)
class WideSum:
    """clip(a * x + b * y + offset), where both are numbers of 16 bits."""

    a: int = 1
    b: int = 1
    low: int = LOWEST
    high: int = HIGHEST
    offset: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        """What is added while an end of 16 bits limits the numbers, one after the other."""
        upper = (HIGHEST - self.high,) if self.high < HIGHEST or self.low <= LOWEST else ()
        return (*upper, LOWEST - self.low) if self.low > LOWEST else upper

    def units(self) -> list[ArithConfig]:
        """The first takes both streams."""
        addend = self.steps[0] + self.offset
        even = addend % 2 == 0 and not LOWEST <= addend <= HIGHEST
        if not LOWEST <= addend >> even <= HIGHEST:
            raise Refusal(WIDE_CLIP, f"an addend of {addend}", "16 bits, or 17 if it is even", "use another clip")
        first = changed(SUM, a=self.a, b=self.b, c=addend >> even, shift_c=int(even))
        return [first, *(move_unit(step) for step in self._moves(self.steps))]

    @property
    def ahead(self) -> int:
        """What may be added before a saturation that does the lower limit."""
        return LOWEST - self.low

    def back(self) -> list[int]:
        """What is added behind it."""
        return [-self.ahead] if self.ahead else []

    def back_units(self) -> list[ArithConfig]:
        return [move_unit(step) for step in self.back()]

    def moves(self) -> list[ArithConfig]:
        """The same limits for one stream, which comes as it is; none without limits."""
        return [move_unit(step) for step in self._moves((0, *self.steps))]

    def _moves(self, steps: tuple[int, ...]) -> list[int]:
        return [after - before for before, after in pairwise((*steps, 0)) if after != before]

    def __call__(self, x: Ints, y: Ints) -> Ints:
        total = limited(self.a * x + self.b * y + self.steps[0] + self.offset, 16)
        for step in self._moves(self.steps):
            total = limited(total + step, 16)
        return total


def move_unit(step: int) -> ArithConfig:
    """x + step, limited to 16 bits."""
    if LOWEST <= step <= HIGHEST:
        return changed(SCALAR, a=2, c=step, shift_c=1, shift_out=1)
    if step % 2 or not LOWEST <= step // 2 <= HIGHEST:
        raise Refusal(WIDE_CLIP, f"a clip that moves codes by {step}", "even, at most 65,534", "use another clip")
    return changed(SCALAR, a=1 << _LONG - 1, c=step // 2, shift_c=_LONG, shift_out=_LONG - 1)


def wide_clip(clip: tuple[int, int] | None) -> tuple[int, int]:
    low, high = clip or (LOWEST, HIGHEST)
    return max(LOWEST, int(low)), min(HIGHEST, int(high))
