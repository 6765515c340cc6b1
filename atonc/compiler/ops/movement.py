"""Operators that move values and compute nothing: they see codes of the output's format and return them rearranged."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.ops.registry import moves
from atonc.compiler.ops.values import OpCall


@moves("reshape", "squeeze", "expand_dims", "flatten", data_inputs=1)
def reshape(call: OpCall, data: list[Array]) -> list[Array]:
    return [data[0].reshape(call.out.shape)]


@moves("transpose", data_inputs=1)
def transpose(call: OpCall, data: list[Array]) -> list[Array]:
    return [np.transpose(data[0], call.attrs["perm"])]


@moves("concat")
def concat(call: OpCall, data: list[Array]) -> list[Array]:
    return [np.concatenate(data, axis=call.attrs["axis"])]


@moves("pack")
def pack(call: OpCall, data: list[Array]) -> list[Array]:
    return [np.stack(data, axis=call.attrs["axis"])]


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
    value = call.attrs.get("value", 0.0)
    fill = value if call.out.is_float else round(value / call.out.scale) + call.out.zero_point
    return [np.pad(data[0], pads, constant_values=fill)]


@moves("tile", "expand", data_inputs=1)
def tile(call: OpCall, data: list[Array]) -> list[Array]:
    if call.op.kind == "expand":
        return [np.broadcast_to(data[0], call.out.shape)]
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


@moves("reverse", data_inputs=1)
def reverse(call: OpCall, data: list[Array]) -> list[Array]:
    return [np.flip(data[0], axis=call.attrs["axes"])]
