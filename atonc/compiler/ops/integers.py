"""Kernels of TFLite that are more than exact arithmetic rounded at the end: one multiplier for each side of zero, or
16-bit numbers inside. Each gives whole numbers, to which the zero point is added.

Their multipliers come from scales in single precision, and are exact in double precision from there on.
"""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Tensor
from atonc.compiler.ops.functions import RANGES
from atonc.compiler.ops.portable import log
from atonc.compiler.ops.registry import counts
from atonc.compiler.ops.rounding import Multiplier, Rounding, round_half_away
from atonc.compiler.ops.values import Arg, OpCall, Real

HIRES = np.float32(1.0 / 128.0)  # the input of hard-swish has so many codes more
RELUISH = np.float32(3.0) / np.float32(32768.0)
SIXTEEN = (-32768.0, 32767.0)


def single(tensor: Tensor) -> np.float32:
    return np.float32(tensor.scale)


def ratio(x: Tensor, out: Tensor) -> Multiplier:
    return Multiplier.of(single(x) / single(out))


def slopes(x: Tensor, slope: Tensor, out: Tensor) -> tuple[Multiplier, Multiplier]:
    """Makes the multipliers of PReLU: for values, and for products of values and slopes."""
    return ratio(x, out), Multiplier.of(single(x) * single(slope) / single(out))


@counts("relu", "relu6", "relu_n1_to_1", "relu_0_to_1")
def relu(call: OpCall) -> Real:
    x, limits = call.arg(0), [np.float32(limit) / single(call.out) for limit in RANGES[call.op.kind]]
    low, high = (round_half_away(np.array(limit, np.float64)) for limit in limits)
    return np.clip(ratio(x.tensor, call.out)(x.centred), low, high)


@counts("abs")
def magnitude(call: OpCall) -> Real:
    x = call.arg(0)
    return ratio(x.tensor, call.out)(np.abs(x.centred))


@counts("leaky_relu")
def leaky_relu(call: OpCall) -> Real:
    x = call.arg(0)
    below = Multiplier.of(single(x.tensor) * np.float32(call.attrs["alpha"]) / single(call.out))
    return _two_sides(x, x.centred, (ratio(x.tensor, call.out), below))


@counts("prelu")
def prelu(call: OpCall) -> Real:
    x, slope = call.arg(0), call.arg(1)
    return _two_sides(x, x.centred * slope.centred, slopes(x.tensor, slope.tensor, call.out))


def _two_sides(x: Arg, products: Real, sides: tuple[Multiplier, Multiplier]) -> Real:
    above, below = sides
    return np.where(x.centred >= 0, above(x.centred), below(products))


@counts("log")
def logarithm(call: OpCall) -> Real:
    """What has no logarithm is the lowest code."""
    x, low = call.arg(0).real, call.out.code_range[0] - call.out.zero_point
    return np.where(x > 0, Rounding()(log(np.where(x > 0, x, 1.0)) / call.out.scale), float(low))


@counts("hard_swish")
def hard_swish(call: OpCall) -> Real:
    """x * relu6(x + 3) / 6 in numbers of 16 bits: `reluish` is relu6(x + 3) / 6 with 15 bits behind the point."""
    x = call.arg(0)
    hires = HIRES * single(x.tensor)
    to_output, to_reluish = (Multiplier.of(hires / scale) for scale in (single(call.out), RELUISH))
    value = x.centred * 128.0
    reluish = value
    if to_reluish.exponent > 0:
        reluish = np.clip(reluish * 2.0 ** (to_reluish.exponent - 1), *SIXTEEN)
    reluish = _high_half(reluish, to_reluish)
    if to_reluish.exponent > 0:
        reluish = np.clip(reluish * 2.0, *SIXTEEN)
    reluish = round_half_away(reluish * 2.0 ** min(0.0, to_reluish.exponent))
    reluish = np.floor((reluish + 32768.0) * 0.5)
    product = np.trunc(reluish * _high_half(value, to_output) * 2.0**-15)
    return round_half_away(product * 2.0**to_output.exponent)


def _high_half(values: Real, multiplier: Multiplier) -> Real:
    """Times the mantissa, cut to 16 bits."""
    mantissa = min(np.floor(multiplier.mantissa * 2.0**15 + 0.5), 32767.0)
    return np.floor(values * mantissa * 2.0**-15 + 0.5)
