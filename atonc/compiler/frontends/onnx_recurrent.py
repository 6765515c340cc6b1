"""LSTM and GRU of ONNX, unrolled: a sequence of fixed length is the same few operators again and again, in floats. Of a
longer one they are a single operator.

The part of the gates that only depends on the inputs is one product for all steps; what is left in each step is the
product with the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.compiler.frontends.onnx_builder import Node, translates
from atonc.compiler.frontends.onnx_elements import number
from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ops.recurrent import CELLS, MOST_CELLS
from atonc.compiler.ops.values import Arg
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass

UNROLLED_STEPS = 32  # at most; every step is a dozen operators
MOST_STEPS = 256  # of what no operator does as a whole
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}


@dataclass(frozen=True)
class RecurrentLayer:
    """One direction: gates of all steps as far as inputs decide them, [steps x batch, gates x hidden]."""

    node: Node
    given: Tensor
    steps: int
    batch: int
    hidden: int
    recurrent: Array  # [hidden, gates x hidden]
    recurrent_bias: Array
    start: Sequence[Tensor | None]  # states before the first step
    peepholes: Array  # [gates, hidden] that look at the cell: input, output, forget; none where there are none

    def at(self, step: int) -> Tensor:
        return part(self.node, self.given, 0, step * self.batch, self.batch)

    def gate(self, values: Tensor, index: int, count: int = 1) -> Tensor:
        return part(self.node, values, 1, index * self.hidden, count * self.hidden)

    def product(self, state: Tensor | None, first: int, count: int, like: Tensor, biased: bool) -> Tensor | None:
        """The state times the recurrent weights of some gates; None for no state and no bias."""
        some = slice(first * self.hidden, (first + count) * self.hidden)
        bias = self.recurrent_bias[some] if biased else np.zeros(1)
        made = None
        if state is not None:
            made = self.node.step("matmul", state, self.constant(self.recurrent[:, some], like))
        if not bias.any():
            return made
        if made is None:
            return self.constant(np.broadcast_to(bias, (self.batch, bias.size)), like)
        return self.node.step("add", made, self.constant(bias, like))

    def peeped(self, gate: Tensor, index: int, cell: Tensor | None) -> Tensor:
        """What comes to a gate with what it sees of the cell."""
        if cell is None or not self.peepholes.size:
            return gate
        return self.node.step("add", gate, self.node.step("mul", cell, self.constant(self.peepholes[index], gate)))

    def constant(self, data: Array, like: Tensor) -> Tensor:
        dtype = like.dtype if like.is_float else "float32"
        return self.node.builder.constant(f"{self.node.name}:recurrent", np.ascontiguousarray(data.astype(dtype)))


Step = Callable[[RecurrentLayer, Tensor, list[Tensor | None]], list[Tensor | None]]


@translates("LSTM")
def lstm(node: Node) -> None:
    if node.integer("input_forget", 0):
        raise refusal(node, "coupled gates (input_forget)")
    _translate(node, "lstm")


@translates("GRU")
def gru(node: Node) -> None:
    _translate(node, "gru_after" if node.integer("linear_before_reset", 0) else "gru")


def _lstm_step(layer: RecurrentLayer, given: Tensor, states: list[Tensor | None]) -> list[Tensor | None]:
    """Gates in the order input, output, forget, cell; biases of both kinds are in what was given."""
    node, (hidden, cell) = layer.node, states
    kept = layer.product(hidden, 0, 4, given, biased=False)
    total = given if kept is None else node.step("add", given, kept)
    enter, forget = (node.step("logistic", layer.peeped(layer.gate(total, k), k, cell)) for k in (0, 2))
    new = node.step("mul", enter, node.step("tanh", layer.gate(total, 3)))
    if cell is not None:
        new = node.step("add", node.step("mul", forget, cell), new)
    leave = node.step("logistic", layer.peeped(layer.gate(total, 1), 1, new))
    return [node.step("mul", leave, node.step("tanh", new)), new]


def _gru_step(layer: RecurrentLayer, given: Tensor, states: list[Tensor | None]) -> list[Tensor | None]:
    """Gates in the order update, reset, hidden; the state is reset before its product."""
    node, (hidden,) = layer.node, states
    update, reset = _gru_gates(layer, given, hidden)
    old = None if hidden is None else node.step("mul", reset, hidden)
    kept = layer.product(old, 2, 1, given, biased=True)
    return [_gru_result(layer, layer.gate(given, 2), kept, update, hidden)]


def _gru_step_after(layer: RecurrentLayer, given: Tensor, states: list[Tensor | None]) -> list[Tensor | None]:
    """The product with the state is reset."""
    node, (hidden,) = layer.node, states
    update, reset = _gru_gates(layer, given, hidden)
    kept = layer.product(hidden, 2, 1, given, biased=True)
    kept = None if kept is None else node.step("mul", reset, kept)
    return [_gru_result(layer, layer.gate(given, 2), kept, update, hidden)]


def _gru_gates(layer: RecurrentLayer, given: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    node, kept = layer.node, layer.product(hidden, 0, 2, given, biased=True)
    total = layer.gate(given, 0, 2)
    total = total if kept is None else node.step("add", total, kept)
    update, reset = (node.step("logistic", layer.gate(total, k)) for k in range(2))
    return update, reset


def _gru_result(
    layer: RecurrentLayer, given: Tensor, kept: Tensor | None, update: Tensor, hidden: Tensor | None
) -> Tensor:
    node = layer.node
    new = node.step("tanh", given if kept is None else node.step("add", given, kept))
    made = node.step("mul", node.step("sub", number(node, 1.0, update), update), new)
    return made if hidden is None else node.step("add", made, node.step("mul", update, hidden))


# ------------------------------------------------------------------------------------------------------ all directions


STEPS: dict[str, Step] = {"lstm": _lstm_step, "gru": _gru_step, "gru_after": _gru_step_after}


def _translate(node: Node, cell: str) -> None:
    directions, (gates, states) = _directions(node), CELLS[cell]
    x, weights, recurrent = node.input(0), _reals(node, 1, "weights"), _reals(node, 2, "recurrent weights")
    hidden = recurrent.shape[-1] if recurrent.ndim == 3 else 0
    count = len(directions)
    if len(x.shape) != 3 or weights.shape != (count, gates * hidden, x.shape[2]) or not hidden:
        raise ModelError(f"{node.kind} of {x.shape} with weights {weights.shape}, {recurrent.shape}", where=node.name)
    if recurrent.shape != (count, gates * hidden, hidden):
        raise ModelError(f"{node.kind} with recurrent weights {recurrent.shape}", where=node.name)
    peepholes = _reals(node, 7, "peepholes") if node.kind == "LSTM" and node.has(7) else np.zeros((count, 0))
    whole = x.shape[0] > UNROLLED_STEPS and hidden <= MOST_CELLS and not peepholes.size
    if x.shape[0] > MOST_STEPS and not whole:
        raise refusal(node, f"{x.shape[0]} steps, at most {MOST_STEPS}")
    if node.has(4) and any(length != x.shape[0] for length in node.integers(4, "lengths")):
        raise refusal(node, "sequences of different lengths")
    biases = _reals(node, 3, "biases") if node.has(3) else np.zeros((count, 2 * gates * hidden))
    if biases.shape != (count, 2 * gates * hidden):
        raise ModelError(f"{node.kind} with biases {biases.shape}", where=node.name)
    if peepholes.shape not in ((count, 0), (count, 3 * hidden)):
        raise ModelError(f"{node.kind} with peepholes {peepholes.shape}", where=node.name)
    layers = []
    for index in range(count):
        start = [_start(node, 5 + k, index, (x.shape[1], hidden)) for k in range(states)]
        layer = _layer(node, x, weights[index], recurrent[index], biases[index], start)
        layers.append(replace(layer, peepholes=peepholes[index].reshape(-1, hidden)))
    if whole:
        _bind_whole(node, [_whole(*one, cell) for one in zip(layers, directions, strict=True)], directions)
    else:
        found = [_run(layer, STEPS[cell], reverse) for layer, reverse in zip(layers, directions, strict=True)]
        _bind(node, found, (x.shape[0], x.shape[1], hidden), states)


def _layer(
    node: Node, x: Tensor, weights: Array, recurrent: Array, biases: Array, start: Sequence[Tensor | None]
) -> RecurrentLayer:
    """Biases of the state join those of the inputs where no reset comes in between."""
    steps, batch, inputs = x.shape
    given_bias, state_bias = np.split(biases.astype(np.float64), 2)
    if node.kind == "LSTM":
        given_bias, state_bias = given_bias + state_bias, np.zeros_like(state_bias)
    given = node.step("reshape", x, shape=(steps * batch, inputs))
    dtype = x.dtype if x.is_float else "float32"
    first = picked(weights)
    if first is None:
        turned = np.ascontiguousarray(weights.T.astype(dtype))
        given = node.step("matmul", given, node.builder.constant(f"{node.name}:weights", turned))
    else:
        given = part(node, given, 1, first, len(weights))
    if given_bias.any():
        added = node.builder.constant(f"{node.name}:biases", given_bias.astype(dtype))
        given = node.step("add", given, added)
    hidden, none = recurrent.shape[1], np.zeros((0, 0))
    return RecurrentLayer(
        node, given, steps, batch, hidden, recurrent=recurrent.T, recurrent_bias=state_bias, start=start, peepholes=none
    )


def picked(weights: Array) -> int | None:
    """Where the inputs begin that are the gates themselves: `quantize` writes the product as a layer of its own."""
    first = int(np.argmax(weights[0]))
    columns = weights[:, first : first + len(weights)]
    return first if np.array_equal(columns, np.eye(len(weights))) and weights.sum() == len(weights) else None


def _run(layer: RecurrentLayer, step: Step, reverse: bool) -> tuple[list[Tensor], list[Tensor]]:
    """States after each step in the order of time, and those after the last one."""
    states, shown = list(layer.start), dict[int, Tensor]()
    for at in reversed(range(layer.steps)) if reverse else range(layer.steps):
        states = step(layer, layer.at(at), states)
        assert states[0] is not None
        shown[at] = states[0]
    return [shown[at] for at in range(layer.steps)], [state for state in states if state is not None]


def _bind(node: Node, found: list[tuple[list[Tensor], list[Tensor]]], sizes: tuple[int, int, int], states: int) -> None:
    """Y [steps, directions, batch, hidden], then the last states [directions, batch, hidden]; unused ones are left."""
    steps, batch, hidden = sizes
    if node.outputs and node.outputs[0]:
        rows = [node.reshaped(shown[k], (1, 1, batch, hidden)) for k in range(steps) for shown, _ in found]
        whole = joined(node, rows, 0)
        node.bind(node.outputs[0], node.reshaped(whole, (steps, len(found), batch, hidden)))
    for k, name in enumerate(node.outputs[1 : 1 + states]):
        if name:
            last = [node.reshaped(end[k], (1, batch, hidden)) for _, end in found]
            node.builder.bind(name, joined(node, last, 0))


def _whole(layer: RecurrentLayer, reverse: bool, cell: str) -> Tensor:
    """One operator: all states after each step, [steps, states, batch, hidden]."""
    node, shape = layer.node, (1, layer.batch, layer.hidden)
    given = node.reshaped(layer.given, (layer.steps, layer.batch, layer.given.shape[1]))
    bias = np.broadcast_to(layer.recurrent_bias, layer.recurrent.shape[1:])
    operands = [given, layer.constant(layer.recurrent.T, given), layer.constant(bias, given)]
    if any(state is not None for state in layer.start):
        none = layer.constant(np.zeros(shape), given)
        known = [none if state is None else node.reshaped(state, shape) for state in layer.start]
        operands.append(joined(node, known, 0))
    return node.step("recurrent", *operands, cell=cell, reverse=reverse)


def _bind_whole(node: Node, found: list[Tensor], directions: Sequence[bool]) -> None:
    """The same outputs as `_bind`."""
    steps, states = found[0].shape[:2]
    at_end = [0 if reverse else steps - 1 for reverse in directions]
    for k, name in enumerate(node.outputs[1 : 1 + states]):
        if name:
            state = [part(node, one, 1, k, 1) for one in found]
            ends = [part(node, one, 0, at, 1) for one, at in zip(state, at_end, strict=True)]
            last = [node.reshaped(one, (1, *one.shape[2:])) for one in ends]
            node.builder.bind(name, joined(node, last, 0))
    if node.outputs and node.outputs[0]:
        node.bind(node.outputs[0], joined(node, [part(node, one, 1, 0, 1) for one in found], 1))


def _directions(node: Node) -> tuple[bool, ...]:
    directions = DIRECTIONS.get(node.text("direction", "forward"))
    if directions is None:
        raise ModelError(f"direction {node.text('direction', '')!r}", where=node.name)
    given: Any = node.attrs.get("activations")
    names = [a.decode() if isinstance(a, bytes) else str(a) for a in given] if given else []
    if names and tuple(name.lower() for name in names) != DEFAULTS[node.kind] * len(directions):
        raise refusal(node, f"activations {', '.join(names)}")
    for key in ("clip", "layout"):
        if node.attrs.get(key):
            raise refusal(node, f"the attribute {key}")
    return directions


def _start(node: Node, index: int, direction: int, shape: tuple[int, int]) -> Tensor | None:
    """A state before the first step; None where it is zero."""
    if not node.has(index):
        return None
    state = node.input(index)
    if state.data is not None and not np.any(node.constant(index, "state")):
        return None
    return node.reshaped(part(node, state, 0, direction, 1), shape)


def refusal(node: Node, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{node.kind} with {what}",
        where=node.name,
        rule="sequences of fixed length, sigmoid and tanh, time as the first axis",
        remedy="export the layer without options, or unroll it in the source of the model",
    )


def part(node: Node, x: Tensor, axis: int, first: int, count: int) -> Tensor:
    """Some positions along an axis."""
    windows = [slice(first, first + count) if k == axis else slice(None) for k in range(len(x.shape))]
    return x if count == x.shape[axis] else node.sliced(x, windows)


def joined(node: Node, parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else node.step("concat", *parts, axis=axis)


def _reals(node: Node, index: int, what: str) -> Array:
    """A constant as the numbers behind its codes, whatever scales it has."""
    if not node.has(index):
        raise refusal(node, f"no {what}")
    tensor = node.input(index)
    return node.constant(index, what) if tensor.data is None else Arg(tensor, tensor.data).real
