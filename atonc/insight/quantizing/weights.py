"""Weights as codes of 8 or 4 bits: one symmetric scale per output channel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.passes.layers import MOST_BIAS
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.layers import LinearLayer
from atonc.machine.base.frozen import dataclass

SHARES = (1.0, 0.97, 0.94, 0.9, 0.86, 0.82)
WHOLE = (1.0,)
FOUR_BIT_SHARES = tuple(np.linspace(1.0, 0.4, 25).tolist())  # with 16 codes a good deal of the range is worth cutting
SPREADS = (36.0, 6.0)  # of the scales of a layer: channels within a factor of 6 share a shift without loss


@dataclass(frozen=True)
class CodeRange:
    """The codes that a weight may have."""

    bits: int
    low: int
    high: int

    def codes(self, rows: Array, scales: Array) -> Array:
        """The nearest ones, as real numbers; scales are one per row."""
        return np.clip(np.rint(rows / scales[:, None]), self.low, self.high)


EIGHT, FOUR = CodeRange(8, -127, 127), CodeRange(4, -8, 7)  # 4 bits: as ONNX has INT4, and as published files use it


@dataclass(frozen=True)
class Bounds:
    """What the scales of a layer's channels keep to, and how many bits its weights have."""

    spread: float = np.inf  # no scale is smaller than the largest by more than this
    shares: tuple[float, ...] = SHARES  # of the whole range, that are tried
    layers: frozenset[str] | None = None  # that keep to the spread; None: all
    four: frozenset[str] = frozenset()  # layers whose weights have 4 bits

    def of(self, layer: str) -> Bounds:
        return self if self.layers is None or layer in self.layers else replace(self, spread=np.inf)

    def range_of(self, layer: str) -> CodeRange:
        return FOUR if layer in self.four else EIGHT


FREE = Bounds()


@dataclass(frozen=True)
class QuantizedWeights:
    codes: Array  # int8, as stored
    scales: Array  # one per output channel
    bias: Array  # real numbers, one per output channel
    bits: int = 8


def by_channel(layer: LinearLayer, stored: Array) -> Array:
    """output channel x the rest; a transposed convolution shares scales among its groups."""
    return np.moveaxis(stored, layer.axis, 0).reshape(stored.shape[layer.axis], -1)


def back(layer: LinearLayer, rows: Array, like: Array) -> Array:
    moved = np.moveaxis(like, layer.axis, 0).shape
    return np.moveaxis(rows.reshape(moved), 0, layer.axis)


def channel_scales(
    rows: Array, importance: Array | None = None, bounds: Bounds = FREE, codes: CodeRange = EIGHT
) -> Array:
    """The scale of each row that loses least; `importance` says how much an error of each weight counts."""
    top = np.abs(rows).max(1)
    top = np.maximum(top, max(top.max() / bounds.spread, 1e-8))
    best, least = top / codes.high, np.full(len(rows), np.inf)
    for share in bounds.shares if codes is EIGHT else FOUR_BIT_SHARES:
        scales = top * share / codes.high
        errors = np.square(rows - codes.codes(rows, scales) * scales[:, None])
        lost = (errors if importance is None else errors * importance).sum(1)
        better = lost < least * (1 - 1e-9)
        best, least = np.where(better, scales, best), np.where(better, lost, least)
    return best.astype(np.float32)


def spread_of(graph: FloatGraph, layer: LinearLayer) -> float:
    """The largest weight of the loudest channel against that of the quietest."""
    tops = np.abs(by_channel(layer, graph.constants[layer.weights])).max(1)
    return float(tops.max() / max(tops.min(), 1e-30))


def bias_values(graph: FloatGraph, layer: LinearLayer, stored: Array) -> Array:
    channels = stored.shape[layer.axis] * (layer.groups if layer.kind == "ConvTranspose" else 1)
    bias = graph.constants[layer.bias].reshape(-1) if layer.bias else np.zeros(channels)
    return np.broadcast_to(bias.astype(np.float64), (channels,)).copy()


def nearest(graph: FloatGraph, layer: LinearLayer, bounds: Bounds = FREE) -> QuantizedWeights:
    stored = graph.constants[layer.weights].astype(np.float64)
    rows = by_channel(layer, stored)
    wanted = bounds.range_of(layer.name)
    scales = channel_scales(rows, None, bounds.of(layer.name), wanted)
    codes = wanted.codes(rows, scales).astype(np.int8)
    return QuantizedWeights(back(layer, codes, stored), scales, bias_values(graph, layer, stored), wanted.bits)


def with_room(layer: LinearLayer, weights: QuantizedWeights, source_scale: float) -> QuantizedWeights:
    """Scales large enough for the biases: what hardly leaves zero has so small a scale that they would be cut off."""
    if len(weights.bias) != len(weights.scales):
        return weights
    least = np.abs(weights.bias) / (MOST_BIAS * source_scale)
    if (weights.scales >= least).all():
        return weights
    scales = np.maximum(weights.scales, least).astype(np.float32)
    rows = by_channel(layer, weights.codes) * (weights.scales / scales)[:, None]
    codes = np.rint(rows).astype(np.int8)
    return replace(weights, codes=np.ascontiguousarray(back(layer, codes, weights.codes)), scales=scales)
