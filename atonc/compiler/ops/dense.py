"""Fully connected layers and matrix products, with exact integer sums; floats are added in the order of memory."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ops.activation import fused_activation
from atonc.compiler.ops.conv import bias_in_real
from atonc.compiler.ops.portable import ordered_product
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.values import Arg, OpCall, Real


def product(a: Arg, b: Arg, left: Real, right: Real) -> Real:
    """left @ right; the order of additions matters to floats only."""
    return ordered_product(left, right) if a.tensor.is_float or b.tensor.is_float else left @ right


@computes("dense")
def dense(call: OpCall) -> list[Real]:
    """Weights [out, in]; the input is read as rows of `in` values."""
    x, weights = call.arg(0), call.arg(1)
    scale = x.scales * weights.scales
    rows = x.centred.reshape(-1, weights.codes.shape[1])
    real = product(x, weights, rows, weights.centred.T) * scale + bias_in_real(call.optional(2), scale)
    return [fused_activation(real.reshape(call.out.shape), call)]


@computes("matmul")
def matmul(call: OpCall) -> list[Real]:
    """Both factors are data. Per-channel scales of the second one run along its last axis."""
    a, b = call.arg(0), call.arg(1)
    left = np.swapaxes(a.centred, -1, -2) if call.attrs.get("transpose_a") else a.centred
    right = np.swapaxes(b.centred, -1, -2) if call.attrs.get("transpose_b") else b.centred
    return [fused_activation(product(a, b, left, right) * a.scales * b.scales, call)]
