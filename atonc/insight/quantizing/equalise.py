"""Cross-layer equalisation: channels of one tensor with unlike ranges are made alike.

A channel may be multiplied on one side of a ReLU and divided on the other; the model computes the same. A depthwise
layer behind it has a scale of its own for every channel, so there it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atonc.compiler.frontends.limits import tell_equalised
from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.layers import LinearLayer
from atonc.insight.quantizing.ranges import Seen
from atonc.machine.base.frozen import dataclass

MOST = 32.0  # a channel that is nearly dead must not become the loudest
HOMOGENEOUS = ("Relu", "PRelu", "LeakyRelu")
DENSE_SHARE = 0.5  # of the way, where the weights behind would pay for it
ROOM = 0.98  # below the upper bound of a clip, in values that were seen


@dataclass(frozen=True)
class EqualisedPair:
    """Two layers with at most one function between that keeps factors (ReLU), or keeps them up to a bound (ReLU6)."""

    first: LinearLayer
    second: LinearLayer
    middle: str  # the tensor that the second reads
    bound: float


def equalise(graph: FloatGraph, layers: list[LinearLayer], seen: Mapping[str, Seen]) -> int:
    """Changes the weights in place, and tells so in the model; how many pairs were changed."""
    gains: dict[str, Array] = {}
    for pair in pairs_of(graph, layers):
        if pair.middle not in seen:
            continue
        channels = graph.constants[pair.first.weights].shape[0]
        factors = factors_of(pair, seen[pair.middle], channels)
        if factors is not None and np.abs(np.log2(factors)).max() > 0.1:
            _apply(graph, pair, factors)
            gains |= dict.fromkeys((pair.first.output, pair.middle), factors)
    if gains:
        tell_equalised(graph.model, gains)
    return len({id(factors) for factors in gains.values()})


def pairs_of(graph: FloatGraph, layers: list[LinearLayer]) -> list[EqualisedPair]:
    by_source: dict[str, list[LinearLayer]] = {}
    for layer in layers:
        by_source.setdefault(layer.source, []).append(layer)
    found = []
    for layer in layers:
        if layer.kind != "Conv" or not graph.read_once(layer.output):
            continue
        name, bound = layer.output, np.inf
        after: Any = graph.readers[name][0]
        if after.op_type in HOMOGENEOUS or after.op_type == "Clip":
            name, bound = after.output[0], _bound(graph, after)
        behind = by_source.get(name, [])
        alone = bound > 0 and len(behind) == 1 and graph.read_once(name) and behind[0].kind == "Conv"
        if alone and graph.constants[behind[0].weights].ndim == 4 == graph.constants[layer.weights].ndim:
            found.append(EqualisedPair(layer, behind[0], name, bound))
    return found


def _bound(graph: FloatGraph, node: Any) -> float:
    """Infinite for a ReLU; 0 where the function does not keep factors."""
    if node.op_type != "Clip":
        return np.inf
    low, high = (graph.constants.get(name) for name in (*node.input[1:3], "", "")[:2])
    if low is None or low.item() != 0.0:  # a scalar, or one value as TFLite has it
        return 0.0
    return np.inf if high is None else float(high.item())


def factors_of(pair: EqualisedPair, seen: Seen, channels: int) -> Array | None:
    """What each channel of the middle is multiplied with."""
    if seen.tops is None or seen.tops.size != channels or seen.tops.max() <= 0:
        return None
    tops = seen.tops.astype(np.float64)
    depthwise = pair.second.groups == tops.size
    wanted = tops.max() / np.maximum(tops, tops.max() / MOST)
    if np.isfinite(pair.bound):  # not to where the clip begins; channels that reach it stay
        wanted = np.minimum(wanted, np.maximum(pair.bound * ROOM / np.maximum(tops, 1e-9), 1.0))
    return wanted if depthwise else wanted**DENSE_SHARE


def _apply(graph: FloatGraph, pair: EqualisedPair, factors: Array) -> None:
    first, second = graph.constants[pair.first.weights], graph.constants[pair.second.weights]
    graph.set_constant(pair.first.weights, first * factors.reshape(-1, 1, 1, 1))
    if pair.first.bias:
        graph.set_constant(pair.first.bias, graph.constants[pair.first.bias] * factors)
    inputs = factors.reshape(pair.second.groups, 1, second.shape[1], 1, 1)
    split = second.reshape(pair.second.groups, -1, *second.shape[1:])
    graph.set_constant(pair.second.weights, (split / inputs).reshape(second.shape))
