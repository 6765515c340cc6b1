"""Number handling that all processing units share: rounding shifts, saturation, byte extraction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[Any]  # an integer array wide enough for what is in it


def shift_right_rounded(values: Ints, shift: int) -> Ints:
    """Right shift, round half away from zero (ROUND=1, RNDMODE=1: the only mode that compilers emit)."""
    if shift == 0:
        return values
    if shift >= values.dtype.itemsize * 8 - 1:
        values = values.astype(np.int64)
        shift = min(shift, 62)  # nothing that fits 62 bits survives more
    # for negative numbers "half away" is floor(v + half - 1): subtract one where the sign bit is set
    result: Ints = values >> (values.dtype.itemsize * 8 - 1)
    result += 1 << (shift - 1)
    result += values
    result >>= shift
    return result


def shift_right(values: Ints, shift: int, rounded: bool) -> Ints:
    return shift_right_rounded(values, shift) if rounded else values >> min(shift, values.dtype.itemsize * 8 - 1)


def saturate(values: Ints, nbytes: int, unsigned: bool = False, out: Ints | None = None) -> Ints:
    low, high = limits(nbytes, unsigned)
    return clipped(values, low, high, out)


def clipped(values: Ints, low: int, high: int, out: Ints | None = None) -> Ints:
    """`np.clip`, which takes a multiple of the time to look at Python's numbers; where the type of the values ends
    before a limit, nothing is beyond it."""
    ends, kind = limits_of(values), values.dtype.type
    return values.clip(kind(max(low, ends[0])), kind(min(high, ends[1])), out=out)


def limits(nbytes: int, unsigned: bool = False) -> tuple[int, int]:
    bits = 8 * nbytes
    return (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def wrap(values: Ints, nbytes: int) -> Ints:
    """Keeps the low bytes, read as signed."""
    bits = 8 * nbytes
    if bits == 8:
        return values.astype(np.int8).astype(values.dtype)
    if bits == 16:
        return values.astype(np.int16).astype(values.dtype)
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    result: Ints = ((values & mask) ^ sign) - sign
    return result


def finish(values: Ints, shift: int, nbytes: int, rounded: bool, saturated: bool) -> Ints:
    """The output stage of a unit: shift, round, then saturate or wrap to the output bytes."""
    shifted = shift_right(values, shift, rounded)
    own = None if shifted is values else shifted  # which nobody else sees
    return saturate(shifted, nbytes, out=own) if saturated else wrap(shifted, nbytes)


def ends_of(values: Ints) -> tuple[int, int]:
    """The lowest and the highest of the values and zero."""
    return int(values.min(initial=0)), int(values.max(initial=0))


def limits_of(values: Ints) -> tuple[int, int]:
    """What an array of this type may hold: no bound is cheaper."""
    return limits(values.dtype.itemsize, values.dtype.kind == "u")


def largest_of(values: Ints, ends: Callable[[Ints], tuple[int, int]] = ends_of) -> int:
    return max(map(abs, ends(values)))


def signed(value: int, bits: int) -> int:
    """Reads the low bits of a Python int as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
