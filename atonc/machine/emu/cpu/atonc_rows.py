"""Our kernels along rows: softmax, the position of the largest value, reductions, lengths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.emu.cpu import atonc_numbers as numbers
from atonc.machine.emu.cpu.atonc_args import BYTE, KernelCall, kernel
from atonc.machine.emu.cpu.tensors import Array

SUM, MEAN, MAX, MIN, PROD = range(5)
FOLDS: dict[int, tuple[Callable[[Array, Array], Array], float]] = {
    MAX: (numbers.larger, -np.inf),
    MIN: (numbers.smaller, np.inf),
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
    exps = numbers.exponential(shifted)
    total = _sum_in_order(exps, 1)
    call.write(0, target.codes(shifted - numbers.logarithm(total) if call.integer(8) else exps / total))


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
    call.write(0, target.codes(values / np.sqrt(numbers.larger(total, np.full(total.shape, 1e-12)))))


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
