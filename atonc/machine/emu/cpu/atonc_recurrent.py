"""The layers of atonc_kernels.c that have a state, on whole arrays of cells. Written from the C file."""

from __future__ import annotations

import numpy as np

from atonc.machine.emu.cpu.atonc_args import KernelCall, kernel
from atonc.machine.emu.cpu.gemmlowp import divide_by_power_of_two, multiply_high
from atonc.machine.emu.cpu.tensors import Array

MOST_CELLS = 1024
BYTE, WORD = np.dtype(np.int8), np.dtype("<i4")
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
    x = call.read(1, BYTE, call.bounded(batch, steps, inputs)).reshape(batch, steps, inputs).astype(np.int64)
    weights = call.read(6, BYTE, call.bounded(4, cells, inputs)).reshape(4, cells, inputs).astype(np.int64)
    recurrent = call.read(7, BYTE, call.bounded(4, cells, cells)).reshape(4, cells, cells).astype(np.int64)
    biases = call.read(8, WORD, call.bounded(8, cells)).reshape(8, cells).astype(np.int64)
    factors = call.read(9, WORD, 18).reshape(9, 2)
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
