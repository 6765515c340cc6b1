"""Resizing along any axes, nearest or linear, with the coordinate rules of TFLite and ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.ops.registry import computes, moves
from atonc.compiler.ops.values import OpCall, Real
from atonc.machine.base.errors import UnsupportedError


def source_positions(size_in: int, size_out: int, scale: float, coordinates: str) -> Real:
    """For every output index the real position in the input. `scale` is output per input."""
    index = np.arange(size_out, dtype=np.float64)
    if coordinates == "asymmetric":
        return index / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (index + 0.5) / scale
    if coordinates == "half_pixel":
        return (index + 0.5) / scale - 0.5
    if coordinates == "align_corners":
        return index * (size_in - 1) / (size_out - 1) if size_out > 1 else np.zeros(1)
    if coordinates == "pytorch_half_pixel":
        return (index + 0.5) / scale - 0.5 if size_out > 1 else np.zeros(1)
    raise UnsupportedError(f"resize coordinates {coordinates} have no reference kernel")


def nearest_index(positions: Real, mode: str) -> Array:
    if mode == "floor":
        # positions such as 3 * (1/3) must not fall below the integer that they mean
        return np.floor(positions + 1e-9)
    if mode == "ceil":
        return np.ceil(positions - 1e-9)
    if mode == "round_prefer_floor":
        return np.ceil(positions - 0.5)
    return np.floor(positions + 0.5)


def _axes(call: OpCall) -> list[tuple[int, int, int, float]]:
    """(axis, size in, size out, scale) of every resized axis."""
    scales = call.attrs.get("scales")
    pairs = enumerate(zip(call.arg(0).codes.shape, call.out.shape, strict=True))
    return [
        (axis, a, b, float(scales[axis]) if scales else b / a)
        for axis, (a, b) in pairs
        if a != b or (scales and scales[axis] != 1.0)
    ]


@moves("resize_nearest", data_inputs=1)
def resize_nearest(call: OpCall, data: list[Array]) -> list[Array]:
    values = data[0]
    for axis, size_in, size_out, scale in _axes(call):
        positions = source_positions(size_in, size_out, scale, call.attrs["coordinates"])
        index = nearest_index(positions, call.attrs["rounding"])
        values = np.take(values, np.clip(index, 0, size_in - 1).astype(np.int64), axis=axis)
    return [values]


@computes("resize_linear")
def resize_linear(call: OpCall) -> list[Real]:
    values = call.arg(0).real
    for axis, size_in, size_out, scale in _axes(call):
        positions = source_positions(size_in, size_out, scale, call.attrs["coordinates"])
        values = _blend(values, axis, np.clip(positions, 0, size_in - 1))
    return [values]


def _blend(values: Real, axis: int, positions: Real) -> Real:
    low = np.floor(positions).astype(np.int64)
    high = np.minimum(low + 1, values.shape[axis] - 1)
    weight: Any = (positions - low).reshape(tuple(-1 if i == axis else 1 for i in range(values.ndim)))
    return np.take(values, low, axis=axis) * (1.0 - weight) + np.take(values, high, axis=axis) * weight
