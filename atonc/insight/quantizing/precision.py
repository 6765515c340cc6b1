"""Which layers may have weights of 4 bits, and in which order that costs least for what it saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.layers import LinearLayer
from atonc.insight.quantizing.mend import Mended
from atonc.insight.quantizing.signal import decibels
from atonc.insight.quantizing.types import TensorPrecision
from atonc.insight.quantizing.weights import QuantizedWeights, by_channel
from atonc.machine.base.frozen import dataclass

LEAST_WEIGHTS = 512  # fewer would save less than the table of a layer's scales takes
BIAS_BYTES = 4


@dataclass(frozen=True, eq=False)
class NarrowLayer:
    """What a layer's weights of 4 bits save and cost."""

    name: str
    saved_bytes: int
    worth: float  # flash and time that are saved, as shares of the whole network
    noise: Array  # that it adds to each output that is judged, alone


def why_eight(graph: FloatGraph, layer: LinearLayer) -> str:
    """Why the weights keep 8 bits; empty where they may have 4."""
    stored = graph.constants[layer.weights]
    if layer.groups > 1:
        return "depthwise or in groups: no published program has 4 bits there"
    if layer.kind not in ("Conv", "Gemm") or (layer.kind == "Conv" and stored.ndim != 4):
        return f"{layer.kind}: no published file has 4 bits there"
    if stored.size < LEAST_WEIGHTS:
        return f"fewer than {LEAST_WEIGHTS} weights"
    return ""


def saved_bytes(graph: FloatGraph, layer: LinearLayer) -> int:
    return int(graph.constants[layer.weights].size // 2)


def weight_bytes(layers: Mended) -> int:
    """Counts weights and biases, every weight as a byte."""
    return sum(weights.codes.size + BIAS_BYTES * len(weights.bias) for _, weights in layers.values())


def cheapest_first(layers: Sequence[NarrowLayer], signal: Array, noise: Array) -> tuple[str, ...]:
    """One layer after the other: the one whose noise, added to what there is, costs the fewest dB for its worth."""
    left, found = list(layers), []
    while left:
        now = decibels(signal, noise)
        costs = [float(now - decibels(signal, noise + layer.noise)) / layer.worth for layer in left]
        taken = left.pop(int(np.argmin(costs)))
        noise = noise + taken.noise
        found.append(taken.name)
    return tuple(found)


def as_many_as_fit(order: Sequence[str], fits: Callable[[frozenset[str]], bool]) -> frozenset[str]:
    """Layers in their order, as many at once as fit beside those that were taken before.

    One that does not fit in that company is left out, and those behind it in the order still have their turn.
    """
    taken, batches = frozenset[str](), [tuple(order)]
    while batches:
        batch = batches.pop()
        if fits(taken.union(batch)):
            taken = taken.union(batch)
        elif len(batch) > 1:
            half = len(batch) // 2
            batches += [batch[half:], batch[:half]]
    return taken


def tensors_of(graph: FloatGraph, layers: Mended, alone_db: Mapping[str, float]) -> tuple[TensorPrecision, ...]:
    return tuple(
        TensorPrecision(
            layer=name,
            tensor=layer.weights,
            bits=weights.bits,
            values=int(weights.codes.size),
            size_bytes=-(-weights.codes.size * weights.bits // 8),
            snr_db=_weights_db(graph, layer, weights),
            alone_db=alone_db.get(name),
            reason=why_eight(graph, layer),
        )
        for name, (layer, weights) in layers.items()
    )


def _weights_db(graph: FloatGraph, layer: LinearLayer, weights: QuantizedWeights) -> float:
    real = by_channel(layer, graph.constants[layer.weights].astype(np.float64))
    seen = by_channel(layer, weights.codes.astype(np.float64)) * weights.scales[:, None]
    power = [np.array([np.square(values).sum()]) for values in (real, real - seen)]
    return float(decibels(*power))


