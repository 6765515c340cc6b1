"""Our own kernels, atonc_kernels.c on whole arrays, written from the C file: their arguments, kernels for one value
at a time and for pairs, moves of bytes, layers with a state, kernels along rows, windows, products and linear resizing.

Sums under windows run in the order of the weights in memory, row by row of the window and channels fastest: exact for
integers, and the same roundings as in C for floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.cpu.atonc_costs import WORK, Work
from atonc.machine.emu.cpu.atonc_numbers import (
    UNARY,
    Format,
    element_type,
    exponential,
    hyperbolic_tangent,
    larger,
    logarithm,
    logistic,
    power,
    smaller,
)
from atonc.machine.emu.cpu.library import LibraryCall
from atonc.machine.emu.cpu.st_math import divide_by_power_of_two, multiply_high
from atonc.machine.emu.cpu.struct_view import KERNELS, StructView, as_number, fail
from atonc.machine.emu.cpu.tensors import MAX_ELEMENTS, Array

MAX_LOOPS = 8
BYTE, _HALF = np.dtype(np.uint8), np.dtype("<i2")


class KernelCall(LibraryCall):
    """One call of a kernel of ours; arguments as in atonc_kernels.h, every access bounded."""

    def place(self, index: int) -> str:
        return f"{self.name} argument {index + 1}"

    def size(self, index: int) -> int:
        return self.bounded(self.integer(index))

    def sizes(self, first: int, count: int) -> list[int]:
        return [self.size(first + k) for k in range(count)]

    def bounded(self, *factors: int) -> int:
        """A number of elements that a memory can hold."""
        product = math.prod(factors)
        if any(n < 0 for n in factors) or product > MAX_ELEMENTS * 8:
            raise self.fail(f"a size of {' x '.join(map(str, factors))} is impossible")
        return product

    def number(self, index: int) -> float:
        return as_number(self.value(index), self.place(index))

    def format(self, index: int) -> Format:
        return Format.of(self.struct(index))

    def type(self, index: int) -> np.dtype[Any]:
        return element_type(self.integer(index), self.name)

    def is_null(self, index: int) -> bool:
        return self.value(index) in (0, None)

    # --- data

    def read(self, index: int, dtype: np.dtype[Any], count: int) -> Array:
        """The first `count` elements behind a pointer: in memory, or of a table in the code."""
        self.bounded(count)
        value = self.value(index)
        if not isinstance(value, list):
            return self.memory.read(self.address(index), count * dtype.itemsize).view(dtype)
        if len(value) < count:
            raise self.fail(f"a table of {len(value)} numbers where {count} are read")
        try:
            return np.array(value[:count], dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.fail(f"a table that does not hold {dtype} numbers") from error

    def write(self, index: int, values: Array) -> None:
        self.memory.write(self.address(index), np.ascontiguousarray(values).reshape(-1).view(np.uint8))

    def integers(self, index: int, count: int) -> Array:
        return self.read(index, np.dtype("<i4"), count).astype(np.int64)

    def numbers(self, index: int, count: int) -> Array:
        return self.read(index, np.dtype("<f8"), count)

    def loops(self, rank: int, index: int, width: int) -> list[list[int]]:
        """Rows {count, step, ...} of nested loops."""
        count = self.integer(rank)
        if not 1 <= count <= MAX_LOOPS:
            raise self.fail(f"{count} nested loops")
        found: list[list[int]] = self.integers(index, count * width).reshape(count, width).tolist()
        self.bounded(*(max(0, row[0]) for row in found))
        return found

    def window(self, index: int, shape: list[int], steps: list[int], dtype: np.dtype[Any]) -> Array:
        """A strided view; steps in elements, also negative ones. The address is that of position 0."""
        ends = [(n - 1) * step * dtype.itemsize for n, step in zip(shape, steps, strict=True)]
        first, last = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends) + dtype.itemsize
        value = self.value(index)
        if isinstance(value, list):
            if first < 0:
                raise self.fail("a walk that leaves its table")
            data = self.read(index, dtype, last // dtype.itemsize)
        else:
            data = self.memory.view(self.address(index) + first, last - first)
        strides = tuple(step * dtype.itemsize for step in steps)
        return np.ndarray(tuple(shape), dtype, buffer=data.data, offset=-first, strides=strides)


def kernel(
    name: str, price: Work | None = None
) -> Callable[[Callable[[KernelCall], None]], Callable[[KernelCall], None]]:
    """Registers one of our kernels by its C name, with its price unless `atonc_costs.WORK` has that."""

    def register(function: Callable[[KernelCall], None]) -> Callable[[KernelCall], None]:
        if price is not None:
            WORK[name] = price
        KERNELS[name] = lambda args, memory: function(KernelCall(name, args, memory))
        return function

    return register


def _single(values: Array, scale: float) -> Array:
    return values if scale == 1.0 else values.astype(np.float32).astype(np.float64)


# in the order of atonc_kernels.h
BINARY: tuple[Callable[[Array, Array], Array], ...] = (
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    lambda a, b: np.trunc(a / b),
    smaller,
    larger,
    np.floor_divide,
    np.mod,
    lambda a, b: (a - b) * (a - b),
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.equal,
    np.not_equal,
    lambda a, b: (a != 0) & (b != 0),
    lambda a, b: (a != 0) | (b != 0),
    lambda a, b: np.where(a >= 0, a, a * b),
    lambda a, b: np.where(a >= 0, a, a * b),
    np.fmod,
    power,
)
PRELU_TWICE = 19
JUMPING = (7, 8, *range(10, 16), 20)  # floor_div, floor_mod, comparisons and fmod, as functions of one value that jump


@kernel("atonc_lookup")
def lookup(call: KernelCall) -> None:
    codes = call.read(1, BYTE, call.size(2))
    item = call.integer(4)
    if item not in (1, 2, 4, 8):
        raise call.fail(f"entries of {item} bytes")
    call.write(0, call.read(3, BYTE, 256 * item).reshape(256, item)[codes])


@kernel("atonc_curve")
def curve(call: KernelCall) -> None:
    bits = call.integer(4)
    if not 1 <= bits <= 14:
        raise call.fail(f"entries 2^{bits} codes apart")
    begin, step = call.read(3, _HALF, 2 << 16 - bits).astype(np.int64).reshape(2, -1)
    if step.min() < -32767:
        raise call.fail("a line that falls by 2^15")
    places = call.read(1, _HALF, call.size(2)).astype(np.int64) & 0xFFFF
    at = places >> bits
    rest = places - (at + (at & 1) << bits)  # behind an odd place it is negative: from the end of its line
    call.write(0, np.clip(begin[at] + (step[at] * rest + (1 << bits - 1) >> bits), -32768, 32767).astype(_HALF))


@kernel("atonc_convert")
def convert(call: KernelCall) -> None:
    target, source = call.format(1), call.format(3)
    call.write(0, target.codes(source.real(call.read(2, source.dtype, call.size(4)))))


@kernel("atonc_unary")
def unary(call: KernelCall) -> None:
    target, source, function = call.format(1), call.format(3), call.integer(5)
    if not 0 <= function < len(UNARY):
        raise call.fail(f"function {function} is unknown")
    values = source.real(call.read(2, source.dtype, call.size(4)))
    if UNARY[function].jumps:
        values = _single(values, source.scale)
    call.write(0, target.codes(UNARY[function].of(values, call.number(6), call.number(7))))


@kernel("atonc_affine")
def affine(call: KernelCall) -> None:
    target, source = call.format(1), call.format(3)
    rows, channels = call.sizes(4, 2)
    values = source.real(call.read(2, source.dtype, call.bounded(rows, channels)).reshape(rows, channels))
    call.write(0, target.codes(values * call.numbers(6, channels) + call.numbers(7, channels)))


@kernel("atonc_binary")
def binary(call: KernelCall) -> None:
    target, left, right = call.format(1), call.format(3), call.format(5)
    loops, function = call.loops(6, 7, 3), call.integer(8)
    if not 0 <= function < len(BINARY):
        raise call.fail(f"function {function} is unknown")
    shape = [row[0] for row in loops]
    if min(shape) <= 0:
        return
    a = left.real(call.window(2, shape, [row[1] for row in loops], left.dtype))
    b = right.real(call.window(4, shape, [row[2] for row in loops], right.dtype))
    if function in JUMPING:
        a, b = _single(a, left.scale), _single(b, right.scale)
    sided = function == PRELU_TWICE
    below = a < 0
    values = BINARY[function](np.where(below, a / left.scale, a) if sided else a, b).astype(np.float64)
    codes = target.codes(values)
    call.write(0, np.where(below, target.below().codes(values), codes) if sided else codes)


@kernel("atonc_select")
def select(call: KernelCall) -> None:
    target, left, right = call.format(1), call.format(5), call.format(7)
    loops = call.loops(8, 9, 4)
    shape = [row[0] for row in loops]
    if min(shape) <= 0:
        return
    condition = call.window(2, shape, [row[1] for row in loops], call.type(3)) != 0
    a = left.real(call.window(4, shape, [row[2] for row in loops], left.dtype))
    b = right.real(call.window(6, shape, [row[3] for row in loops], right.dtype))
    call.write(0, target.codes(np.where(condition, a, b)))


@kernel("atonc_copy")
def copy(call: KernelCall) -> None:
    call.write(0, call.read(1, BYTE, call.size(2)))


@kernel("atonc_fill")
def fill(call: KernelCall) -> None:
    item, count = call.size(2), call.size(3)
    call.bounded(item, count)
    call.write(0, np.tile(call.read(1, BYTE, item), count))


@kernel("atonc_move")
def move(call: KernelCall) -> None:
    run, loops = call.size(2), call.loops(3, 4, 3)
    shape = [*(row[0] for row in loops), run]
    if min(shape) <= 0:
        return
    call.bounded(*shape)
    data = call.window(1, shape, [*(row[2] for row in loops), 1], BYTE).copy()
    if not call.is_null(5):
        data = call.read(5, BYTE, 256)[data]
    call.window(0, shape, [*(row[1] for row in loops), 1], BYTE)[...] = data


@kernel("atonc_take")
def take(call: KernelCall) -> None:
    outer, a_in, a_out, middle, b_in, b_out, run = call.sizes(2, 7)
    a_index, b_index = call.integers(9, a_out), call.integers(10, b_out)
    call.bounded(outer, a_out, middle, b_out, run)
    for index, size in ((a_index, a_in), (b_index, b_in)):
        if index.size and not (index.min() >= 0 and index.max() < size):
            raise call.fail("a position outside its axis")
    data = call.read(1, BYTE, call.bounded(outer, a_in, middle, b_in, run)).reshape(outer, a_in, middle, b_in, run)
    call.write(0, data[:, a_index][:, :, :, b_index])


def _inside(indices: Array, size: Array | int) -> Array:
    """Negative ones count from the end, others are kept inside."""
    positions = indices.astype(np.float64)
    positions = np.where(positions < 0, positions + size, positions)
    return np.clip(np.where(np.isnan(positions), 0.0, positions), 0, np.asarray(size) - 1).astype(np.int64)


@kernel("atonc_gather")
def gather(call: KernelCall) -> None:
    outer, size, run = call.sizes(2, 3)
    count = call.size(7)
    call.bounded(outer, count, run)
    if size == 0:
        raise call.fail("nothing to pick from")
    indices = _inside(call.read(5, call.type(6), count), size)
    call.write(0, call.read(1, BYTE, call.bounded(outer, size, run)).reshape(outer, size, run)[:, indices])


@kernel("atonc_gather_nd")
def gather_nd(call: KernelCall) -> None:
    run, tuples, depth = call.size(2), call.size(5), call.size(6)
    axes = call.integers(7, 2 * depth).reshape(depth, 2)
    call.bounded(tuples, run)
    if axes.size and (axes[:, 0].min() < 1 or axes.min() < 0):
        raise call.fail("an axis without elements")
    extent = int(((axes[:, 0] - 1) * axes[:, 1]).sum()) + run
    indices = call.read(3, call.type(4), call.bounded(tuples, depth)).reshape(tuples, depth)
    starts = (_inside(indices, axes[:, 0]) * axes[:, 1]).sum(axis=1)
    data = call.read(1, BYTE, extent)
    call.write(0, data[starts[:, None] + np.arange(run)])


MOST_CELLS = 1024
_SIGNED, _WORD, _SINGLE = np.dtype(np.int8), np.dtype("<i4"), np.dtype("<f4")
_POWERS = (25520, 19875, 12055, 4435, 600, 11, 0)


def _clip(values: Array) -> Array:
    return np.clip(values, -32768, 32767)


def _high(a: Array | int, b: Array | int) -> Array:
    """Multiplies numbers of 16 bits and keeps the high half, as for 32 bits with both factors moved up."""
    wide = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = wide + np.where(wide >= 0, 1 << 14, 1 - (1 << 14))
    result: Array = np.minimum(np.trunc(nudged / 32768.0).astype(np.int64), 32767)
    return result


def _up(values: Array, bits: int) -> Array:
    return _clip(values * (1 << bits))


def _scaled(values: Array, factor: Array) -> Array:
    mantissa, exponent = (int(n) for n in factor)
    return divide_by_power_of_two(multiply_high(values << max(exponent, 0), mantissa), max(-exponent, 0))


def _exp_below_zero(a: Array, bits: int) -> Array:
    behind = 15 - bits
    quarter = 1 << (behind - 2)
    part = (a & (quarter - 1)) - quarter
    x = _up(part, bits) + (1 << 12)
    square = _high(x, x)
    cube, fourth = _high(square, x), divide_by_power_of_two(_high(square, square), 2)
    tail = divide_by_power_of_two(_high(fourth + cube, 10923) + square, 1)
    result = _clip(28918 + _high(28918, x + tail))
    rest = part - a
    for k in range(-2, min(bits, 5)):
        result = np.where(rest & (1 << (behind + k)), _high(result, _POWERS[k + 2]), result)
    if bits > 5:
        result = np.where(a < -(32 << behind), 0, result)
    return np.where(a == 0, 32767, result)


def _reciprocal(a: Array) -> Array:
    half = (a + 32768) >> 1
    x = 23130 + _high(half, -15420)
    for _ in range(3):
        x = x + _up(_high(x, (1 << 13) - _high(half, x)), 2)
    return x


def _logistic(a: Array) -> Array:
    positive = _up(_reciprocal(_exp_below_zero(-np.abs(a), 3)), 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, 32767 - positive))


def _tanh(a: Array, bits: int) -> Array:
    size = _up(_reciprocal(_exp_below_zero(-np.abs(a), bits + 1)) - (1 << 13), 2)
    return np.where(a == 0, 0, np.where(a < 0, -size, size))


@kernel("atonc_lstm")
def lstm(call: KernelCall) -> None:
    batch, steps, inputs, cells = call.sizes(2, 4)
    bits, limit, zero = call.integer(10), call.integer(11), call.integer(12)
    if cells > MOST_CELLS or not 0 <= bits <= 6:
        raise call.fail(f"{cells} cells with {bits} bits in front of the point")
    x = call.read(1, _SIGNED, call.bounded(batch, steps, inputs)).reshape(batch, steps, inputs).astype(np.int64)
    weights = call.read(6, _SIGNED, call.bounded(4, cells, inputs)).reshape(4, cells, inputs).astype(np.int64)
    recurrent = call.read(7, _SIGNED, call.bounded(4, cells, cells)).reshape(4, cells, cells).astype(np.int64)
    biases = call.read(8, _WORD, call.bounded(8, cells)).reshape(8, cells).astype(np.int64)
    factors = call.read(9, _WORD, 18).reshape(9, 2)
    if int(np.abs(factors[:, 1]).max(initial=0)) > 30:
        raise call.fail("a multiplier beyond 32 bits")
    results = np.empty((batch, steps, cells), np.int8)
    shown, state = np.full((batch, cells), zero, np.int64), np.zeros((batch, cells), np.int64)
    for t in range(steps):
        gates = []
        for g in range(4):
            total = _clip(_scaled(x[:, t] @ weights[g].T + biases[g], factors[g]))
            total = _clip(total + _scaled(shown @ recurrent[g].T + biases[4 + g], factors[4 + g]))
            gates.append(_tanh(total, 3) if g == 2 else _logistic(total))
        state = divide_by_power_of_two(gates[1] * state, 15)
        state = _clip(state + divide_by_power_of_two(gates[0] * gates[2], 15 + bits))
        state = np.clip(state, -limit, limit) if limit else state
        shown = np.clip(_scaled(gates[3] * _tanh(state, bits), factors[8]) + zero, -128, 127)
        results[:, t] = shown
    call.write(0, results)


GRU, GRU_AFTER, LSTM = range(3)


@kernel("atonc_recurrent")
def recurrent(call: KernelCall) -> None:
    kind, given_format = call.integer(4), call.format(2)
    steps, batch, cells = call.sizes(5, 3)
    if kind not in (GRU, GRU_AFTER, LSTM) or cells > MOST_CELLS:
        raise call.fail(f"{cells} cells of a layer of kind {kind}")
    gates, states = (4, 2) if kind == LSTM else (3, 1)
    codes = call.read(1, given_format.dtype, call.bounded(steps, batch, gates, cells))
    given = given_format.real(codes).reshape(steps, batch, gates, cells)
    weights = call.read(9, _SINGLE, call.bounded(gates, cells, cells)).reshape(gates, cells, cells).astype(np.float64)
    biases = call.read(10, _SINGLE, call.bounded(gates, cells)).reshape(gates, cells).astype(np.float64)
    before = None
    if not call.is_null(3):
        before = call.read(3, _SINGLE, call.bounded(states, batch, cells)).reshape(states, batch, cells).astype(float)
    out = np.empty((steps, states, batch, cells), np.float32)
    for step in reversed(range(steps)) if call.integer(8) else range(steps):
        out[step] = _after(kind, given[step], before, weights, biases)
        before = out[step].astype(np.float64)
    call.write(0, out)


def _after(kind: int, given: Array, before: Array | None, weights: Array, biases: Array) -> Array:
    """States of all rows after a step."""
    hidden = np.zeros((len(given), weights.shape[1])) if before is None else before[0]

    def sums(first: int, end: int, state: Array) -> Array:
        """By row, gate and cell."""
        found: Array = np.zeros((len(given), end - first, weights.shape[1])) + biases[first:end]
        for i in range(state.shape[1] if before is not None else 0):
            found = found + state[:, i, None, None] * weights[first:end, :, i]
        return found

    if kind == LSTM:
        total = given + sums(0, 4, hidden)
        enter, leave, forget = np.moveaxis(logistic(total[:, :3]), 1, 0)
        cell = forget * (0.0 if before is None else before[1]) + enter * hyperbolic_tangent(total[:, 3])
        return np.stack([leave * hyperbolic_tangent(cell), cell])
    update, reset = np.moveaxis(logistic(given[:, :2] + sums(0, 2, hidden)), 1, 0)
    seen = hidden if kind == GRU_AFTER else (reset * hidden).astype(np.float32).astype(np.float64)
    said = sums(2, 3, seen)[:, 0]
    new = hyperbolic_tangent(given[:, 2] + (said * reset if kind == GRU_AFTER else said))
    return np.asarray((1.0 - update) * new + update * hidden)[None]


SUM, MEAN, MAX, MIN, PROD = range(5)
FOLDS: dict[int, tuple[Callable[[Array, Array], Array], float]] = {
    MAX: (larger, -np.inf),
    MIN: (smaller, np.inf),
    PROD: (np.multiply, 1.0),
}


def _sum_in_order(values: Array, axis: int) -> Array:
    """One after the other, from 0.0; the axis stays with length 1."""
    values = np.concatenate([np.zeros_like(values.take([0], axis=axis)), values], axis=axis)
    return np.add.accumulate(values, axis=axis).take([-1], axis=axis)


@kernel("atonc_softmax_8")
def softmax_8(call: KernelCall) -> None:
    target, shape = call.format(1), call.sizes(4, 3)
    if call.bounded(*shape) == 0:
        return
    codes = call.read(2, BYTE, call.bounded(*shape)).reshape(shape)
    codes = codes ^ np.uint8(0x80 if call.integer(3) else 0)
    exps = call.numbers(7, 256)[codes.max(axis=1, keepdims=True) - codes]
    call.write(0, target.codes(exps / _sum_in_order(exps, 1)))


@kernel("atonc_softmax")
def softmax(call: KernelCall) -> None:
    target, source, shape = call.format(1), call.format(3), call.sizes(4, 3)
    if call.bounded(*shape) == 0:
        return
    values = source.centred(call.read(2, source.dtype, call.bounded(*shape)).reshape(shape))
    shifted = (values - values.max(axis=1, keepdims=True)) * (source.scale * call.number(7))
    exps = exponential(shifted)
    total = _sum_in_order(exps, 1)
    call.write(0, target.codes(shifted - logarithm(total) if call.integer(8) else exps / total))


@kernel("atonc_arg_extreme")
def arg_extreme(call: KernelCall) -> None:
    shape = call.sizes(4, 3)
    codes = call.read(2, call.type(3), call.bounded(*shape)).reshape(shape).astype(np.float64)
    if codes.size == 0:
        return
    found = (np.argmin if call.integer(7) else np.argmax)(codes, axis=1)
    call.write(0, found.astype(call.type(1)))


@kernel("atonc_l2_norm")
def l2_norm(call: KernelCall) -> None:
    target, source, shape = call.format(1), call.format(3), call.sizes(4, 2)
    if call.bounded(*shape) == 0:
        return
    values = source.real(call.read(2, source.dtype, call.bounded(*shape)).reshape(shape))
    total = _sum_in_order(values * values, 1)
    call.write(0, target.codes(values / np.sqrt(larger(total, np.full(total.shape, 1e-12)))))


def _spread(values: Array, centred: int) -> tuple[Array, Array]:
    """Values, if `centred` less the mean of their row, and the sum of their squares."""
    if centred:
        values = values - _sum_in_order(values, 1) / float(values.shape[1])
    return values, _sum_in_order(values * values, 1)


def _spread_of_bytes(codes: Array, source: Format, centred: int) -> tuple[Array, Array]:
    """The same; both sums are exact."""
    count, zero, wide = float(codes.shape[1]), float(source.zero), codes.astype(np.float64)
    total, square = wide.sum(axis=1, keepdims=True), (wide * wide).sum(axis=1, keepdims=True)
    squares = square - 2.0 * zero * total + count * zero * zero
    total = total - count * zero
    if not centred:
        return wide - zero, squares
    return wide - zero - total / count, (count * squares - total * total) / count


@kernel("atonc_norm")
def norm(call: KernelCall) -> None:
    target, source, shape = call.format(1), call.format(3), call.sizes(4, 2)
    if call.bounded(*shape) == 0:
        return
    codes, count = call.read(2, source.dtype, call.bounded(*shape)).reshape(shape), float(shape[1])
    is_bytes, centred = source.dtype in (np.int8, np.uint8), call.integer(6)
    values, total = _spread_of_bytes(codes, source, centred) if is_bytes else _spread(source.centred(codes), centred)
    values = values / np.sqrt(total / count + np.divide(call.number(7), source.scale * source.scale))
    for index, combine in ((8, np.multiply), (10, np.add)):
        if not call.is_null(index):
            own = call.format(index + 1)
            values = combine(values, own.real(call.read(index, own.dtype, shape[1])))
    call.write(0, target.codes(values))


@kernel("atonc_reduce")
def reduce(call: KernelCall) -> None:
    target, source, function = call.format(1), call.format(3), call.integer(4)
    kept, reduced = call.loops(5, 6, 2), call.loops(7, 8, 2)
    if not 0 <= function <= PROD:
        raise call.fail(f"function {function} is unknown")
    loops = [*reduced, *kept]
    shape = [row[0] for row in loops]
    if min(shape) <= 0:
        return
    count = call.bounded(*(row[0] for row in reduced))
    codes = call.window(2, shape, [row[1] for row in loops], source.dtype).reshape(count, -1)
    call.write(0, target.codes(_reduced(function, source.centred(codes), source.scale)))


def _reduced(function: int, centred: Array, scale: float) -> Array:
    if function in (SUM, MEAN):
        total: Array = _sum_in_order(centred, 0)[0] * scale
        return total / float(centred.shape[0]) if function == MEAN else total
    fold, start = FOLDS[function]
    result: Array = np.full(centred.shape[1], start)
    for values in centred * scale:
        result = fold(result, values)
    return result


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


@kernel("atonc_pack_kernels")
def pack_kernels(call: KernelCall) -> None:
    matrices, columns, depth, turned, kernels, channels, units = call.sizes(2, 7)
    if not kernels:
        raise call.fail("sets of no kernels")
    table = call.integers(9, 4 * units).reshape(units, 4).tolist()
    call.bounded(matrices, columns, channels, units)
    shape = (matrices, columns, depth) if turned else (matrices, depth, columns)
    codes = call.read(1, BYTE, call.bounded(*shape)).reshape(shape)
    codes = codes if turned else codes.swapaxes(1, 2)
    found = [np.zeros((matrices, 0), np.uint8)]
    for first in range(0, columns, kernels):
        for start, count, mask, value in table:
            if not (start >= 0 <= count <= channels and start + count <= depth):
                raise call.fail(f"{count} channels from {start} on, of {depth}")
            block = np.zeros((matrices, len(range(columns)[first : first + kernels]), channels), np.uint8)
            some = codes[:, first : first + kernels, start : start + count]
            block[..., :count] = (some & np.uint8(mask & 255)) ^ np.uint8(value & 255)
            eights = (block[:, k : k + 8].swapaxes(1, 2) for k in range(0, block.shape[1], 8))
            found += [eight.reshape(matrices, eight.shape[1] * eight.shape[2]) for eight in eights]
            found.append(np.zeros((matrices, -block.shape[1] * channels % 3), np.uint8))
        if columns - first - block.shape[1] < kernels:
            found.append(np.zeros((matrices, -sum(part.shape[1] for part in found) % 16), np.uint8))
    call.write(0, np.concatenate(found, axis=1))


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
