"""Exact arithmetic on quantised values: what an operator sees of its inputs and how a result becomes codes.

A kernel computes real numbers in float64 from exact integers; the only rounding is `to_codes` at the very end. Millions
of sums become codes, in double precision a dozen times over memory. A code needs few bits: single precision gives it
for all sums but those that fall next to a place where codes change, fewer than one in a thousand; these are worked out
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array, Op, Tensor
from atonc.compiler.ops.rounding import ONCE, Real, Rounding
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass

Single = NDArray[np.float32]

PART_SUMS = 1 << 15  # as many as the processor's cache holds, a few times over
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
    size = max(1, min(PART_SUMS, sums.size) // channels) * channels
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


PART_ELEMENTS = 1 << 14


@dataclass(frozen=True, eq=False)
class Arg:
    """One input of an operator: its type and its value."""

    tensor: Tensor
    codes: Array

    @cached_property
    def centred(self) -> Real:
        """code - zero point, exact; plain values when the tensor is not quantised."""
        values = self.codes.astype(np.float64)
        quant = self.tensor.quant
        if quant is None or not np.any(quant.zero_points):
            return values
        values -= quant.along(quant.zero_points, self.codes.ndim)
        return values

    def centred_as(self, dtype: type[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """The same in a type that holds it exactly, without the detour over float64."""
        quant = self.tensor.quant
        if dtype is np.float64 or (quant is not None and not quant.is_per_tensor):
            return self.centred.astype(dtype, copy=False)
        values: NDArray[np.floating[Any]] = self.codes.astype(dtype)
        if quant is not None and quant.zero_points.any():
            values -= dtype(quant.zero_points.reshape(-1)[0])
        return values

    @property
    def largest(self) -> float:
        """The largest magnitude of `centred`."""
        quant = self.tensor.quant
        if self.tensor.is_float or (quant is not None and not quant.is_per_tensor):
            return float(np.abs(self.centred).max(initial=0.0))
        zero = 0.0 if quant is None else float(quant.zero_points.reshape(-1)[0])
        return max(abs(float(self.codes.min()) - zero), abs(float(self.codes.max()) - zero))

    @cached_property
    def real(self) -> Real:
        quant = self.tensor.quant
        return self.centred if quant is None else self.centred * quant.along(quant.scales, self.codes.ndim)

    @property
    def single(self) -> Real:
        """The real values as a model's own kernels see them: what is quantised becomes a float32."""
        whole = self.tensor.quant is None or (self.tensor.quant.is_per_tensor and self.tensor.scale == 1.0)
        return self.real if whole else self.real.astype(np.float32).astype(np.float64)

    @property
    def scales(self) -> Real:
        """One scale, or one per channel; 1 when the tensor holds plain numbers."""
        return np.ones(1) if self.tensor.quant is None else self.tensor.quant.scales


@dataclass(frozen=True, eq=False)
class OpCall:
    """An operator with its inputs at hand. Absent optional inputs are None."""

    op: Op
    args: tuple[Arg | None, ...]
    outputs: tuple[Tensor, ...]

    def arg(self, index: int) -> Arg:
        found = self.args[index] if index < len(self.args) else None
        if found is None:
            raise ModelError(f"{self.op.kind} needs input {index}", where=self.op.name)
        return found

    def optional(self, index: int) -> Arg | None:
        return self.args[index] if index < len(self.args) else None

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.op.attrs

    @property
    def out(self) -> Tensor:
        return self.outputs[0]


@dataclass(frozen=True, eq=False)
class OpResult:
    """One output: its codes, and what gives the real value in units of codes before rounding (None: the codes are
    exact). Few ask for it, and it is large."""

    codes: Array
    unrounded: Callable[[], Real] | None = None

    @property
    def exact(self) -> Real:
        return self.codes.astype(np.float64) if self.unrounded is None else self.unrounded()

    def clipped(self, low: int, high: int) -> OpResult:
        codes = np.clip(self.codes, low, high)
        return OpResult(codes, None if self.unrounded is None else lambda: np.clip(self.exact, low, high))


