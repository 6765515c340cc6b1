"""Inputs that drive sums towards their extremes: every value at an end of its range, by the signs of the weights that
meet it first.

A picture has four bands: what takes one channel of the first layer as far up as it goes, the opposite of it, all at the
upper end, and either end at random. Anything else is what takes that channel as far up as it goes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compare.inputs import CODES, float_range, make_inputs
from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops import is_move

STEPS = 8  # operators between an input and the weights that are looked for
BANDED_ROWS = 8  # of a picture with bands
RANKED = 4  # the channels with the largest weights, of which the seed takes one
_BETWEEN = ("quantize", "uint8_to_int8", "identity", "requantize")

Signs = NDArray[np.bool_]  # True: the upper end


def make_extremes(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """One value per graph input, in its own number format; states as in the first run."""
    states = {state.input for state in graph.states}
    driven = [name for name in graph.inputs if name not in states and _has_ends(graph.tensors[name])]
    found = {name: _extreme(graph, graph.tensors[name], seed) for name in driven}
    natural = make_inputs(graph, seed) if len(driven) < len(graph.inputs) else {}  # a picture takes its time
    return {name: found[name] if name in found else natural[name] for name in graph.inputs}


def _has_ends(tensor: Tensor) -> bool:
    return (tensor.is_float or tensor.dtype in CODES) and tensor.elements > 0


def _extreme(graph: Graph, tensor: Tensor, seed: int) -> Array:
    low, high = float_range(graph, tensor.name) if tensor.is_float else tensor.code_range
    return np.where(_signs(graph, tensor, seed), high, low).astype(tensor.dtype)


def _signs(graph: Graph, tensor: Tensor, seed: int) -> Signs:
    rng = np.random.default_rng(seed)
    up = _upwards(tensor.shape, _weights(graph, tensor.name), seed)
    chance = rng.random(tensor.shape) < 0.5
    if up is None:
        return chance
    rows = next((axis for axis in (1, 2) if len(tensor.shape) == 4 and tensor.shape[axis] >= BANDED_ROWS), 0)
    if not rows:
        return up
    parts = np.array_split(np.arange(tensor.shape[rows]), 4)
    kinds = up, ~up, np.ones_like(up), chance
    return np.concatenate([np.take(k, part, axis=rows) for k, part in zip(kinds, parts, strict=True)], axis=rows)


def _weights(graph: Graph, name: str) -> NDArray[np.float64] | None:
    """[outputs, rows, columns, channels] of the first layer that sums an input, without their zero point."""
    for _ in range(STEPS):
        readers = graph.consumers.get(name, [])
        if not readers:
            return None
        if readers[0].kind in ("conv", "dense") and readers[0].inputs[0] == name:
            return _centred(graph, readers[0])
        if not (is_move(readers[0].kind) or readers[0].kind in _BETWEEN):
            return None
        name = readers[0].outputs[0]
    return None


def _centred(graph: Graph, op: Op) -> NDArray[np.float64] | None:
    weights = graph.tensors[op.inputs[1]]
    if weights.data is None:
        return None
    rows = weights.data.astype(np.float64).reshape(weights.shape[0], -1)
    zero = 0 if weights.quant is None else weights.quant.zero_points.reshape(-1, 1)
    return np.asarray((rows - zero).reshape(weights.shape))


def _upwards(shape: tuple[int, ...], weights: NDArray[np.float64] | None, seed: int) -> Signs | None:
    """Upper ends where weights of one output channel are above zero."""
    if weights is None:
        return None
    largest = np.argsort(-np.abs(weights).sum(axis=tuple(range(1, weights.ndim))), kind="stable")
    one = weights[largest[seed % min(RANKED, len(largest))]]
    elements = int(np.prod(shape))
    if one.size and elements % one.size == 0 and weights.ndim == 2:
        return np.asarray(np.tile(one.reshape(-1) > 0, elements // one.size).reshape(shape))
    channels = one.sum(axis=tuple(range(one.ndim - 1))) > 0  # all taps of a channel together
    for axis in (-1, 1):
        if len(shape) > 1 and shape[axis] == channels.size:
            sides = [1] * len(shape)
            sides[axis] = channels.size
            return np.asarray(np.broadcast_to(channels.reshape(sides), shape))
    return np.full(shape, bool(one.sum() > 0))
