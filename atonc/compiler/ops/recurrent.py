"""Layers with a state that is carried from step to step inside one run: TFLite's LSTM, in numbers of 16 bits as its
kernels compute with them (multipliers, and logistic and tanh in fixed point), and GRU and LSTM of ONNX in floats.

Numbers are raw values held in int64. "Qm" has m bits in front of the point and 15 - m behind it. The functions are
those of gemmlowp, step by step: codes of a cell depend on every rounding on the way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ops import portable
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.values import OpCall, Real

Ints = NDArray[np.int64]

LEAST, MOST = -(1 << 15), (1 << 15) - 1
# exp(-2^k) for k = -2 .. 4 as Q0
EXP_OF_POWER = (25520, 19875, 12055, 4435, 600, 11, 0)
EXP_OF_MINUS_EIGHTH, THIRD = 28918, 10923
TWO_DIVIDED = (23130, -15420)  # 48/17 and -32/17 as Q2: where the quotient starts from
ONE_Q2 = 1 << 13


def saturated(values: Ints) -> Ints:
    return np.clip(values, LEAST, MOST)


def multiply(a: Ints | int, b: Ints | int) -> Ints:
    """The high half of the doubled product, halves away from zero."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.minimum(np.where(nudged >= 0, nudged >> 15, -(-nudged >> 15)), MOST)


def shifted_down(values: Ints, bits: int) -> Ints:
    """Rounded, halves away from zero."""
    mask = (1 << bits) - 1
    return (values >> bits) + ((values & mask) > (mask >> 1) + (values < 0))


def shifted_up(values: Ints, bits: int) -> Ints:
    return saturated(values << bits)


def scaled(sums: Ints, multiplier: int, exponent: int) -> Ints:
    """Times multiplier * 2^(exponent - 31), rounded twice, in 32 bits."""
    product = (sums << max(exponent, 0)) * multiplier
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.where(nudged >= 0, nudged >> 31, -(-nudged >> 31))
    return shifted_down(high, max(-exponent, 0))


def _exp_below_zero(a: Ints, bits: int) -> Ints:
    """exp(a) as Q0 for a <= 0 in Q`bits`."""
    behind = 15 - bits
    quarter = 1 << (behind - 2)
    part = (a & (quarter - 1)) - quarter
    result = _exp_of_last_quarter(shifted_up(part, bits))
    rest = part - a
    for k, factor in zip(range(-2, min(bits, 5)), EXP_OF_POWER, strict=False):
        result = np.where(rest & (1 << (behind + k)), multiply(result, factor), result)
    if bits > 5:
        result = np.where(a < -(32 << behind), 0, result)
    return np.where(a == 0, MOST, result)


def _exp_of_last_quarter(a: Ints) -> Ints:
    """For -1/4 <= a < 0 as Q0: a series around -1/8."""
    x = a + (1 << 12)
    square = multiply(x, x)
    cube = multiply(square, x)
    fourth = shifted_down(multiply(square, square), 2)
    tail = shifted_down(multiply(fourth + cube, THIRD) + square, 1)
    return saturated(EXP_OF_MINUS_EIGHTH + multiply(EXP_OF_MINUS_EIGHTH, x + tail))


def _reciprocal(a: Ints) -> Ints:
    """2 / (1 + a) as Q2 for 0 <= a < 1 in Q0: three steps of Newton."""
    half = (a + MOST + 1) >> 1
    x = TWO_DIVIDED[0] + multiply(half, TWO_DIVIDED[1])
    for _ in range(3):
        x = x + shifted_up(multiply(x, ONE_Q2 - multiply(half, x)), 2)
    return x


def logistic(a: Ints) -> Ints:
    """Q3 to Q0."""
    positive = shifted_up(_reciprocal(_exp_below_zero(-np.abs(a), 3)), 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, MOST - positive))


def tanh(a: Ints, bits: int) -> Ints:
    """Q`bits` to Q0."""
    size = shifted_up(_reciprocal(_exp_below_zero(-np.abs(a), bits + 1)) - ONE_Q2, 2)
    return np.where(a == 0, 0, np.where(a < 0, -size, size))


GATES = ("input", "forget", "cell", "output")
MOST_CELLS = 1024  # the kernel keeps their state on the stack
GATE_BITS = 3  # in front of the point of what the gates look at


