"""Our kernels for one value at a time, for pairs of values, and for changes of the number format."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.emu.cpu import atonc_numbers as numbers
from atonc.machine.emu.cpu.atonc_args import BYTE, KernelCall, kernel
from atonc.machine.emu.cpu.atonc_functions import UNARY
from atonc.machine.emu.cpu.tensors import Array


def _single(values: Array, scale: float) -> Array:
    return values if scale == 1.0 else values.astype(np.float32).astype(np.float64)


# in the order of atonc_kernels.h
BINARY: tuple[Callable[[Array, Array], Array], ...] = (
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    lambda a, b: np.trunc(a / b),
    numbers.smaller,
    numbers.larger,
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
    numbers.power,
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
