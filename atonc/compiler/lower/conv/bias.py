"""What a layer adds to its sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.select.rules import CONV_BIAS

Real = NDArray[np.float64]


def bias_of(op: Op, context: Context, accumulator_scale: Real, outputs: int) -> Real:
    """In real units; without a scale of its own it counts in units of the accumulator."""
    if len(op.inputs) < 3 or not op.inputs[2]:
        return np.zeros(outputs)
    tensor = context.tensor(op.inputs[2])
    if tensor.data is None:
        raise Refusal(CONV_BIAS, "a bias that is not constant", "a constant", "add it as a separate layer")
    values = np.asarray(tensor.data, np.float64).reshape(-1)
    if tensor.quant is not None:
        return (values - tensor.quant.zero_points) * tensor.quant.scales
    return values if tensor.is_float else values * accumulator_scale
