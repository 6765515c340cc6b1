"""The addend with which most means get the right code.

A mean of so many codes takes few values: all of them can be looked at. Around every half of a code the right one is
decided between two neighbours of that lattice, and TFLite decides by two roundings: 23/49 becomes a whole code there,
22/49 none. The unit's own errors (8 bits of the mean, 16 of the factor) are larger than the distance of 23/49 from the
line of TFLite, and smaller than half the step between both; so the addend that stands in the middle is right for both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.pool.means import FRACTION, Line
from atonc.compiler.lower.units.pool import division
from atonc.compiler.ops.rounding import Rounding
from atonc.machine.hw.stream import finish, shift_right_rounded

Ints = NDArray[np.int64]

MOST_PIXELS = 256  # beyond, neighbours of the lattice are closer than the unit's own errors
AROUND = 64  # codes on both sides of usual means: those that count


def with_best_addend(
    line: Line, rounding: Rounding, ratio: float, zeros: tuple[int, int], usual: int, pixels: int
) -> Line:
    """`ratio`: codes of the result for a code of the mean; `zeros`: zero points of what comes in and goes out; `usual`:
    what means are around."""
    if pixels > MOST_PIXELS:
        return line
    sums: Ints = np.arange(max(-128, usual - AROUND) * pixels, min(127, usual + AROUND) * pixels + 1)
    low, high = line.clip or (-128, 127)
    exact = rounding((sums - zeros[0] * pixels).astype(np.float64) * (ratio / pixels)) + zeros[1]
    wanted = np.clip(exact, low, high).astype(np.int64)
    multiplier, shift = division(pixels, line.most)
    before = shift_right_rounded(finish(sums * multiplier, shift, 2, True, True) * line.a, FRACTION)
    return replace(line, c=_most_covered(*_ranges(before, wanted, line.shift, (low, high)), line.c))


def _ranges(before: Ints, wanted: Ints, shift: int, ends: tuple[int, int]) -> tuple[Ints, Ints]:
    """From which addend on the code is the wanted one, and from which it is another again. Halves go away from zero."""
    step, far = 1 << shift, 1 << 40
    first = wanted * step - step // 2 - before + (wanted <= 0)
    last = wanted * step - step // 2 + step - before + (wanted < 0)
    return np.where(wanted == ends[0], -far, first), np.where(wanted == ends[1], far, last)


def _most_covered(first: Ints, last: Ints, usual: int) -> int:
    """The usual one, if no other is in more ranges; else the middle of the widest stretch that is in most of them."""
    edges = np.sort(np.concatenate((first, last)))
    edges = edges[np.concatenate(([True], edges[1:] != edges[:-1]))]  # np.unique would load masked arrays for it
    count = np.searchsorted(np.sort(first), edges, "right") - np.searchsorted(np.sort(last), edges, "right")
    if np.count_nonzero((first <= usual) & (usual < last)) == count.max():
        return usual
    best = np.flatnonzero(count[:-1] == count[:-1].max())
    width = edges[best + 1] - edges[best]
    widest = best[width.argmax()]
    return int(edges[widest] + edges[widest + 1]) // 2
