"""Operators that move values and compute nothing: they see codes of the output's format and return them rearranged.
Beside them resizing, with the coordinate rules of TFLite and ONNX, and the few operators on shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ops.registry import computes, moves
from atonc.compiler.ops.values import OpCall, Real
from atonc.machine.base.errors import UnsupportedError

moves("reshape", "squeeze", "expand_dims", "flatten", data_inputs=1)(
    lambda call, data: [data[0].reshape(call.out.shape)]
)
moves("transpose", data_inputs=1)(lambda call, data: [np.transpose(data[0], call.attrs["perm"])])
moves("concat")(lambda call, data: [np.concatenate(data, axis=call.attrs["axis"])])
moves("pack")(lambda call, data: [np.stack(data, axis=call.attrs["axis"])])
moves("reverse", data_inputs=1)(lambda call, data: [np.flip(data[0], axis=call.attrs["axes"])])
moves("expand", data_inputs=1)(lambda call, data: [np.broadcast_to(data[0], call.out.shape)])


@moves("unpack", data_inputs=1)
def unpack(call: OpCall, data: list[Array]) -> list[Array]:
    axis = call.attrs["axis"]
    return [np.take(data[0], i, axis=axis) for i in range(len(call.outputs))]


@moves("split", data_inputs=1)
def split(call: OpCall, data: list[Array]) -> list[Array]:
    """The output shapes say where to cut."""
    axis = call.attrs["axis"]
    ends = np.cumsum([tensor.shape[axis] for tensor in call.outputs])
    return np.split(data[0], ends[:-1], axis=axis)


@moves("slice", data_inputs=1)
def slice_values(call: OpCall, data: list[Array]) -> list[Array]:
    """`starts`, `stops` (None: to the very end) and `steps`, one per dimension."""
    attrs = call.attrs
    window = tuple(slice(*part) for part in zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True))
    return [data[0][window].reshape(call.out.shape)]


@moves("pad", data_inputs=1)
def pad(call: OpCall, data: list[Array]) -> list[Array]:
    """`pads`: (before, after) per dimension. Constant padding is the code of the real `value`, 0 unless told."""
    mode, pads = call.attrs.get("mode", "constant"), call.attrs["pads"]
    if any(amount < 0 for both in pads for amount in both):
        window = tuple(slice(max(0, -a), (n - max(0, -b))) for (a, b), n in zip(pads, data[0].shape, strict=True))
        data, pads = [data[0][window]], [(max(0, a), max(0, b)) for a, b in pads]
    if mode != "constant":
        return [np.pad(data[0], pads, mode=mode)]
    return [np.pad(data[0], pads, constant_values=border(call.attrs.get("value", 0.0), call.out))]


def border(value: float, out: Tensor) -> float:
    """What a constant border holds: the number, or its code, which ends where codes end. Before a maximum a border
    may be minus infinity."""
    if out.is_float or out.dtype == "bool":
        return value
    low, high = (end - out.zero_point for end in out.code_range)
    return round(min(max(value / out.scale, low), high)) + out.zero_point


@moves("tile", data_inputs=1)
def tile(call: OpCall, data: list[Array]) -> list[Array]:
    return [np.tile(data[0], [o // i for o, i in zip(call.out.shape, data[0].shape, strict=True)])]


def _block_order(call: OpCall, dcr: tuple[int, ...], crd: tuple[int, ...]) -> tuple[int, ...]:
    """Chooses the order of the channels: DCR (blocks slowest, TFLite and ONNX default) or CRD (blocks fastest)."""
    return dcr if call.attrs.get("order", "DCR") == "DCR" else crd


@moves("space_to_depth", data_inputs=1)
def space_to_depth(call: OpCall, data: list[Array]) -> list[Array]:
    block, x = call.attrs["block"], data[0]
    if call.attrs["layout"] == "NCHW":
        n, c, h, w = x.shape
        parts = x.reshape(n, c, h // block, block, w // block, block)
        order = _block_order(call, (0, 3, 5, 1, 2, 4), (0, 1, 3, 5, 2, 4))
    else:
        n, h, w, c = x.shape
        parts = x.reshape(n, h // block, block, w // block, block, c)
        order = _block_order(call, (0, 1, 3, 2, 4, 5), (0, 1, 3, 5, 2, 4))
    return [parts.transpose(order).reshape(call.out.shape)]


@moves("depth_to_space", data_inputs=1)
def depth_to_space(call: OpCall, data: list[Array]) -> list[Array]:
    block, x, last = call.attrs["block"], data[0], call.attrs["layout"] == "NHWC"
    n, h, w, c = x.shape if last else (x.shape[0], *x.shape[2:], x.shape[1])
    deep = _block_order(call, (block, block, c // block**2), (c // block**2, block, block))
    parts = x.reshape(n, h, w, *deep) if last else x.reshape(n, *deep, h, w)
    if last:
        order = _block_order(call, (0, 1, 3, 2, 4, 5), (0, 1, 4, 2, 5, 3))
    else:
        order = _block_order(call, (0, 3, 4, 1, 5, 2), (0, 1, 4, 2, 5, 3))
    return [parts.transpose(order).reshape(call.out.shape)]


@moves("space_to_batch", data_inputs=1)
def space_to_batch(call: OpCall, data: list[Array]) -> list[Array]:
    """Blocks and paddings of the two (or one) spatial dimensions after the batch."""
    blocks, pads = call.attrs["blocks"], call.attrs["pads"]
    spatial = len(blocks)
    width = [(0, 0), *pads] + [(0, 0)] * (data[0].ndim - 1 - spatial)
    x = np.pad(data[0], width, constant_values=call.out.zero_point)
    rest = x.shape[1 + spatial :]
    split_dims = [part for size, block in zip(x.shape[1:], blocks, strict=False) for part in (size // block, block)]
    parts = x.reshape(x.shape[0], *split_dims, *rest)
    order = [2 * i + 2 for i in range(spatial)] + [0] + [2 * i + 1 for i in range(spatial)]
    return [parts.transpose(*order, *range(2 * spatial + 1, parts.ndim)).reshape(call.out.shape)]


@moves("batch_to_space", data_inputs=1)
def batch_to_space(call: OpCall, data: list[Array]) -> list[Array]:
    blocks, crops, x = call.attrs["blocks"], call.attrs["crops"], data[0]
    spatial = len(blocks)
    batch = x.shape[0] // int(np.prod(blocks))
    parts = x.reshape(*blocks, batch, *x.shape[1:])
    order = [spatial]
    for i in range(spatial):
        order += [spatial + 1 + i, i]
    order += list(range(2 * spatial + 1, parts.ndim))
    merged = [size * block for size, block in zip(x.shape[1:], blocks, strict=False)]
    picture = parts.transpose(order).reshape(batch, *merged, *x.shape[1 + spatial :])
    window = [slice(None)] + [slice(a, size - b) for (a, b), size in zip(crops, merged, strict=True)]
    return [picture[tuple(window)]]


def _inside(indices: Array, size: int) -> Array:
    """Negative indices count from the end, and all are kept inside, as on the processor: front ends see to it that no
    constant one needs that."""
    indices = indices.astype(np.int64)
    return np.clip(np.where(indices < 0, indices + size, indices), 0, size - 1)


@moves("gather", data_inputs=1)
def gather(call: OpCall, data: list[Array]) -> list[Array]:
    axis = call.attrs["axis"]
    return [np.take(data[0], _inside(call.arg(1).codes, data[0].shape[axis]), axis=axis)]


@moves("gather_nd", data_inputs=1)
def gather_nd(call: OpCall, data: list[Array]) -> list[Array]:
    columns = np.moveaxis(call.arg(1).codes, -1, 0)
    sizes = data[0].shape[: len(columns)]
    return [data[0][tuple(_inside(column, size) for column, size in zip(columns, sizes, strict=True))]]


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
        positions = np.clip(positions, 0, size_in - 1)
        low = np.floor(positions).astype(np.int64)
        high = np.minimum(low + 1, values.shape[axis] - 1)
        weight: Any = (positions - low).reshape(tuple(-1 if i == axis else 1 for i in range(values.ndim)))
        values = np.take(values, low, axis=axis) * (1.0 - weight) + np.take(values, high, axis=axis) * weight
    return [values]


computes("shape")(lambda call: [np.array(call.arg(0).codes.shape, np.float64)])
computes("fill")(lambda call: [np.full(call.out.shape, float(call.arg(0).real.reshape(-1)[0]))])


@computes("range")
def number_range(call: OpCall) -> list[Real]:
    start, limit, delta = (float(call.arg(i).codes.reshape(-1)[0]) for i in range(3))
    return [np.arange(start, limit, delta)]
