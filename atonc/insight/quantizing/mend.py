"""One walk through the network, layer by layer, float and quantised side by side.

Each layer's weights are rounded for what it really reads behind the layers that have codes already, so that its output
comes nearest to float; then its bias makes the mean of every channel that of float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.compiler.frontends.limits import tell_equalised
from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph, LinearLayer, attribute, is_matrix, matrix, rows, stored_form
from atonc.insight.quantizing.observe import SegmentRuns
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.scales import Seen
from atonc.insight.quantizing.weights import EIGHT, FREE, Bounds, CodeRange, Moments, QuantizedWeights, rounded
from atonc.machine.base import progress
from atonc.machine.base.frozen import dataclass

Mended = dict[str, tuple[LinearLayer, QuantizedWeights]]
ROWS_A_SAMPLE = 64
FOUR_BIT_ROWS = 256  # what 16 codes lose is worth learning more exactly


@dataclass(frozen=True)
class MendOptions:
    rounding: bool = True  # weights of 8 bits by the layer's output
    biases: bool = True
    four_bits: bool = False  # the same for weights of 4 bits
    ahead: bool = False  # those mend what the layers before lost, too

    def rounds(self, allowed: CodeRange) -> bool:
        return self.rounding if allowed is EIGHT else self.four_bits


def mend(graph: FloatGraph, quantised: Any, layers: Mended, feeds: Sequence[Feed], wishes: MendOptions,
         bounds: Bounds = FREE, before: Mended | None = None) -> Mended:  # fmt: skip
    """New weights for the quantised model, which was written with `layers`.

    `before`: what every layer is read behind, so that each is mended as if it were the only new one.
    """
    exact, coded = SegmentRuns(graph.model, feeds), SegmentRuns(quantised, feeds)
    found = dict(layers)
    for index, (name, (layer, weights)) in enumerate(layers.items()):
        progress.stage("improving the layers", index, len(layers))
        real_node, coded_node = exact.advance(name), coded.advance(name)
        real = exact.apply([real_node])[layer.output]
        if wishes.rounds(bounds.range_of(name)):
            truth = exact.values[real_node.input[0]] if wishes.ahead else None
            weights = _rounded(graph, layer, weights, (coded.values[coded_node.input[0]], truth), bounds)
        shown = weights if before is None else before[name][1]
        seen = coded.apply([coded_node], _real_constants(layer, shown, coded_node))[coded_node.output[0]]
        if wishes.biases and layer.kind != "MatMul" and before is None:
            rank = seen[0].ndim
            axis = 1 if rank > 2 else rank - 1
            difference = _means(real, axis) - _means(seen, axis)
            weights = replace(weights, bias=weights.bias + difference)
            shape = [-1 if k == axis else 1 for k in range(rank)]
            seen = [(value + difference.reshape(shape)).astype(np.float32) for value in seen]
        found[name] = layer, weights
        exact.finish(layer.output, real)
        coded.finish(coded_node.output[0], seen)
    return found


def _rounded(graph: FloatGraph, layer: LinearLayer, weights: QuantizedWeights,
             source: tuple[list[Array], list[Array] | None], bounds: Bounds) -> QuantizedWeights:  # fmt: skip
    """`source`: what the layer reads, and what it would read in float where it is to mend the difference."""
    stored = graph.constants[layer.weights].astype(np.float64)
    if not is_matrix(layer, stored):
        return weights
    allowed, weighed = bounds.range_of(layer.name), matrix(layer, stored)
    most = ROWS_A_SAMPLE if allowed is EIGHT else FOUR_BIT_ROWS
    moments, (seen, truth) = Moments.empty(weighed.shape[0], weighed.shape[2]), source
    for index, value in enumerate(seen):
        both = [value] if truth is None else [value, truth[index]]
        moments.add(*(rows(layer, one, stored, np.random.default_rng(index), most) for one in both))
    try:
        codes, scales, shift = rounded(weighed, moments, bounds.of(layer.name), allowed)
    except np.linalg.LinAlgError:  # inputs that do not vary: nothing to learn
        return weights
    made, bias = stored_form(layer, codes, stored).copy(), weights.bias + shift.reshape(-1)
    return QuantizedWeights(made, scales.reshape(-1), bias, allowed.bits)


def _real_constants(layer: LinearLayer, weights: QuantizedWeights, node: Any) -> dict[str, Array]:
    """What the node multiplies with and adds, as real numbers."""
    shape = [-1 if k == layer.axis else 1 for k in range(weights.codes.ndim)]
    real = (weights.codes * weights.scales.reshape(shape)).astype(np.float32)
    turned = layer.kind == "Gemm" and attribute(node, "transB", 0) != attribute(layer.node, "transB", 0)
    found = {node.input[1]: np.ascontiguousarray(real.T) if turned else real}
    if len(node.input) > 2 and node.input[2]:
        found[node.input[2]] = weights.bias.astype(np.float32)
    return found


def _means(values: Sequence[Array], axis: int) -> Array:
    """Averages every channel over places and samples."""
    axes = tuple(k for k in range(values[0].ndim) if k != axis)
    return np.mean([value.astype(np.float64).mean(axes) for value in values], axis=0)


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
    """Cross-layer equalisation: channels of one tensor with unlike ranges are made alike. A channel may be multiplied
    on one side of a ReLU and divided on the other; the model computes the same. A depthwise layer behind it has a scale
    of its own for every channel, so there it costs nothing.

    Changes the weights in place, and tells so in the model; how many pairs were changed.
    """
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
