"""Functions of one value (functions.py has their table), what is fused behind other operators, PReLU and softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atonc.compiler.ir import Tensor
from atonc.compiler.ops import portable
from atonc.compiler.ops.functions import FUNCTIONS, RANGES
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.rounding import ATTRIBUTE, round_half_away
from atonc.compiler.ops.values import OpCall, Real
from atonc.machine.base.errors import UnsupportedError


def fused_activation(values: Real, call: OpCall) -> Real:
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


@computes(*FUNCTIONS)
def function(call: OpCall) -> list[Real]:
    row, x = FUNCTIONS[call.op.kind], call.arg(0)
    return [row(x.single if row.jumps else x.real, call.attrs)]


@computes("prelu")
def prelu(call: OpCall) -> list[Real]:
    """The slope broadcasts as the source format says (ONNX: one per channel is [C, 1, 1])."""
    x, slope = call.arg(0).real, call.arg(1).real
    return [np.where(x >= 0, x, x * slope)]


@computes("softmax", "log_softmax")
def softmax(call: OpCall) -> list[Real]:
    """Differences to the largest value are scaled: with one scale they depend on the difference of codes only."""
    x, axis, beta = call.arg(0), call.attrs.get("axis", -1), call.attrs.get("beta", 1.0)
    values, scale = (x.centred, x.scales[0] * beta) if x.scales.size == 1 else (x.real, beta)
    shifted = (values - values.max(axis=axis, keepdims=True)) * scale
    exponentials = portable.exp(shifted)
    total = np.expand_dims(portable.ordered_sum(exponentials, (axis,)), axis)
    return [shifted - portable.log(total) if call.op.kind == "log_softmax" else exponentials / total]
