"""Layers with a state that lives inside one run: every sequence starts from nothing."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ops import fixed_16
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.values import OpCall, Real

GATES = ("input", "forget", "cell", "output")
MOST_CELLS = 1024  # the kernel keeps their state on the stack
GATE_BITS = 3  # in front of the point of what the gates look at
Ints = fixed_16.Ints


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
    given = np.stack([fixed_16.scaled(sums, *factor) for sums, factor in zip(given, multipliers[:4], strict=True)])
    given = fixed_16.saturated(given)
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
    total = fixed_16.saturated(fixed_16.scaled(sums, *factor) + given)
    return fixed_16.tanh(total, GATE_BITS) if GATES[number] == "cell" else fixed_16.logistic(total)


def _step(gates: list[Ints], cell: Ints, call: OpCall) -> tuple[Ints, Ints]:
    enter, forget, new, leave = gates
    bits, clip = int(call.attrs["cell_bits"]), int(call.attrs["cell_clip"])
    kept = fixed_16.shifted_down(forget * cell, 15)
    cell = fixed_16.saturated(kept + fixed_16.shifted_down(enter * new, 15 + bits))
    cell = np.clip(cell, -clip, clip) if clip else cell
    shown = fixed_16.scaled(leave * fixed_16.tanh(cell, bits), *call.attrs["multipliers"][8])
    return np.clip(shown + call.out.zero_point, -128, 127), cell
