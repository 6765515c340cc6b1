"""Tensors of 16 bits on a coarser scale, so that the 24 bits of a unit hold their sums in one pass.

    stored = sat16(round((code + zero * 2^dropped) / 2^dropped)),   code = sat16((stored - zero) * 2^dropped)

Published convolvers that read two bytes always take a zero point off, and pad with it: so the stored zero is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

Ints = NDArray[np.int64]

LOWEST, HIGHEST = int(np.iinfo(np.int16).min), int(np.iinfo(np.int16).max)


@dataclass(frozen=True)
class CoarseCodes:
    """How codes of 16 bits lie in memory."""

    dropped: int  # low bits that are rounded away
    zero: int = 1  # what a code of 0 is stored as

    @property
    def step(self) -> int:
        return 1 << self.dropped

    def stored(self, codes: NDArray[Any]) -> Ints:
        """As an ARITH makes it of whole codes: to the nearest, ties away from zero."""
        moved = np.asarray(codes).astype(np.int64) + self.zero * self.step
        return np.clip(np.sign(moved) * ((np.abs(moved) + self.step // 2) >> self.dropped), LOWEST, HIGHEST)

    def codes(self, numbers: NDArray[Any]) -> Ints:
        """What memory stands for."""
        return np.clip((np.asarray(numbers).astype(np.int64) - self.zero) << self.dropped, LOWEST, HIGHEST)
