"""Sums of products to codes: in single precision, and once more exactly where that leaves a doubt.

Millions of sums become codes, in double precision a dozen times over memory. A code needs few bits: single precision
gives it for all sums but those that fall next to a place where codes change, fewer than one in a thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ops.rounding import Rounding
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]
Single = NDArray[np.float32]

PART_ELEMENTS = 1 << 15  # as many as the processor's cache holds, a few times over
_SATURATED = 512.0  # steps: beyond, a byte saturates whatever the zero point
_ERROR = 2.0**-21  # of a step, in parts of the largest number on the way: eight roundings, and as much again
_MOST_DOUBT = 0.05  # of a step: beyond, too many sums would be worked out twice
_LARGEST = 1e30  # what single precision holds with room


@dataclass(frozen=True, eq=False)
class ConvSums:
    """sum * scale[c] + bias[c]: what a convolution computes. Sums are whole numbers, channels come last."""

    sums: Single
    scale: Real
    bias: Real

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sums.shape

    def real(self) -> Real:
        values: Real = np.multiply(self.sums, self.scale, dtype=np.float64)
        values += self.bias
        return values

    def some(self, where: NDArray[np.intp], channels: NDArray[np.intp]) -> Real:
        """The same of a few places among all elements, whose channels are given."""
        return self.sums.reshape(-1)[where].astype(np.float64) * self.scale[channels] + self.bias[channels]


def codes_of(
    sums: ConvSums, tensor: Tensor, rounding: Rounding, exactly: Callable[[Real, Rounding], Array]
) -> Array | None:
    """Codes of a tensor of bytes with one scale; None where single precision does not help. `exactly(values, rounding)`
    gives the codes of real values."""
    if rounding.single or rounding.to_even or rounding.zero or tensor.dtype not in ("int8", "uint8"):
        return None
    channels = sums.shape[-1]
    factor, start = sums.scale / tensor.scale, sums.bias / tensor.scale
    doubt = _ERROR * (_SATURATED + float(np.abs(start).max(initial=0.0)))
    if not (doubt < _MOST_DOUBT and np.abs(factor).max(initial=0.0) < _LARGEST / (1 << 24)):  # or not a number
        return None
    bits = None if rounding.first_bits is None else rounding.first_bits + np.zeros(channels)
    half = np.full(channels, 0.5)
    if bits is not None:
        half += np.where(bits > 0, 0.5 ** (bits + 1), 0.0)  # what two roundings add: see rounding.py
    codes = np.empty(sums.shape, tensor.dtype)
    where = _nearly(sums.sums.reshape(-1), (factor, start, half), tensor, doubt, codes.reshape(-1))
    if where.size:
        own = where % channels
        some = rounding if bits is None else replace(rounding, first_bits=bits[own])
        codes.reshape(-1)[where] = exactly(sums.some(where, own), some)
    return codes


def _again(row: Real, times: int) -> Single:
    """One behind the other."""
    rows = np.empty((times, row.size), np.float32)
    rows[:] = row
    return rows.reshape(-1)


def _nearly(
    sums: Single, numbers: tuple[Real, Real, Real], tensor: Tensor, doubt: float, codes: Array
) -> NDArray[np.intp]:
    """Writes codes by single precision; returns where they may be wrong."""
    channels, zero = numbers[0].size, tensor.zero_point
    lowest, highest = (limit - zero + end for limit, end in zip(tensor.code_range, (-0.5, 0.5), strict=True))
    positive = lowest == -0.5  # then all that is negative saturates: nothing depends on signs
    lowest = 0.5 if positive else lowest
    size = max(1, min(PART_ELEMENTS, sums.size) // channels) * channels
    factor, start, half = numbers
    ready = (factor, start + half if positive else start, half)
    factors, starts, halves = (_again(one, size // channels) for one in ready)
    steps, whole = np.empty(size, np.float32), np.empty(size, np.float32)
    found = []
    for first in range(0, sums.size, size):
        part = sums[first : first + size]
        some = slice(0, part.size)
        x, y = steps[some], whole[some]
        np.multiply(part, factors[some], out=x)
        x += starts[some]
        if not positive:
            x += np.copysign(halves[some], x, out=y)
        np.clip(x, lowest, highest, out=x)
        np.trunc(x, out=y)
        x -= y
        if not positive:
            np.abs(x, out=x)
        x -= 0.5
        np.abs(x, out=x)
        found.append(np.flatnonzero(x > 0.5 - doubt) + first)
        y += zero
        codes[first : first + size] = y
    return np.concatenate(found) if found else np.zeros(0, np.intp)
