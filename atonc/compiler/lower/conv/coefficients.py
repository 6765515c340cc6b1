"""How large the coefficients of a channel may be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atonc.machine.hw.limits import MOST_TABLE_SHIFT
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.safety.evidence.seen import operands

A_MAX = (1 << 15) - 1
C_MAX = 2.0**31 - 2**24
_WORD = (-(1 << 15), (1 << 15) - 1)


_CODES = (-128, 127)


class Coefficients(NamedTuple):
    factor: int = A_MAX  # A
    addend: float = C_MAX  # B and C together
    lower: tuple[int, int] = _CODES  # limits of codes that a unit may clip to
    upper: tuple[int, int] = _CODES
    spared: int = 0  # codes by which addends may grow later
    shift: int = MOST_TABLE_SHIFT  # of the products
    low: tuple[int, int] = _WORD  # word of an addend that is in no table

    def clips(self, clip: tuple[int, int] | None) -> bool:
        """Whether a unit may clip so by itself."""
        if clip is None:
            return True
        low, high = clip
        return self.lower[0] <= low <= self.lower[1] and self.upper[0] <= high <= self.upper[1]

    def nearest(self, addends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Addends whose low word is one that units without a table may have."""
        low = (addends + 32768.0) % 65536.0 - 32768.0
        return addends - low + np.clip(low, *self.low)


WHOLE_FORMAT = Coefficients()


@memoise
def coefficients(trust: Trust) -> Coefficients:
    """All numbers of their format, or those that tables were seen with."""
    names = ("ARITH A of a table", "ARITH A")  # a single channel has no table
    most = min(operands(name, "AFFINE X2", (1, A_MAX), trust)[1] for name in names)
    low, high = operands("ARITH B of a table", "AFFINE X2", _WORD, trust)
    lower, upper = (operands(f"ARITH {limit}", "AFFINE CLIPOUT", _CODES, trust) for limit in ("CLIPMIN", "CLIPMAX"))
    word = operands("ARITH C", "AFFINE X2", _WORD, trust)
    return Coefficients(most, min(C_MAX, 65536.0 * min(-low, high)), lower, upper, low=word)
