"""One walk through the network, layer by layer, float and int8 side by side.

Each layer's weights are rounded for what it really reads behind the layers that are int8 already, so that its output
comes nearest to float; then its bias makes the mean of every channel that of float.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.layers import LinearLayer, is_matrix, matrix, rows, stored_form
from atonc.insight.quantizing.rounding import Moments, rounded
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.segments import Pieces
from atonc.insight.quantizing.weights import FREE, Bounds, QuantizedWeights
from atonc.machine.base import progress
from atonc.machine.base.frozen import dataclass

Mended = dict[str, tuple[LinearLayer, QuantizedWeights]]
ROWS_A_SAMPLE = 64


@dataclass(frozen=True)
class MendOptions:
    rounding: bool = True
    biases: bool = True


def mend(graph: FloatGraph, quantised: Any, layers: Mapping[str, tuple[LinearLayer, QuantizedWeights]],
         feeds: Sequence[Feed], wishes: MendOptions, bounds: Bounds = FREE) -> Mended:  # fmt: skip
    """New weights for the quantised model, which was written with `layers`."""
    exact, coded = Pieces(graph.model, feeds), Pieces(quantised, feeds)
    found = dict(layers)
    for index, (name, (layer, weights)) in enumerate(layers.items()):
        progress.stage("mending the layers", index, len(layers))
        real_node, coded_node = exact.advance(name), coded.advance(name)
        real = exact.apply([real_node])[layer.output]
        if wishes.rounding:
            weights = _rounded(graph, layer, weights, coded.values[coded_node.input[0]], bounds)
        seen = coded.apply([coded_node], _real_constants(layer, weights, coded_node))[coded_node.output[0]]
        if wishes.biases and layer.kind != "MatMul":
            difference = _means(real) - _means(seen)
            weights = replace(weights, bias=weights.bias + difference)
            shape = [-1 if k == _axis(seen[0]) else 1 for k in range(seen[0].ndim)]
            seen = [(value + difference.reshape(shape)).astype(np.float32) for value in seen]
        found[name] = layer, weights
        exact.finish(layer.output, real)
        coded.finish(coded_node.output[0], seen)
    return found


def _rounded(
    graph: FloatGraph, layer: LinearLayer, weights: QuantizedWeights, source: list[Array], bounds: Bounds
) -> QuantizedWeights:
    stored = graph.constants[layer.weights].astype(np.float64)
    if not is_matrix(layer, stored):
        return weights
    moments: Moments | None = None
    for index, value in enumerate(source):
        some = rows(layer, value, stored, np.random.default_rng(index), ROWS_A_SAMPLE)
        moments = moments or Moments.empty(*some.shape[1:])
        moments.add(some)
    if moments is None:
        return weights
    try:
        codes, scales, shift = rounded(matrix(layer, stored), moments, bounds.of(layer.name))
    except np.linalg.LinAlgError:  # inputs that do not vary: nothing to learn
        return weights
    return QuantizedWeights(
        stored_form(layer, codes, stored).copy(), scales.reshape(-1), weights.bias + shift.reshape(-1)
    )


def _real_constants(layer: LinearLayer, weights: QuantizedWeights, node: Any) -> dict[str, Array]:
    """What the node multiplies with and adds, as real numbers."""
    shape = [-1 if k == layer.axis else 1 for k in range(weights.codes.ndim)]
    found = {node.input[1]: (weights.codes * weights.scales.reshape(shape)).astype(np.float32)}
    if len(node.input) > 2 and node.input[2]:
        found[node.input[2]] = weights.bias.astype(np.float32)
    return found


def _axis(value: Array) -> int:
    return 1 if value.ndim > 2 else value.ndim - 1


def _means(values: Sequence[Array]) -> Array:
    """Averages every channel over places and samples."""
    axes = tuple(k for k in range(values[0].ndim) if k != _axis(values[0]))
    return np.mean([value.astype(np.float64).mean(axes) for value in values], axis=0)
