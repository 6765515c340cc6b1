"""How the kernels of TFLite round, where that is not once and to the nearest.

Their multiplier is m * 2^-n with m between a half and one. The product with m is rounded to an integer first, and that
integer is rounded again when n bits are cut off, half of them away from zero. So every result of n bits behind the
point moves by half a step of 2^-n away from zero before it is rounded: with small n, a few percent of all codes.

Numbers become codes by a division in single precision, at TFLite and ONNX alike: 1.4941176 / 0.99607843 is 1.5 there,
and a little less in truth. Halves go away from zero at the first and to even numbers at the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]

ATTRIBUTE, TWICE, AS_CODES, IN_INTEGERS = "rounded", "twice", "as codes", "in integers"
TO_EVEN = "to even"  # halves, where numbers become codes: ONNX
SINGLE = "in single precision"  # codes to codes by way of floats, at TFLite
AS_UINT8 = "as uint8"  # as codes, of a tensor that was shifted to int8
ROUNDED_TWICE = ("conv", "transpose_conv", "matmul", "mul", "mean", "quantize", "requantize")
ROUNDED_AS_CODES = ("average_pool", "resize_linear")  # halves go away from code zero, whatever the zero point
COUNTED = (  # see integers.py
    "relu", "relu6", "relu_n1_to_1", "relu_0_to_1", "abs", "leaky_relu", "prelu", "log", "hard_swish",
)  # fmt: skip
BYTES = ("int8", "uint8")
MOST_BITS = 60.0  # behind the point: more of them change no result in double precision
A_HAIR = 2.0**-20  # of a code: what lies in the middle afterwards goes the same way


@dataclass(frozen=True, eq=False)
class Rounding:
    """How real numbers in units of the output's scale are rounded; by default once, halves away from zero."""

    first_bits: Real | None = None  # bits behind the point that an earlier rounding leaves, for all or per channel
    zero: int = 0  # halves go away from this number
    single: bool = False  # values and scale are divided in single precision
    to_even: bool = False  # halves go to even numbers instead

    def steps(self, values: Real, scales: Real) -> Real:
        """Values in units of the scale."""
        if not self.single:
            return values / scales
        return (values.astype(np.float32) / scales.astype(np.float32)).astype(np.float64)

    def __call__(self, steps: Real) -> Real:
        if self.to_even:
            return np.rint(steps)
        if self.first_bits is not None:
            steps = steps * 2.0**self.first_bits
            steps += 0.5
            steps = np.floor(steps)
            steps *= 0.5**self.first_bits
        return round_half_away(steps - self.zero) + self.zero if self.zero else round_half_away(steps)


def round_half_away(values: Real) -> Real:
    """Nearest integer, ties away from zero: the rounding of the NPU and of TFLite."""
    return np.trunc(values + np.copysign(0.5, values))


ONCE = Rounding()


@dataclass(frozen=True)
class Multiplier:
    """mantissa * 2^exponent with 31 bits of the mantissa, which is at least a half and below one."""

    mantissa: float
    exponent: float

    @classmethod
    def of(cls, factor: float | np.floating[Any]) -> Multiplier:
        exponent = _exponent(np.array([factor], np.float64))
        bits = round_half_away(np.ldexp(np.float64(factor), 31 - exponent.astype(np.int32)))
        return cls(float(bits[0]) * 2.0**-31, float(exponent[0]))

    @property
    def value(self) -> float:
        return self.mantissa * 2.0**self.exponent

    @property
    def first_bits(self) -> float:
        return min(max(0.0, -self.exponent), MOST_BITS)

    def __call__(self, values: Real) -> Real:
        """Whole numbers, rounded twice."""
        return Rounding(np.array(self.first_bits))(values * self.value)


def attribute(kind: str) -> dict[str, str]:
    """What tells an operator of TFLite from those that round once. (Its dense layers do.)"""
    ways = ((TWICE, ROUNDED_TWICE), (AS_CODES, ROUNDED_AS_CODES), (IN_INTEGERS, COUNTED))
    return next(({ATTRIBUTE: how} for how, kinds in ways if kind in kinds), {})


def is_counted(op: Op, inputs: Sequence[Tensor], out: Tensor) -> bool:
    """Whether the kernel of integers.py computes it: bytes, with one scale for all of each tensor."""
    quants = [tensor.quant for tensor in (*inputs, out) if tensor.dtype in BYTES]
    each_has_one = len(quants) == len(inputs) + 1 and all(quant is not None and quant.is_per_tensor for quant in quants)
    return op.kind in COUNTED and op.attrs.get(ATTRIBUTE) == IN_INTEGERS and each_has_one


def rounding_of(op: Op, inputs: Sequence[Tensor], out: Tensor) -> Rounding:
    """`inputs`: those that count, the first one or two."""
    how = op.attrs.get(ATTRIBUTE)
    if op.kind == "quantize" and inputs[0].is_float:
        return Rounding(single=True, to_even=how == TO_EVEN)
    if how == SINGLE:
        return Rounding(single=True)
    operands = inputs[: 1 if op.kind in ("mean", "quantize", "requantize") else 2]
    all_bytes = all(tensor.quant is not None and tensor.dtype in BYTES for tensor in (*operands, out))
    if how not in (TWICE, AS_CODES, AS_UINT8) or not all_bytes:
        return ONCE
    if how != TWICE:
        return Rounding(zero=-out.zero_point - (128 if how == AS_UINT8 else 0))
    factor = np.ones(1)
    for tensor in operands:
        factor = factor * (1.0 if tensor.quant is None else tensor.quant.scales)
    shift = 0  # the division by the number of values is part of the multiplier
    if op.kind == "mean":
        shift = prod(operands[0].shape[axis] for axis in op.attrs["axes"]).bit_length() - 1
    return Rounding(np.clip(shift - _exponent(factor / out.scale), 0.0, MOST_BITS))


def _exponent(factor: Real) -> Real:
    """Finds the exponent of the multiplier: what its 31 bits cannot tell from a power of two is one."""
    mantissa, exponent = np.frexp(factor)
    return np.asarray(exponent + (round_half_away(mantissa * 2.0**31) >= 2.0**31), np.float64)


def lift(rounding: Rounding, out: Tensor, clip: tuple[int, int] | None) -> Real | float:
    """What has to be added so that one rounding does the same as two: half of the step that the first one leaves, away
    from the zero point. Where results lie on both sides of it there is no such number."""
    if rounding.first_bits is None:
        return 0.0
    low, high = clip or out.code_range
    side = (low >= out.zero_point) - (high <= out.zero_point)
    return side * np.where(rounding.first_bits > 0, 0.5 ** (rounding.first_bits + 1) + A_HAIR, 0.0)
