"""Sums of products: convolutions (plain, grouped, depthwise, transposed), dense layers and matrix products, and the
sliding windows over channel-last pictures that pools share. Integer sums are exact, scales are applied once at the end.

Sums of floats run in the order of the weights in memory: row by row of the window, channels fastest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from atonc.compiler.ir import Array
from atonc.compiler.ops.elementwise import activation_bounds, fused_activation
from atonc.compiler.ops.portable import add_products, ordered_product
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.values import Arg, ConvSums, OpCall, Real
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """Kernel, stride, dilation in (height, width); padding as (top, left, bottom, right)."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: tuple[int, int, int, int]

    @staticmethod
    def of(attrs: Mapping[str, Any], kernel: Pair) -> Geometry:
        return Geometry(kernel, attrs["stride"], attrs.get("dilation", (1, 1)), attrs["padding"])

    def output_size(self, height: int, width: int) -> Pair:
        top, left, bottom, right = self.padding
        reach = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        rows = (height + top + bottom - reach[0]) // self.stride[0] + 1
        columns = (width + left + right - reach[1]) // self.stride[1] + 1
        if rows < 1 or columns < 1:
            raise ModelError(f"a {self.kernel} window does not fit a {height}x{width} image")
        return rows, columns

    def pad(self, picture: Array, fill: float) -> Array:
        top, left, bottom, right = self.padding
        if not any(self.padding):
            return picture
        return np.pad(picture, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)

    def taps(self, padded: Array, size: Pair) -> Iterator[tuple[int, int, Array]]:
        """For each kernel position the values that every output pixel sees there: [n, rows, columns, channels]."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                y, x = i * self.dilation[0], j * self.dilation[1]
                stop_y, stop_x = y + (size[0] - 1) * self.stride[0] + 1, x + (size[1] - 1) * self.stride[1] + 1
                yield i, j, padded[:, y : stop_y : self.stride[0], x : stop_x : self.stride[1], :]

    def along(self, axis: int, size: int, outputs: int) -> Iterator[tuple[slice, slice]]:
        """In one direction: for each kernel position that meets the picture, which outputs do and which pixels."""
        step, spread, border = self.stride[axis], self.dilation[axis], self.padding[axis]
        first = max(0, -(-(border - (outputs - 1) * step) // spread))
        last = min(self.kernel[axis] - 1, (border + size - 1) // spread)
        for position in range(first, last + 1):
            offset = position * spread - border
            start = max(0, -(offset // step))
            stop = min(outputs, (size - 1 - offset) // step + 1)
            if start < stop:
                begin = start * step + offset
                yield slice(start, stop), slice(begin, begin + (stop - start - 1) * step + 1, step)

    def fold(self, picture: Array, size: Pair, function: np.ufunc, start: float) -> Array:
        """The function over each window, first down the columns, then along the rows: for what is exact in any order,
        and hardly slower for windows as large as the picture."""
        count, height, width, channels = picture.shape
        columns = np.full((count, size[0], width, channels), start)
        for outputs, pixels in self.along(0, height, size[0]):
            function(columns[:, outputs], picture[:, pixels], out=columns[:, outputs])
        result = np.full((count, *size, channels), start)
        for outputs, pixels in self.along(1, width, size[1]):
            function(result[:, :, outputs], columns[:, :, pixels], out=result[:, :, outputs])
        return result


def channel_last(values: Array, layout: str) -> Array:
    """A view [n, height, width, channels]; sequences [n, length, channels] get height 1."""
    if layout == "NCHW":
        values = np.moveaxis(values, 1, -1)
    return values[:, None] if values.ndim == 3 else values


def restore_layout(values: Array, layout: str, rank: int) -> Array:
    """The inverse of channel_last."""
    if rank == 3:
        values = values[:, 0]
    return np.moveaxis(values, -1, 1) if layout == "NCHW" else values


def pair(values: tuple[int, ...]) -> Pair:
    """(height, width) of a kernel attribute; sequences have height 1."""
    return (1, values[0]) if len(values) == 1 else (values[0], values[1])


PATCH_BYTES = 48 << 20  # patches are gathered for as many output rows as fit
PART_BYTES = 256 << 10


def exact_type(x: Arg, weights: Arg) -> type[np.floating[Any]]:
    """float32 if no partial sum of these integers can leave its 24 bits, else float64 (53 bits)."""
    if has_floats(x, weights) or not x.codes.size:
        return np.float64
    largest_sum = np.abs(weights.centred).reshape(weights.codes.shape[0], -1).sum(axis=1).max()
    return np.float32 if largest_sum * x.largest < 1 << 24 else np.float64


def has_floats(x: Arg, weights: Arg) -> bool:
    return x.tensor.is_float or weights.tensor.is_float


def bias_in_real(bias: Arg | None, scale: Real) -> Real | float:
    """Biases without a quantisation of their own count in units of the accumulator."""
    if bias is None:
        return 0.0
    if bias.tensor.quant is None and not bias.tensor.is_float:
        return bias.centred.reshape(-1) * scale
    return bias.real.reshape(-1)


@computes("conv")
def conv(call: OpCall) -> list[Real | ConvSums]:
    """Weights [out, height, width, in/groups]; bias in accumulator units, quantised or float."""
    x, weights = call.arg(0), call.arg(1)
    layout, rank = call.attrs["layout"], x.codes.ndim
    scale = x.scales * weights.scales
    dtype = exact_type(x, weights)
    picture = channel_last(x.centred_as(dtype), layout)
    acc = accumulate(picture, weights.centred.astype(dtype), call.attrs, has_floats(x, weights))
    channels = (acc.shape[-1],)
    bias = bias_in_real(call.optional(2), scale)
    sums = ConvSums(acc, scale + np.zeros(channels), bias + np.zeros(channels))
    if dtype is np.float32 and rank == 4 and layout == "NHWC" and activation_bounds(call.attrs, call.out) is None:
        return [sums]
    return [fused_activation(restore_layout(sums.real(), layout, rank), call)]


def accumulate(picture: Array, weights: Array, attrs: Any, in_order: bool = False) -> Array:
    geometry = Geometry.of(attrs, weights.shape[1:3])
    groups = attrs.get("groups", 1)
    channels = picture.shape[3]
    if channels != groups * weights.shape[3] or weights.shape[0] % groups:
        raise ModelError(f"{channels} input channels do not fit weights {weights.shape} in {groups} groups")
    size = geometry.output_size(picture.shape[1], picture.shape[2])
    padded = geometry.pad(picture, 0)
    dense = _ordered if in_order else _dense
    if groups == 1:
        return dense(padded, weights, geometry, size)
    if weights.shape[3] == 1:
        return _depthwise(padded, weights, geometry, size)
    xs, ws = np.split(padded, groups, axis=3), np.split(weights, groups, axis=0)
    return np.concatenate([dense(x, w, geometry, size) for x, w in zip(xs, ws, strict=True)], axis=3)


def _dense(padded: Array, weights: Array, geometry: Geometry, size: tuple[int, int]) -> Array:
    count, _, _, channels = padded.shape
    outputs = weights.shape[0]
    matrix = np.ascontiguousarray(weights.reshape(outputs, -1).T)
    if geometry.kernel == (1, 1):
        taps = next(geometry.taps(padded, size))[2]
        return (taps.reshape(-1, channels) @ matrix).reshape(count, *size, outputs)
    result = np.empty((count, *size, outputs), padded.dtype)
    step = max(1, PATCH_BYTES // max(1, count * size[1] * matrix.shape[0] * padded.itemsize))
    for first in range(0, size[0], step):
        rows = min(step, size[0] - first)
        part = padded[:, first * geometry.stride[0] :]
        patches = _patches(part, geometry, (rows, size[1])).reshape(-1, matrix.shape[0])
        result[:, first : first + rows] = (patches @ matrix).reshape(count, rows, size[1], outputs)
    return result


def _patches(padded: Array, geometry: Geometry, size: tuple[int, int]) -> Array:
    """What every output pixel sees, row by row of the window, channels fastest."""
    count, height, width, channels = padded.shape
    if geometry.dilation[1] > 1 or not padded[0].flags.c_contiguous:
        return np.stack([tap for _, _, tap in geometry.taps(padded, size)], axis=3)
    rows, columns = geometry.kernel
    found = np.empty((count, *size, rows, columns * channels), padded.dtype)
    lines = sliding_window_view(padded.reshape(count, height, width * channels), columns * channels, axis=2)
    across = slice(0, (size[1] - 1) * geometry.stride[1] * channels + 1, geometry.stride[1] * channels)
    for i in range(rows):  # a row of the window lies in one piece
        first = i * geometry.dilation[0]
        found[..., i, :] = lines[:, first : first + (size[0] - 1) * geometry.stride[0] + 1 : geometry.stride[0], across]
    return found


def _ordered(padded: Array, weights: Array, geometry: Geometry, size: tuple[int, int]) -> Array:
    total = np.zeros((padded.shape[0], *size, weights.shape[0]))
    for i, j, tap in geometry.taps(padded, size):
        add_products(total, tap, weights[:, i, j].T)
    return total


def _depthwise(padded: Array, weights: Array, geometry: Geometry, size: tuple[int, int]) -> Array:
    """One input channel per output: a multiply-add per kernel position over the whole picture."""
    multiplier = weights.shape[0] // padded.shape[3]
    if multiplier > 1:
        padded = np.repeat(padded, multiplier, axis=3)
    shape = (padded.shape[0], *size, weights.shape[0])
    kernels: Array = weights[..., 0].transpose(1, 2, 0)
    if geometry.stride[1] == 1 and padded.flags.c_contiguous:
        # numbers of a line follow each other in memory: one long row instead of short pixels
        channels, (rows_apart, columns_apart) = shape[3], geometry.dilation
        kernels = np.tile(kernels, size[1])[..., None]
        geometry = replace(geometry, dilation=(rows_apart, columns_apart * channels))
        padded, size = padded.reshape(*padded.shape[:2], -1, 1), (size[0], size[1] * channels)
    acc = np.zeros((shape[0], *size, padded.shape[3]), padded.dtype)
    step = max(1, PART_BYTES // max(1, acc[:, :1].nbytes))
    products = np.empty_like(acc[:, :step])
    for first in range(0, size[0], step):  # as many rows as the processor's cache holds
        part = acc[:, first : first + step]
        for i, j, tap in geometry.taps(padded[:, first * geometry.stride[0] :], (part.shape[1], size[1])):
            part += np.multiply(tap, kernels[i, j], out=products[:, : part.shape[1]])
    return acc.reshape(shape)


@computes("transpose_conv")
def transpose_conv(call: OpCall) -> list[Real]:
    """Scatters x * weights; `padding` is what is cut from the full result at (top, left)."""
    x, weights = call.arg(0), call.arg(1)
    layout, rank = call.attrs["layout"], x.codes.ndim
    scale = x.scales * weights.scales
    groups = call.attrs.get("groups", 1)
    picture = channel_last(x.centred, layout)
    height, width = channel_last(np.empty(call.out.shape, np.int8), layout).shape[1:3]
    xs, ws = np.split(picture, groups, axis=3), np.split(weights.centred, groups, axis=0)
    parts = [_scatter(a, b, call.attrs, (height, width), has_floats(x, weights)) for a, b in zip(xs, ws, strict=True)]
    acc = np.concatenate(parts, axis=3)
    real = acc * scale + bias_in_real(call.optional(2), scale)
    return [fused_activation(restore_layout(real, layout, rank), call)]


def _scatter(picture: Real, weights: Real, attrs: Any, size: tuple[int, int], in_order: bool) -> Real:
    count, rows, columns, _ = picture.shape
    (step_y, step_x), (top, left) = attrs["stride"], attrs["padding"][:2]
    dilate_y, dilate_x = attrs.get("dilation", (1, 1))
    kernel_y, kernel_x = weights.shape[1:3]
    full_y = max((rows - 1) * step_y + (kernel_y - 1) * dilate_y + 1, top + size[0])
    full_x = max((columns - 1) * step_x + (kernel_x - 1) * dilate_x + 1, left + size[1])
    full = np.zeros((count, full_y, full_x, weights.shape[0]))
    for i in range(kernel_y):
        for j in range(kernel_x):
            y, x = i * dilate_y, j * dilate_x
            window = full[:, y : y + (rows - 1) * step_y + 1 : step_y, x : x + (columns - 1) * step_x + 1 : step_x]
            if in_order:
                add_products(window, picture, weights[:, i, j].T)
            else:
                window += picture @ weights[:, i, j].T
    return full[:, top : top + size[0], left : left + size[1]]


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
