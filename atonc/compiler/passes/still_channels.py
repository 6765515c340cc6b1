"""Channels whose result is one code whatever comes in: weights of zero, and a bias that gives the code.

Pruned and trained networks have them: a scale of 1e-8 beside one of 0.05, so that all products together never move the
result by a code. Left as they are, such a scale would take a shift of its own, or send the layer to the processor.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.passes.edit import Editor, rewrite
from atonc.compiler.passes.fuse_affine import accumulator_units

# Of a code: rounding of the sums in floating point is far below it, and a value so near the middle between two codes
# is not taken for certain
DOUBT = 1e-3
MOST_UNIT = 0.25  # of a code, that a step of the accumulator may be: the new bias meets its code with room to spare


def still_channels(graph: Graph) -> Graph:
    return rewrite(graph, _stilled)


def _stilled(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in ("conv", "dense") or len(op.inputs) < 3 or not op.inputs[2]:
        return None
    x, weights, bias = (editor.tensor(name) for name in op.inputs[:3])
    y = editor.tensor(op.outputs[0])
    if not _fits(x, weights, bias, y):
        return None
    units = accumulator_units(x, weights) / y.scale
    codes = _codes(x, weights, bias, units)
    still = np.isfinite(codes)
    live = units[~still]
    if not still.any() or not live.size:
        return None
    unit = min(float(np.median(live)), MOST_UNIT)
    scales = np.where(still, unit * y.scale / x.scale, _quant(weights).scales)
    rows = (-1,) + (1,) * (len(weights.shape) - 1)
    data = np.where(still.reshape(rows), 0, weights.data).astype(weights.dtype)
    with_bias = np.where(still, np.rint(np.where(still, codes, 0) / unit), bias.data).astype(np.int32)
    kept = Quantisation(scales, np.zeros(scales.size, np.int64), 0)
    names = (
        editor.constant(f"{weights.name}:{op.outputs[0]}", data, kept),
        editor.constant(f"{bias.name}:{op.outputs[0]}", with_bias),
    )
    return [replace(op, inputs=(op.inputs[0], *names, *op.inputs[3:]))]


def _fits(x: Tensor, weights: Tensor, bias: Tensor, y: Tensor) -> bool:
    """Codes with one scale for the tensor, weights with one for each channel, biases in units of the accumulator."""
    edges = all(one.quant is not None and one.quant.is_per_tensor and one.dtype == "int8" for one in (x, y))
    if not edges or weights.quant is None or weights.data is None or bias.data is None:
        return False
    return (
        weights.quant.axis == 0
        and weights.quant.scales.size == weights.shape[0] > 1
        and not weights.quant.zero_points.any()
        and bias.quant is None
        and bias.dtype == "int32"
        and bias.shape == (weights.shape[0],)
    )


def _quant(tensor: Tensor) -> Quantisation:
    assert tensor.quant is not None
    return tensor.quant


def _codes(x: Tensor, weights: Tensor, bias: Tensor, units: NDArray[np.float64]) -> NDArray[np.float64]:
    """The code above the zero point that a channel always gives; nan where inputs move it."""
    assert weights.data is not None and bias.data is not None
    zero = int(_quant(x).zero_points[0])
    low, high = -128 - zero, 127 - zero  # of an input; borders are zero, which lies between
    flat = weights.data.reshape(weights.shape[0], -1).astype(np.int64)
    up, down = np.maximum(flat, 0).sum(axis=1), np.minimum(flat, 0).sum(axis=1)
    least, most = low * up + high * down, high * up + low * down
    ends = [(bias.data.astype(np.float64) + end) * units for end in (least, most)]
    below, above = np.rint(ends[0] - DOUBT), np.rint(ends[1] + DOUBT)
    return np.where(below == above, below, np.nan)
