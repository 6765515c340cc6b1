"""How large the coefficients of a channel may be."""

from __future__ import annotations

from typing import NamedTuple

from atonc.hw.memoise import memoise
from atonc.hw.safety.evidence import Trust
from atonc.hw.safety.evidence.seen import operands

A_MAX = (1 << 15) - 1
C_MAX = 2.0**31 - 2**24
_WORD = (-(1 << 15), (1 << 15) - 1)


class Coefficients(NamedTuple):
    factor: int = A_MAX  # A
    addend: float = C_MAX  # B and C together


WHOLE_FORMAT = Coefficients()


@memoise
def coefficients(trust: Trust) -> Coefficients:
    """All numbers of their format, or those that tables were seen with."""
    most = operands("ARITH A of a table", "AFFINE X2", (0, A_MAX), trust)[1]
    low, high = operands("ARITH B of a table", "AFFINE X2", _WORD, trust)
    return Coefficients(most, min(C_MAX, 65536.0 * min(-low, high)))