@computes("lstm")
def lstm(call: OpCall) -> list[Real]:
    """TFLite's LSTM of bytes with cells of 16 bits: x [batch, steps, inputs], weights [gates, cells, inputs], recurrent
    weights [gates, cells, cells], biases [2 x gates, cells] with the zero points in them: of inputs, then of states.

    `multipliers`: mantissa of 31 bits and exponent, for the sums of the inputs, of the states, for the result.
    `cell_bits` are in front of the point of a cell, `cell_clip` bounds it, 0 where it does not.
    """
    x = call.arg(0).codes.astype(np.int64)
    weights, recurrent, biases = (call.arg(k).codes.astype(np.int64) for k in (1, 2, 3))
    multipliers, zero = call.attrs["multipliers"], call.out.zero_point
    batch, steps, _ = x.shape
    given = np.einsum("bti,gci->gbtc", x, weights) + biases[:4, None, None, :]
    given = np.stack([scaled(sums, *factor) for sums, factor in zip(given, multipliers[:4], strict=True)])
    given = saturated(given)
    hidden = np.full((batch, weights.shape[1]), zero, np.int64)
    cell = np.zeros_like(hidden)
    results = np.empty((batch, steps, weights.shape[1]))
    for t in range(steps):
        sums = np.einsum("bj,gcj->gbc", hidden, recurrent) + biases[4:, None, :]
        gates = [_gate(k, given[k, :, t], sums[k], multipliers[4 + k]) for k in range(4)]
        hidden, cell = _step(gates, cell, call)
        results[:, t] = hidden
    return [(results - zero) * call.out.scale]


def _gate(number: int, given: Ints, sums: Ints, factor: tuple[int, int]) -> Ints:
    """What an input says of a gate, and what the state adds to it."""
    total = saturated(scaled(sums, *factor) + given)
    return tanh(total, GATE_BITS) if GATES[number] == "cell" else logistic(total)


def _step(gates: list[Ints], cell: Ints, call: OpCall) -> tuple[Ints, Ints]:
    enter, forget, new, leave = gates
    bits, clip = int(call.attrs["cell_bits"]), int(call.attrs["cell_clip"])
    kept = shifted_down(forget * cell, 15)
    cell = saturated(kept + shifted_down(enter * new, 15 + bits))
    cell = np.clip(cell, -clip, clip) if clip else cell
    shown = scaled(leave * tanh(cell, bits), *call.attrs["multipliers"][8])
    return np.clip(shown + call.out.zero_point, -128, 127), cell


READ_AGAIN = ("recurrent",)  # kinds whose result is their state: before the first step and after, it is in floats
CELLS = {"gru": (3, 1), "gru_after": (3, 1), "lstm": (4, 2)}  # gates and states


@computes("recurrent")
def recurrent(call: OpCall) -> list[Real]:
    """GRU or LSTM of ONNX over a sequence: what inputs say of the gates [steps, batch, gates x cells], weights of the
    state [gates x cells, cells] and its biases [gates x cells], states before the first step [states, batch, cells]
    unless they are zeros. The result has all states after each step: [steps, states, batch, cells], hidden first.

    `cell`: of CELLS; of "gru_after" the product with the state is reset, not the state. `reverse`: from the last step
    on. States are single precision.
    """
    gates, states = CELLS[call.attrs["cell"]]
    steps, _, batch, cells = call.out.shape
    given = call.arg(0).real.reshape(steps, batch, gates, cells)
    weights, biases = call.arg(1).real.reshape(gates, cells, cells), call.arg(2).real.reshape(gates, cells)
    state = call.arg(3).real if len(call.args) > 3 else None
    found = np.empty((steps, states, batch, cells))
    for step in reversed(range(steps)) if call.attrs["reverse"] else range(steps):
        made = _float_step(call.attrs["cell"], given[step].swapaxes(0, 1), state, weights, biases)
        found[step] = np.stack(made).astype(np.float32)
        state = found[step]
    return [found]


def _float_step(cell: str, given: Real, state: Real | None, weights: Real, biases: Real) -> list[Real]:
    """States after a step; `given` by gate."""
    hidden = np.zeros(given.shape[1:]) if state is None else state[0]

    def gates(first: int, end: int, seen: Real) -> Real:
        made = np.zeros(given[first:end].shape) + biases[first:end, None]
        if state is not None:
            portable.add_products(made, seen, weights[first:end].swapaxes(1, 2))
        return made

    if cell == "lstm":
        sums = given + gates(0, 4, hidden)
        enter, leave, forget = portable.logistic(sums[:3])
        kept = forget * (np.zeros(hidden.shape) if state is None else state[1]) + enter * portable.tanh(sums[3])
        return [leave * portable.tanh(kept), kept]
    update, reset = portable.logistic(given[:2] + gates(0, 2, hidden))
    seen = (reset * hidden).astype(np.float32).astype(np.float64)
    said = gates(2, 3, hidden)[0] * reset if cell == "gru_after" else gates(2, 3, seen)[0]
    new = portable.tanh(given[2] + said)
    return [(1.0 - update) * new + update * hidden]
