"""Our kernels whose windows slide over pictures, matrix products, and linear resizing.

Sums run in the order of the weights in memory, row by row of the window and channels fastest: exact for integers, and
the same roundings as in C for floats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.cpu.atonc_args import KernelCall, kernel
from atonc.machine.emu.cpu.atonc_numbers import Format, larger
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import Array

MOST_ELEMENTS, MOST_LOOPS, MOST_PRODUCTS = 1 << 28, 1 << 22, 1 << 36  # of one layer
EXACT_BYTES = 2  # integers up to 16 bits: their sums are exact in double precision, in any order


@dataclass(frozen=True)
class AtoncWindow:
    """`atonc_window`."""

    batch: int
    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int
    k_h: int
    k_w: int
    stride_y: int
    stride_x: int
    dilate_y: int
    dilate_x: int
    top: int
    left: int
    groups: int

    @classmethod
    def of(cls, info: StructView) -> AtoncWindow:
        window = cls(**{f.name: info.integer(f.name) for f in fields(cls)})
        if min(window.stride_y, window.stride_x, window.dilate_y, window.dilate_x, window.groups) < 1:
            raise fail("strides, dilations and groups are at least 1", info.where)
        if max(window.top, window.left, window.k_h, window.k_w, window.dilate_y, window.dilate_x) > 1 << 16:
            raise fail("a window of this size", info.where)
        sizes = [getattr(window, f.name) for f in fields(cls)]
        if min(sizes) < 0 or window.in_c % window.groups or window.out_c % window.groups:
            raise fail("impossible sizes or groups", info.where)
        return window

    @classmethod
    def of_pool(cls, info: StructView) -> AtoncWindow:
        window = cls.of(info)
        if window.in_c != window.out_c:
            raise fail("a pool does not change the number of channels", info.where)
        if window.batch * window.out_h * window.in_w * window.in_c > MOST_ELEMENTS:
            raise fail("a window of this size", info.where)
        return window

    def picture(self, call: KernelCall, index: int, source: Format) -> Array:
        shape = (self.batch, self.in_h, self.in_w, self.in_c)
        return source.centred(call.read(index, source.dtype, call.bounded(*shape)).reshape(shape))

    def output_shape(self, call: KernelCall) -> tuple[int, int, int, int]:
        shape = (self.batch, self.out_h, self.out_w, self.out_c)
        call.bounded(*shape)
        return shape

    def taps(self) -> Iterator[tuple[int, int, slice, slice, slice, slice]]:
        """Kernel position, the outputs that meet the picture there, and where in the picture."""
        self.require_little_work()
        for i in range(self.k_h):
            out_y, in_y = _met(i * self.dilate_y - self.top, self.stride_y, self.out_h, self.in_h)
            for j in range(self.k_w):
                out_x, in_x = _met(j * self.dilate_x - self.left, self.stride_x, self.out_w, self.in_w)
                yield i, j, out_y, out_x, in_y, in_x


    def require_little_work(self) -> None:
        positions, outputs = self.k_h * self.k_w, self.batch * self.out_h * self.out_w * self.out_c
        if positions * self.groups > MOST_LOOPS or positions * outputs * (self.in_c // self.groups) > MOST_PRODUCTS:
            raise fail("more work than any layer has", f"a window of {self.k_h} x {self.k_w}")

    def fold(self, picture: Array, function: np.ufunc, start: float) -> Array:
        """The function over each window, first down the columns, then along the rows: for what is exact in any order,
        and hardly slower for windows as large as the picture."""
        count, channels = picture.shape[0], picture.shape[3]
        columns = np.full((count, self.out_h, self.in_w, channels), start)
        result = np.full((count, self.out_h, self.out_w, channels), start)
        for i in _meeting(self.k_h, self.dilate_y, self.top, self.stride_y, self.out_h, self.in_h):
            out_y, in_y = _met(i * self.dilate_y - self.top, self.stride_y, self.out_h, self.in_h)
            columns[:, out_y] = function(columns[:, out_y], picture[:, in_y])
        for j in _meeting(self.k_w, self.dilate_x, self.left, self.stride_x, self.out_w, self.in_w):
            out_x, in_x = _met(j * self.dilate_x - self.left, self.stride_x, self.out_w, self.in_w)
            result[:, :, out_x] = function(result[:, :, out_x], columns[:, :, in_x])
        return result


def _meeting(kernel: int, spread: int, border: int, step: int, outputs: int, size: int) -> range:
    """The kernel positions that meet the picture at all."""
    first = max(0, -(-(border - (outputs - 1) * step) // spread))
    return range(first, min(kernel - 1, (border + size - 1) // spread) + 1)


def _met(offset: int, stride: int, outputs: int, size: int) -> tuple[slice, slice]:
    """Outputs k with 0 <= k * stride + offset < size, and those positions."""
    first = max(0, -(offset // stride))
    last = min(outputs, (size - 1 - offset) // stride + 1)
    last = max(first, last)
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1 if last > first else start, stride)


def _weights(call: KernelCall, window: AtoncWindow) -> tuple[Array, bool]:
    """[out, height, width, in / groups], and whether they are floats."""
    shape = (window.out_c, window.k_h, window.k_w, window.in_c // window.groups)
    dtype = call.type(5)
    return call.read(4, dtype, call.bounded(*shape)).astype(np.float64).reshape(shape), dtype.kind == "f"


def _add(total: Array, values: Array, weights: Array, in_order: bool) -> None:
    """total[..., o] += sum over c of values[..., c] * weights[o, c]."""
    if not in_order:
        total += values @ weights.T
        return
    for c in range(weights.shape[1]):
        total += values[..., c, None] * weights[:, c]


def _in_order(source: Format, float_weights: bool) -> bool:
    return float_weights or source.dtype.kind == "f" or source.dtype.itemsize > EXACT_BYTES


def _groups(window: AtoncWindow) -> Iterator[tuple[slice, slice]]:
    """Output and input channels of each group."""
    depth, outputs = window.in_c // window.groups, window.out_c // window.groups
    for g in range(window.groups):
        yield slice(g * outputs, (g + 1) * outputs), slice(g * depth, (g + 1) * depth)


@kernel("atonc_conv")
def conv(call: KernelCall) -> None:
    target, source, window = call.format(1), call.format(3), AtoncWindow.of(call.struct(8))
    weights, floats = _weights(call, window)
    picture, total = window.picture(call, 2, source), np.zeros(window.output_shape(call))
    depthwise = window.groups == window.in_c
    repeated = np.repeat(picture, window.out_c // window.in_c, axis=3) if depthwise and window.in_c else picture
    for i, j, out_y, out_x, in_y, in_x in window.taps():
        if depthwise:
            total[:, out_y, out_x] += repeated[:, in_y, in_x] * weights[:, i, j, 0]
            continue
        for outs, ins in _groups(window):
            _add(
                total[:, out_y, out_x, outs],
                picture[:, in_y, in_x, ins],
                weights[outs, i, j],
                _in_order(source, floats),
            )
    _finish(call, total, target, window)


@kernel("atonc_transpose_conv")
def transpose_conv(call: KernelCall) -> None:
    target, source, window = call.format(1), call.format(3), AtoncWindow.of(call.struct(8))
    weights, floats = _weights(call, window)
    picture, total = window.picture(call, 2, source), np.zeros(window.output_shape(call))
    window.require_little_work()
    for i in range(window.k_h):
        in_y, out_y = _met(i * window.dilate_y - window.top, window.stride_y, window.in_h, window.out_h)
        for j in range(window.k_w):
            in_x, out_x = _met(j * window.dilate_x - window.left, window.stride_x, window.in_w, window.out_w)
            for outs, ins in _groups(window):
                part = picture[:, in_y, in_x, ins]
                _add(total[:, out_y, out_x, outs], part, weights[outs, i, j], _in_order(source, floats))
    _finish(call, total, target, window)


def _finish(call: KernelCall, total: Array, target: Format, window: AtoncWindow) -> None:
    scales, biases = call.numbers(6, window.out_c), call.numbers(7, window.out_c)
    call.write(0, target.codes(total * scales + biases, window.out_c))


@kernel("atonc_matmul")
def matmul(call: KernelCall) -> None:
    target, left, right = call.format(1), call.format(3), call.format(5)
    loops = call.loops(6, 7, 3)
    rows, depth, columns = call.sizes(8, 3)
    steps = call.integers(11, 4).tolist()
    batch = [row[0] for row in loops]
    if min(batch) <= 0 or rows == 0 or columns == 0:
        return
    call.bounded(*batch, rows, max(depth, columns))
    total = np.zeros((*batch, rows, columns))
    if depth:
        a = left.centred(call.window(2, [*batch, rows, depth], [*(r[1] for r in loops), *steps[:2]], left.dtype))
        b = right.centred(call.window(4, [*batch, depth, columns], [*(r[2] for r in loops), *steps[2:]], right.dtype))
        if _in_order(left, False) or _in_order(right, False):
            for k in range(depth):
                total += a[..., :, k, None] * b[..., None, k, :]
        else:
            total = a @ b
    call.write(0, target.codes(total * left.scale * right.scale))


@kernel("atonc_max_pool")
def max_pool(call: KernelCall) -> None:
    target, source, window = call.format(1), call.format(3), AtoncWindow.of_pool(call.struct(4))
    picture = window.picture(call, 2, source)
    result = np.full(window.output_shape(call), -np.inf)
    if not _in_order(source, False):
        result = window.fold(picture, np.maximum, -np.inf)
    else:
        for _, _, out_y, out_x, in_y, in_x in window.taps():
            result[:, out_y, out_x] = larger(result[:, out_y, out_x], picture[:, in_y, in_x])
    call.write(0, target.codes(result * source.scale))


@kernel("atonc_average_pool")
def average_pool(call: KernelCall) -> None:
    target, source, window = call.format(1), call.format(3), AtoncWindow.of_pool(call.struct(4))
    picture, total = window.picture(call, 2, source), np.zeros(window.output_shape(call))
    count = window.fold(np.ones((1, window.in_h, window.in_w, 1)), np.add, 0.0)
    if not _in_order(source, False):
        total = window.fold(picture, np.add, 0.0)
    else:
        for _, _, out_y, out_x, in_y, in_x in window.taps():
            total[:, out_y, out_x] += picture[:, in_y, in_x]
    if call.integer(5):
        count[...] = float(window.k_h * window.k_w)
    call.write(0, target.codes(total / count * source.scale))


@kernel("atonc_resize_linear")
def resize_linear(call: KernelCall) -> None:
    target, source, axes = call.format(1), call.format(3), call.integer(4)
    outer, a_in, a_out, middle, b_in, b_out, inner = call.sizes(5, 7)
    call.bounded(outer, a_out, middle, b_out, inner)
    codes = call.read(2, source.dtype, call.bounded(outer, a_in, middle, b_in, inner))
    values = _blend(call, source.real(codes.reshape(outer, a_in, middle, b_in, inner)), 1, 12, a_out)
    low = call.integers(14, b_out)
    values = _blend(call, values, 3, 14, b_out) if axes == 2 else values[:, :, :, low]
    call.write(0, target.codes(values))


def _blend(call: KernelCall, values: Array, axis: int, first: int, count: int) -> Array:
    low, weight = call.integers(first, count), call.numbers(first + 1, count)
    size = values.shape[axis]
    if low.size and not (low.min() >= 0 and low.max() < size):
        raise call.fail("a position outside its axis")
    shape = [1] * values.ndim
    shape[axis] = count
    weight = weight.reshape(shape)
    high = np.minimum(low + 1, size - 1)
    result: Array = values.take(low, axis) * (1.0 - weight) + values.take(high, axis) * weight
    return result
