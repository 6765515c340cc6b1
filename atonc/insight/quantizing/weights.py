"""Weights as codes of 8 or 4 bits: one symmetric scale per output channel, rounded so that the layer's output, not each
weight, comes nearest to float.

The inputs of a sum are rounded one after the other, and what each rounding loses is made up by the weights that are
still free, by least squares over the rows that the layer reads (as in optimal brain surgery). That needs only second
moments of the rows. What the mean loses goes into the bias. Weights of 4 bits lose enough that a layer can mend what
those before it lost, held to its own weights by a ridge. (At 8 bits that was tried: with a hundred samples it learns
their noise and loses 2 to 10 dB.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.passes.layers import MOST_BIAS, grid_scales
from atonc.insight.quantizing.graph import FloatGraph, LinearLayer
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


def nearest(graph: FloatGraph, layer: LinearLayer, bounds: Bounds = FREE) -> QuantizedWeights:
    stored = graph.constants[layer.weights].astype(np.float64)
    rows = by_channel(layer, stored)
    wanted = bounds.range_of(layer.name)
    trained = grid_scales(rows) if graph.ranges and wanted is EIGHT else None
    scales = (
        channel_scales(rows, None, bounds.of(layer.name), wanted) if trained is None else trained.astype(np.float32)
    )
    codes = wanted.codes(rows, scales).astype(np.int8)
    channels = stored.shape[layer.axis] * (layer.groups if layer.kind == "ConvTranspose" else 1)
    bias = graph.constants[layer.bias].reshape(-1) if layer.bias else np.zeros(channels)
    real_bias = np.broadcast_to(bias.astype(np.float64), (channels,)).copy()
    return QuantizedWeights(back(layer, codes, stored), scales, real_bias, wanted.bits)


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


def one_by_one(wanted: Array, within: Array, scales: Array, allowed: CodeRange) -> Array:
    """group x outputs x inputs -> int8 codes; the inputs that vary most first."""
    order = np.argsort(-np.einsum("gkk->gk", within), axis=1, kind="stable")
    groups = np.arange(len(within))[:, None]
    sorted_within = within[groups[:, :, None], order[:, :, None], order[:, None, :]]
    left = np.take_along_axis(wanted, order[:, None, :], 2).copy()
    upper = np.linalg.cholesky(np.linalg.inv(sorted_within)).transpose(0, 2, 1)
    codes = np.empty(left.shape)
    for k in range(left.shape[2]):
        codes[:, :, k] = np.clip(np.rint(left[:, :, k] / scales), allowed.low, allowed.high)
        lost = (left[:, :, k] - codes[:, :, k] * scales) / upper[:, k, k, None]
        left[:, :, k + 1 :] -= lost[:, :, None] * upper[:, None, k, k + 1 :]
    found = np.empty(codes.shape, np.int8)
    np.put_along_axis(found, np.broadcast_to(order[:, None, :], codes.shape), codes.astype(np.int8), 2)
    return found


STARTS = (1.0, 0.85, 1.15)  # times the scale of the least error without regard to the other inputs
ROUNDS = 4  # of codes and scales; hardly any code moves after them


def refined(wanted: Array, within: Array, scales: Array, allowed: CodeRange) -> tuple[Array, Array]:
    """Sixteen codes are few: the scale of a channel and the codes of its weights are worked out together.

    Several scales are rounded one input after the other. Then the scale that fits the codes best is taken, and every
    code is looked at again while all others stay; neither ever makes the error of the layer's output larger.
    group x outputs x inputs -> int8 codes, and scales (group x outputs).
    """
    best = np.zeros(wanted.shape), scales.astype(np.float64)
    least = np.full(scales.shape, np.inf)
    for start in STARTS:
        trial = scales.astype(np.float64) * start
        codes, trial = _settled(wanted, within, one_by_one(wanted, within, trial, allowed), trial, allowed)
        lost = output_error(wanted - codes * trial[:, :, None], within)
        better = lost < least
        best = np.where(better[:, :, None], codes, best[0]), np.where(better, trial, best[1])
        least = np.minimum(least, lost)
    return best[0].astype(np.int8), best[1].astype(np.float32)


def output_error(lost: Array, within: Array) -> Array:
    """Mean squares of what the outputs lose over the rows: group x outputs."""
    return np.asarray(np.einsum("gok,gok->go", lost @ within, lost))


def _settled(wanted: Array, within: Array, start: Array, scales: Array, allowed: CodeRange) -> tuple[Array, Array]:
    codes = start.astype(np.float64)
    diagonal = np.einsum("gkk->gk", within)
    for _ in range(ROUNDS):
        # by least squares; what would turn the signs or has no codes stays as it was
        seen = codes @ within
        power, common = (np.einsum("gok,gok->go", seen, other) for other in (codes, wanted))
        usable = (power > 0) & (common > 0)
        scales = np.where(usable, common / np.where(usable, power, 1.0), scales)
        pull = (wanted - codes * scales[:, :, None]) @ within
        before = codes.copy()
        for k in range(codes.shape[2]):
            nearest = np.rint(codes[:, :, k] + pull[:, :, k] / (diagonal[:, k, None] * scales))
            step = np.clip(nearest, allowed.low, allowed.high) - codes[:, :, k]
            if step.any():
                codes[:, :, k] += step
                pull -= (step * scales)[:, :, None] * within[:, None, k]
        if np.array_equal(codes, before):
            break
    return codes, scales


DAMPING = 0.05  # of the mean variance of the inputs: few samples must not make weights wild
RIDGE = 0.3  # the same, for weights that mend: of 0.1 to 10 the best over four networks


@dataclass
class Moments:
    """Sums over the rows that a layer reads: group x inputs, group x inputs x inputs."""

    count: int
    sums: Array
    products: Array
    real_sums: Array | None = None  # of what it would read in float
    crossed: Array | None = None  # products of that with what it reads

    @staticmethod
    def empty(groups: int, inputs: int) -> Moments:
        return Moments(0, np.zeros((groups, inputs)), np.zeros((groups, inputs, inputs)))

    def add(self, rows: Array, real: Array | None = None) -> None:
        """`real`: the same rows in float; given always or never."""
        grouped = rows.transpose(1, 0, 2).astype(np.float64)
        self.count += len(rows)
        self.sums += grouped.sum(1)
        self.products += grouped.transpose(0, 2, 1) @ grouped
        if real is not None:
            exact = real.transpose(1, 0, 2).astype(np.float64)
            self.real_sums = exact.sum(1) + (0.0 if self.real_sums is None else self.real_sums)
            self.crossed = exact.transpose(0, 2, 1) @ grouped + (0.0 if self.crossed is None else self.crossed)

    def centred(self) -> tuple[Array, Array]:
        """Mean and covariance."""
        mean = self.sums / max(self.count, 1)
        return mean, self.products / max(self.count, 1) - mean[:, :, None] * mean[:, None, :]

    def mending(self, weights: Array) -> Array:
        """Weights whose outputs of what is read come nearest to those of float, and that stay near the given ones."""
        if self.crossed is None or self.real_sums is None:
            return weights
        mean, within = self.centred()
        real_mean = self.real_sums / max(self.count, 1)
        across = self.crossed / max(self.count, 1) - real_mean[:, :, None] * mean[:, None, :]
        ridge = _on_diagonal(within, RIDGE)
        return np.linalg.solve(within + ridge, (weights @ (across + ridge)).transpose(0, 2, 1)).transpose(0, 2, 1)


def rounded(
    weights: Array, moments: Moments, bounds: Bounds = FREE, allowed: CodeRange = EIGHT
) -> tuple[Array, Array, Array]:
    """group x outputs x inputs -> codes, scales (group x outputs) and what to add to the bias."""
    mean, within = moments.centred()
    within = within + _on_diagonal(within, DAMPING)
    wanted = weights if allowed is EIGHT else moments.mending(weights)
    importance = np.repeat(np.einsum("gkk->gk", within), weights.shape[1], axis=0)
    flat = wanted.reshape(-1, weights.shape[2])
    scales = channel_scales(flat, importance, bounds, allowed).reshape(weights.shape[:2])
    if allowed is EIGHT:
        codes = one_by_one(wanted, within, scales, allowed)
    else:
        codes, scales = refined(wanted, within, scales, allowed)
    shift = np.einsum("gok,gk->go", weights - codes * scales[:, :, None], mean)
    return codes, scales, shift


def _on_diagonal(within: Array, share: float) -> Array:
    """So much of the mean variance."""
    extra = np.maximum(share * np.einsum("gkk->gk", within).mean(1), 1e-12)
    return np.asarray(extra[:, None, None] * np.eye(within.shape[1]))
