"""One walk through the network, layer by layer, float and quantised side by side.

Each layer's weights are rounded for what it really reads behind the layers that have codes already, so that its output
comes nearest to float; then its bias makes the mean of every channel that of float.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph, attribute
from atonc.insight.quantizing.layers import LinearLayer, is_matrix, matrix, rows, stored_form
from atonc.insight.quantizing.rounding import Moments, rounded
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.segments import SegmentRuns
from atonc.insight.quantizing.weights import EIGHT, FREE, Bounds, CodeRange, QuantizedWeights
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


def mend(graph: FloatGraph, quantised: Any, layers: Mapping[str, tuple[LinearLayer, QuantizedWeights]],
         feeds: Sequence[Feed], wishes: MendOptions, bounds: Bounds = FREE,
         before: Mended | None = None) -> Mended:  # fmt: skip
    """New weights for the quantised model, which was written with `layers`.

    `before`: what every layer is read behind, so that each is mended as if it were the only new one.
    """
    exact, coded = SegmentRuns(graph.model, feeds), SegmentRuns(quantised, feeds)
    found = dict(layers)
    for index, (name, (layer, weights)) in enumerate(layers.items()):
        progress.stage("mending the layers", index, len(layers))
        real_node, coded_node = exact.advance(name), coded.advance(name)
        real = exact.apply([real_node])[layer.output]
        if wishes.rounds(bounds.range_of(name)):
            truth = exact.values[real_node.input[0]] if wishes.ahead else None
            weights = _rounded(graph, layer, weights, (coded.values[coded_node.input[0]], truth), bounds)
        shown = weights if before is None else before[name][1]
        seen = coded.apply([coded_node], _real_constants(layer, shown, coded_node))[coded_node.output[0]]
        if wishes.biases and layer.kind != "MatMul" and before is None:
            difference = _means(real) - _means(seen)
            weights = replace(weights, bias=weights.bias + difference)
            shape = [-1 if k == _axis(seen[0]) else 1 for k in range(seen[0].ndim)]
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
    allowed = bounds.range_of(layer.name)
    moments = _moments(layer, stored, source, ROWS_A_SAMPLE if allowed is EIGHT else FOUR_BIT_ROWS)
    try:
        codes, scales, shift = rounded(matrix(layer, stored), moments, bounds.of(layer.name), allowed)
    except np.linalg.LinAlgError:  # inputs that do not vary: nothing to learn
        return weights
    made, bias = stored_form(layer, codes, stored).copy(), weights.bias + shift.reshape(-1)
    return QuantizedWeights(made, scales.reshape(-1), bias, allowed.bits)


def _moments(layer: LinearLayer, stored: Array, source: tuple[list[Array], list[Array] | None], most: int) -> Moments:
    groups, _, inputs = matrix(layer, stored).shape
    found, (seen, truth) = Moments.empty(groups, inputs), source
    for index, value in enumerate(seen):
        both = [value] if truth is None else [value, truth[index]]
        found.add(*(rows(layer, one, stored, np.random.default_rng(index), most) for one in both))
    return found


def _real_constants(layer: LinearLayer, weights: QuantizedWeights, node: Any) -> dict[str, Array]:
    """What the node multiplies with and adds, as real numbers."""
    shape = [-1 if k == layer.axis else 1 for k in range(weights.codes.ndim)]
    real = (weights.codes * weights.scales.reshape(shape)).astype(np.float32)
    turned = layer.kind == "Gemm" and attribute(node, "transB", 0) != attribute(layer.node, "transB", 0)
    found = {node.input[1]: np.ascontiguousarray(real.T) if turned else real}
    if len(node.input) > 2 and node.input[2]:
        found[node.input[2]] = weights.bias.astype(np.float32)
    return found


def _axis(value: Array) -> int:
    return 1 if value.ndim > 2 else value.ndim - 1


def _means(values: Sequence[Array]) -> Array:
    """Averages every channel over places and samples."""
    axes = tuple(k for k in range(values[0].ndim) if k != _axis(values[0]))
    return np.mean([value.astype(np.float64).mean(axes) for value in values], axis=0)
