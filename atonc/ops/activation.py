"""Functions of one value: the Relu family, sigmoid, tanh, hard-swish and friends, and softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from atonc.errors import UnsupportedError
from atonc.ir import Tensor
from atonc.ops import portable
from atonc.ops.registry import computes
from atonc.ops.rounding import ATTRIBUTE, round_half_away
from atonc.ops.values import Call, Real

RANGES: dict[str, tuple[float, float]] = {
    "relu": (0.0, np.inf),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
    "relu_0_to_1": (0.0, 1.0),
}
SQRT_2, SQRT_2_OVER_PI = 1.4142135623730951, 0.7978845608028654


def fused_activation(values: Real, call: Call) -> Real:
    """The clamp that an operator carries in its `activation` attribute."""
    bounds = activation_bounds(call.attrs, call.out)
    return values if bounds is None else portable.limited(values, *bounds)


def activation_bounds(attrs: Mapping[str, Any], out: Tensor) -> tuple[float, float] | None:
    """Real numbers. What is rounded more than once is limited afterwards, in codes: so the bounds are codes."""
    activation = attrs.get("activation", "none")
    if activation == "none":
        return None
    if activation not in RANGES:
        raise UnsupportedError(f"fused activation {activation} has no reference kernel")
    low, high = RANGES[activation]
    if ATTRIBUTE not in attrs or out.quant is None or not out.quant.is_per_tensor:
        return low, high
    ends = round_half_away(np.array([low, high]) / out.scale) * out.scale
    return float(ends[0]), float(ends[1])


def gelu(x: Real, approximate: bool) -> Real:
    if approximate:
        return 0.5 * x * (1.0 + portable.tanh(SQRT_2_OVER_PI * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1.0 + portable.erf(x / SQRT_2))


FUNCTIONS: dict[str, Callable[[Real], Real]] = {
    "logistic": portable.logistic,
    "tanh": portable.tanh,
    "hard_swish": lambda x: x * portable.limited(x + 3.0, 0.0, 6.0) / 6.0,
    "silu": lambda x: x * portable.logistic(x),
    "mish": lambda x: x * portable.tanh(portable.softplus(x)),
    "softplus": portable.softplus,
    "exp": portable.exp,
    "log": portable.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "square": np.square,
    "abs": np.abs,
    "neg": np.negative,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sin": np.sin,
    "cos": np.cos,
    "erf": portable.erf,
    "reciprocal": lambda x: 1.0 / x,
    "logical_not": lambda x: (x == 0).astype(np.float64),
}


STEPS = ("floor", "ceil", "round")  # 20 codes of 0.05 are 1 to everybody who computes in single precision


# functions of one value: on codes they are tables of 256 results
OF_ONE_VALUE = (*FUNCTIONS, *RANGES, "clip", "leaky_relu", "elu", "hard_sigmoid", "gelu")


@computes(*FUNCTIONS)
def function(call: Call) -> list[Real]:
    x = call.arg(0)
    return [FUNCTIONS[call.op.kind](x.single if call.op.kind in STEPS else x.real)]


@computes("relu", "relu6", "relu_n1_to_1", "relu_0_to_1")
def relu(call: Call) -> list[Real]:
    return [portable.limited(call.arg(0).real, *RANGES[call.op.kind])]


@computes("clip")
def clip(call: Call) -> list[Real]:
    return [portable.limited(call.arg(0).real, call.attrs["low"], call.attrs["high"])]


@computes("leaky_relu")
def leaky_relu(call: Call) -> list[Real]:
    x = call.arg(0).real
    return [np.where(x >= 0, x, x * call.attrs["alpha"])]


@computes("prelu")
def prelu(call: Call) -> list[Real]:
    """The slope broadcasts as the source format says (ONNX: one per channel is [C, 1, 1])."""
    x, slope = call.arg(0).real, call.arg(1).real
    return [np.where(x >= 0, x, x * slope)]


@computes("elu")
def elu(call: Call) -> list[Real]:
    x = call.arg(0).real
    return [np.where(x >= 0, x, call.attrs.get("alpha", 1.0) * portable.expm1(x))]


@computes("hard_sigmoid")
def hard_sigmoid(call: Call) -> list[Real]:
    return [portable.limited(call.arg(0).real * call.attrs["alpha"] + call.attrs["beta"], 0.0, 1.0)]


@computes("gelu")
def gelu_op(call: Call) -> list[Real]:
    return [gelu(call.arg(0).real, call.attrs.get("approximate", False))]


@computes("softmax", "log_softmax")
def softmax(call: Call) -> list[Real]:
    """Differences to the largest value are scaled: with one scale they depend on the difference of codes only."""
    x, axis, beta = call.arg(0), call.attrs.get("axis", -1), call.attrs.get("beta", 1.0)
    values, scale = (x.centred, x.scales[0] * beta) if x.scales.size == 1 else (x.real, beta)
    shifted = (values - values.max(axis=axis, keepdims=True)) * scale
    exponentials = portable.exp(shifted)
    total = np.expand_dims(portable.ordered_sum(exponentials, (axis,)), axis)
    return [shifted - portable.log(total) if call.op.kind == "log_softmax" else exponentials / total]
