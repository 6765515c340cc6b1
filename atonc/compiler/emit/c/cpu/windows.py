"""Convolutions, fully connected layers, pools, matrix products and linear resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from atonc.compiler.emit.c.calls import ConstantTable, CpuCall, Struct
from atonc.compiler.emit.c.cpu.site import TYPES, Site, broadcast_steps, kernel_for, nested, table
from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ops.conv import bias_in_real, pair
from atonc.compiler.ops.kernel_order import KernelOrder
from atonc.compiler.ops.movement import source_positions
from atonc.compiler.ops.values import Arg

Pair = tuple[int, int]


def picture_shape(site: Site, tensor: Tensor) -> tuple[int, int, int, int]:
    """Batch, height, width, channels; sequences have height 1."""
    if site.attrs.get("layout", "NHWC") != "NHWC":
        raise site.refuse("channels first")
    if len(tensor.shape) not in (3, 4):
        raise site.refuse(f"shape {tensor.shape} is neither an image nor a sequence")
    return (tensor.shape[0], 1, *tensor.shape[1:]) if len(tensor.shape) == 3 else tensor.shape  # type: ignore[return-value]


def window(site: Site, source: Sequence[int], target: Sequence[int], kernel: Pair, groups: int = 1) -> Struct:
    attrs = site.attrs
    stride, dilation = attrs.get("stride", (1, 1)), attrs.get("dilation", (1, 1))
    top, left = attrs.get("padding", (0, 0))[:2]
    numbers = (*source, *target[1:], *kernel, *stride, *dilation, top, left, groups)
    names = (
        "batch", "in_h", "in_w", "in_c", "out_h", "out_w", "out_c", "k_h", "k_w", "stride_y", "stride_x", "dilate_y",
        "dilate_x", "top", "left", "groups",
    )  # fmt: skip
    return Struct("atonc_window", tuple((name, int(number)) for name, number in zip(names, numbers, strict=True)))


# --- weights -------------------------------------------------------------------------------------------------------


def weight_table(site: Site, source: Tensor, weights: Tensor) -> tuple[ConstantTable, int]:
    """Weights without their zero point, in the smallest type, and the number of that type."""
    if weights.data is None:
        raise site.refuse("weights that are computed by the network")
    centred = Arg(weights, weights.data).centred
    if weights.is_float:
        dtype = "float64" if weights.dtype == "float64" else "float32"
    elif not _fits(centred, 16):
        dtype = "float64"
    else:
        dtype = "int8" if _fits(centred, 8) and _sums_fit(source, centred) else "int16"
    number, ctype = TYPES[dtype]
    return site.reals(centred.astype(dtype), ctype), number


def _fits(values: Array, bits: int) -> bool:
    return not values.size or bool(values.min() >= -(1 << bits - 1) and values.max() < 1 << bits - 1)


def _sums_fit(source: Tensor, weights: Array) -> bool:
    """Whether 32 bits hold all sums of bytes times these weights; other inputs are not added in 32 bits."""
    largest = np.abs(weights).reshape(weights.shape[0], -1).sum(axis=1).max(initial=0.0)
    return source.dtype not in ("int8", "uint8") or largest * 256 < 1 << 31


def _scales(site: Site, source: Tensor, weights: Tensor, bias: Tensor | None) -> tuple[ConstantTable, ConstantTable]:
    """What the sum of each output channel is multiplied with, and what is added."""
    scale, _ = site.scale_zero(source)
    outputs = weights.shape[0]
    scales = scale * (np.ones(1) if weights.quant is None else weights.quant.scales)
    if bias is not None and bias.data is None:
        raise site.refuse("a bias that is computed by the network")
    offset = bias_in_real(None if bias is None or bias.data is None else Arg(bias, bias.data), scales)
    return site.reals(np.broadcast_to(scales, (outputs,))), site.reals(np.broadcast_to(offset, (outputs,)))


def _weighted(site: Site, function: str, geometry: Struct) -> tuple[CpuCall, ...]:
    source, weights = site.input(0), site.input(1)
    entries, kind = weight_table(site, source, weights)
    scales = _scales(site, source, weights, site.input(2) if site.has(2) else None)
    inputs = (site.source(source), site.format(source), entries, kind, *scales)
    return site.call(function, site.target(site.output()), site.activated_format(), *inputs, geometry)


@kernel_for("conv", "transpose_conv")
def convolution(site: Site) -> tuple[CpuCall, ...]:
    source, target = picture_shape(site, site.input()), picture_shape(site, site.output())
    kernel = site.input(1).shape[1:3]
    geometry = window(site, source, target, (kernel[0], kernel[1]), int(site.attrs.get("groups", 1)))
    return _weighted(site, f"atonc_{site.op.kind}", geometry)


@kernel_for("dense")
def dense(site: Site) -> tuple[CpuCall, ...]:
    """A convolution over a column of rows."""
    outputs, depth = site.input(1).shape
    rows = site.input().elements // max(1, depth)
    return _weighted(site, "atonc_conv", window(site, (1, rows, 1, depth), (1, rows, 1, outputs), (1, 1)))


# --- pools ---------------------------------------------------------------------------------------------------------


@kernel_for("max_pool", "average_pool")
def pool(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    geometry = window(site, picture_shape(site, source), picture_shape(site, target), pair(site.attrs["window"]))
    extra = (int(bool(site.attrs.get("count_include_pad", False))),) if site.op.kind == "average_pool" else ()
    inputs = (site.source(source), site.format(source))
    return site.call(f"atonc_{site.op.kind}", site.target(target), site.activated_format(), *inputs, geometry, *extra)


# --- products ------------------------------------------------------------------------------------------------------


@kernel_for("matmul")
def matmul(site: Site) -> tuple[CpuCall, ...]:
    a, b, target = site.input(0), site.input(1), site.output()
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise site.refuse(f"shapes {a.shape} and {b.shape}")
    (rows, depth), (_, columns) = a.shape[-2:], b.shape[-2:]
    steps_a, steps_b = (depth, 1), (columns, 1)
    if site.attrs.get("transpose_a"):
        rows, depth, steps_a = depth, rows, (1, depth)
    if site.attrs.get("transpose_b"):
        columns, steps_b = b.shape[-2], (1, columns)
    batch = target.shape[:-2]
    inner_a, inner_b = math.prod(a.shape[-2:]), math.prod(b.shape[-2:])
    loops = nested(
        site, batch, broadcast_steps(a.shape[:-2], batch, inner_a), broadcast_steps(b.shape[:-2], batch, inner_b)
    )
    return site.call(
        "atonc_matmul",
        site.target(target),
        site.activated_format(),
        site.source(a),
        site.format(a),
        site.source(b),
        site.format(b),
        *loops,
        rows,
        depth,
        columns,
        table("int32_t", (*steps_a, *steps_b)),
    )


@kernel_for("pack_kernels")
def pack_kernels(site: Site) -> tuple[CpuCall, ...]:
    source, order = site.input(), KernelOrder.of(site.attrs)
    rows, columns = source.shape[-2:]
    columns, depth = (rows, columns) if order.turned else (columns, rows)
    sizes = (math.prod(source.shape[:-2]), columns, depth, int(order.turned), order.kernels, order.channels)
    units = table("int32_t", np.array(order.attrs["units"]))
    return site.call(
        "atonc_pack_kernels", site.target(site.output()), site.source(source), *sizes, len(order.units), units
    )


# --- resizing ------------------------------------------------------------------------------------------------------


def two_axes(site: Site, axes: Sequence[int]) -> tuple[int, int]:
    """The axes that a kernel for two axes works on; a missing second one is any other that comes later or earlier."""
    rank = len(site.input().shape)
    if not 1 <= len(axes) <= 2 or rank < 2:
        raise site.refuse(f"along {len(axes)} axes of {rank}")
    return (axes[0], axes[1]) if len(axes) == 2 else (axes[0], rank)


def split_shape(shape: Sequence[int], a: int, b: int) -> tuple[int, int, int, int, int]:
    """[outer][a][middle][b][inner]; an axis behind the last one has length 1."""
    inside = shape[b] if b < len(shape) else 1
    return math.prod(shape[:a]), shape[a], math.prod(shape[a + 1 : b]), inside, math.prod(shape[b + 1 :])


@kernel_for("resize_linear")
def resize_linear(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    scales = site.attrs.get("scales")
    axes = [
        k
        for k, (a, b) in enumerate(zip(source.shape, target.shape, strict=True))
        if a != b or (scales and scales[k] != 1.0)
    ]
    a, b = two_axes(site, axes or [0])
    outer, a_in, middle, b_in, inner = split_shape(source.shape, a, b)
    _, a_out, _, b_out, _ = split_shape(target.shape, a, b)
    tables = (
        *_neighbours(site, a_in, a_out, float(scales[a]) if scales and axes else a_out / a_in),
        *_neighbours(site, b_in, b_out, float(scales[b]) if scales and len(axes) == 2 else b_out / b_in),
    )
    return site.call(
        "atonc_resize_linear",
        site.target(target),
        site.out_format(),
        site.source(source),
        site.format(source),
        max(1, len(axes)),
        *(outer, a_in, a_out, middle, b_in, b_out, inner),
        *tables,
    )


def _neighbours(site: Site, size_in: int, size_out: int, scale: float) -> tuple[ConstantTable, ConstantTable]:
    """For every output position the neighbour below, and the weight of the one above."""
    positions = np.clip(source_positions(size_in, size_out, scale, site.attrs["coordinates"]), 0, size_in - 1)
    low = np.floor(positions).astype(np.int64)
    return table("int32_t", low), site.reals(positions - low)