def to_codes(steps: Real, tensor: Tensor, rounding: Rounding = ONCE) -> Array:
    """The one rounding, of real values in units of the scale; the zero point comes after it, as in TFLite.

    Float tensors stay float64: nothing is lost on the way to the next quantised tensor.
    """
    if tensor.is_float:
        return steps
    if tensor.dtype == "bool":
        return steps != 0
    low, high = tensor.code_range
    dtype = _code_type(tensor)
    rounded = np.asarray(rounding(steps))
    if np.isnan(rounded.sum()):  # what is not a number counts as zero; infinities of both signs end here too
        rounded = np.where(np.isnan(steps), 0.0, rounded)
    if dtype.itemsize == 8:  # the limits of 64 bit are not float64 numbers
        return _saturated(rounded, dtype)
    rounded += _zero(tensor, steps.ndim)
    return np.clip(rounded, low, high, out=rounded).astype(dtype)


def _code_type(tensor: Tensor) -> np.dtype[Any]:
    if tensor.is_float:
        return np.dtype(np.float64)
    return np.dtype("int8" if tensor.dtype == "int4" else tensor.dtype)


def _saturated(values: Real, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    inside = (values < float(limits.max)) & (values > float(limits.min))  # the limits themselves round to powers of two
    ends = np.where(values > 0, dtype.type(limits.max), dtype.type(limits.min))  # 64 bits, never over a float
    return np.where(inside, np.where(inside, values, 0.0).astype(dtype), ends)


def _zero(tensor: Tensor, rank: int) -> Array | int:
    return 0 if tensor.quant is None else tensor.quant.along(tensor.quant.zero_points, rank)


def finish(values: Real | ConvSums, tensor: Tensor, rounding: Rounding = ONCE) -> OpResult:
    """Real values -> the result of an operator."""
    quant = tensor.quant
    if isinstance(values, ConvSums):
        return _finish_sums(values, tensor, rounding)
    if quant is None:
        return OpResult(to_codes(values, tensor, rounding), lambda: values)
    scales = quant.along(quant.scales, values.ndim)
    if not quant.is_per_tensor:
        codes = to_codes(rounding.steps(values, scales), tensor, rounding)
    else:
        codes = np.empty(values.shape, _code_type(tensor))
        for part in _parts(values.shape):
            codes[part] = to_codes(rounding.steps(values[part], scales), tensor, rounding)
    return OpResult(codes, lambda: values / scales + _zero(tensor, values.ndim))


def _finish_sums(sums: ConvSums, tensor: Tensor, rounding: Rounding) -> OpResult:
    """The same of what a convolution gives: most codes follow from single precision."""
    quant = tensor.quant
    if quant is None or not quant.is_per_tensor:
        return finish(sums.real(), tensor, rounding)

    def exactly(values: Real, rounding: Rounding) -> Array:
        return to_codes(rounding.steps(values, quant.scales), tensor, rounding)

    codes = codes_of(sums, tensor, rounding, exactly)
    if codes is None:
        return finish(sums.real(), tensor, rounding)
    return OpResult(codes, lambda: finish(sums.real(), tensor, rounding).exact)


def _parts(shape: tuple[int, ...]) -> list[Any]:
    """Indices of parts that fit the processor's cache, a dozen times over; the last axis stays whole."""
    axis = next((k for k, size in enumerate(shape[:-1]) if size > 1), None)
    if axis is None or prod(shape) <= PART_ELEMENTS:
        return [...]
    step = max(1, PART_ELEMENTS * shape[axis] // prod(shape))
    return [(*[slice(None)] * axis, slice(k, k + step)) for k in range(0, shape[axis], step)]


def same_codes(source: Tensor, target: Tensor) -> bool:
    """True if a value can move from source to target without arithmetic."""
    if source.quant is None or target.quant is None:
        return source.quant is None and target.quant is None
    return source.quant.is_per_tensor and source.dtype == target.dtype and source.quant.same_as(target.quant)
