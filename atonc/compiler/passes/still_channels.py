"""Channels whose result is one code whatever comes in: weights of zero, and a bias that gives the code.

Pruned and trained networks have them: a scale of 1e-8 beside one of 0.05, so that all products together never move the
result by a code. Left as they are, such a scale would take a shift of its own, or send the layer to the processor.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array, Graph, Op, Quantisation, Tensor
from atonc.compiler.passes.edit import Editor, rewrite
from atonc.compiler.passes.fuse_affine import accumulator_units

Real = NDArray[np.float64]

# Of a code: rounding of the sums in floating point is far below it, and a value so near the middle between two codes
# is not taken for certain
DOUBT = 1e-3
MOST_BIAS = 2.0**30  # of its 32 bits, in units of what is multiplied: the other half is for the products
MOST_UNIT = 0.25  # of a code, that a step of the accumulator may be: the new bias meets its code with room to spare


def still_channels(graph: Graph) -> Graph:
    return rewrite(graph, _stilled)


def _stilled(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in ("conv", "dense") or len(op.inputs) < 3 or not op.inputs[2]:
        return None
    x, weights, bias = (editor.tensor(name) for name in op.inputs[:3])
    y = editor.tensor(op.outputs[0])
    if weights.data is None or weights.quant is None or bias.data is None or not _fits(x, weights, bias, y):
        return None
    units = accumulator_units(x, weights) / y.scale
    codes = _codes(x, weights.data, bias.data, units)
    moving = units[np.isnan(codes)]
    if not 0 < moving.size < units.size:
        return None
    unit = min(float(np.median(moving)), MOST_UNIT)
    still = np.isfinite(codes) & (np.abs(codes) < MOST_BIAS * unit)
    scales = np.where(still, unit * y.scale / x.scale, weights.quant.scales)
    rows = (-1,) + (1,) * (len(weights.shape) - 1)
    data = np.where(still.reshape(rows), 0, weights.data).astype(weights.dtype)
    biases = np.where(still, np.rint(codes / unit), bias.data).astype(np.int32)
    kept = Quantisation(scales, np.zeros(scales.size, np.int64), 0)
    names = (
        editor.constant(f"{weights.name}:{op.outputs[0]}", data, kept),
        editor.constant(f"{bias.name}:{op.outputs[0]}", biases),
    )
    return [replace(op, inputs=(op.inputs[0], *names, *op.inputs[3:]))]


def _fits(x: Tensor, weights: Tensor, bias: Tensor, y: Tensor) -> bool:
    """Codes with one scale for the tensor, weights with one for each channel, biases in units of the accumulator."""
    edges = all(one.quant is not None and one.quant.is_per_tensor and one.dtype == "int8" for one in (x, y))
    return (
        edges
        and weights.quant is not None
        and weights.quant.axis == 0
        and weights.quant.scales.size == weights.shape[0] > 1
        and not weights.quant.zero_points.any()
        and bias.quant is None
        and bias.dtype == "int32"
        and bias.shape == (weights.shape[0],)
    )


def _codes(x: Tensor, weights: Array, bias: Array, units: Real) -> Real:
    """The code above the zero point that a channel always gives; nan where inputs move it."""
    low, high = -128 - x.zero_point, 127 - x.zero_point  # of an input; borders are zero, which lies between
    flat = weights.reshape(weights.shape[0], -1).astype(np.int64)
    up, down = np.maximum(flat, 0).sum(axis=1), np.minimum(flat, 0).sum(axis=1)
    least, most = low * up + high * down, high * up + low * down
    ends = [(bias.astype(np.float64) + end) * units for end in (least, most)]
    below, above = np.rint(ends[0] - DOUBT), np.rint(ends[1] + DOUBT)
    return np.where(below == above, below, np.nan)
