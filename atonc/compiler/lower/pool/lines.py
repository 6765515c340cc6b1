"""Lines from means to codes: those that a unit may be relied on to compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.pool.addends import with_best_addend
from atonc.compiler.lower.pool.means import Line
from atonc.compiler.lower.units.pool import MOST_MULTIPLIER
from atonc.compiler.lower.units.trusted import first_trusted
from atonc.compiler.ops.rounding import lift, rounding_of
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.safety.evidence.trust import operands

_ABOVE_ZERO = 16  # codes by which means usually are above the zero point
_MOSTLY_ABOVE = -64  # with a zero point below, most codes are above it
_SHORTER = 3  # bits by which coefficients may be shorter, less one, where only such were seen


def line_of(op: Op, ends: tuple[Tensor, Tensor], pixels: int, divisor: int, trust: Trust) -> Line:
    """Codes of the mean, or of the sum; of `divisor` pixels so many are real, the others stand for zero."""
    x, y = ends
    gain = gain_of(op, ends, pixels)
    offset = y.zero_point - x.zero_point * gain * pixels / divisor
    line = Line.of(gain, offset, op.attrs.get("clip"), divisor=divisor, most=_most_multiplier(trust))
    return _trusted(line, lambda shorter: shorter, trust)


def mean_line(op: Op, ends: tuple[Tensor, Tensor], pixels: int, trust: Trust) -> Line:
    """Coefficients for the means that occur. Ties go away from the zero point, behind a ReLU that is upwards; where the
    codes themselves are rounded, the unit does the same."""
    x, y = ends
    gain = gain_of(op, ends, pixels)
    offset, usual = y.zero_point - x.zero_point * gain, x.zero_point + _ABOVE_ZERO
    rounding, clip = rounding_of(op, [x], y), op.attrs.get("clip")
    lifted = float(np.max(lift(rounding, y, clip)))
    turn = y.zero_point + rounding.zero  # the code that ties go away from
    ties_up = turn < _MOSTLY_ABOVE
    line = Line.of(gain, offset + lifted, clip, usual, pixels, ties_up, _most_multiplier(trust))
    zeros = x.zero_point, y.zero_point
    return _trusted(line, lambda one: with_best_addend(one, rounding, gain, zeros, usual, pixels), trust)


def gain_of(op: Op, ends: tuple[Tensor, Tensor], pixels: int) -> float:
    """Codes of the result for a code of the mean."""
    x, y = ends
    return x.scale / y.scale * (pixels if op.kind == "sum" else 1.0)


def _trusted(line: Line, finish: Callable[[Line], Line], trust: Trust) -> Line:
    def lines() -> Iterator[Line]:
        yield from (finish(line.shorter(bits)) for bits in range(min(_SHORTER, line.shift + 1)))

    return first_trusted(lines(), Line.units, trust)


def _most_multiplier(trust: Trust) -> int:
    return operands("POOL MULVAL", "global avg", (1 << 14, MOST_MULTIPLIER), trust)[1]
