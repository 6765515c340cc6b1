"""Two builds of a network side by side: totals, and layer by layer where they share names, or order and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import prod

from atonc.insight.accuracy import OutputAgreement
from atonc.insight.types import CPU, HYBRID, NPU, LayerView, NetworkView

BY_NAME, BY_ORDER = "names", "order and output size"
_WEIGHTED = ("conv", "dense", "transpose_conv")
_ENOUGH = 0.5  # share of convolutions that must align, else pairs would be chance


@dataclass(frozen=True)
class Figure:
    """One number of both; less is better where `ratio` below 1 is good."""

    name: str
    a: float
    b: float
    unit: str = ""

    @property
    def ratio(self) -> float | None:
        return self.b / self.a if self.a else None


@dataclass(frozen=True)
class LayerPair:
    """A layer of one build with the layer of the other that holds the same source nodes."""

    nodes: tuple[str, ...]
    a: LayerView | None
    b: LayerView | None

    @property
    def difference(self) -> float:
        """Milliseconds that b takes longer."""
        return (self.b.milliseconds if self.b else 0.0) - (self.a.milliseconds if self.a else 0.0)


@dataclass(frozen=True)
class Comparison:
    a: NetworkView
    b: NetworkView
    figures: tuple[Figure, ...]
    layers: tuple[LayerPair, ...]  # largest difference first
    unmatched: int  # layers that have no partner in the other build
    paired_by: str = BY_NAME
    outputs: tuple[OutputAgreement, ...] = ()  # if both were run on the same inputs


def compare(a: NetworkView, b: NetworkView, outputs: tuple[OutputAgreement, ...] = ()) -> Comparison:
    figures = tuple(
        Figure(name, float(x), float(y), unit)
        for name, x, y, unit in (
            ("latency", a.latency_ms, b.latency_ms, "ms"),
            ("cycles", a.cycles, b.cycles, ""),
            ("cycles by ST's estimate", _st(a), _st(b), ""),
            ("epochs", len(a.steps), len(b.steps), ""),
            ("epochs on the NPU", a.count(NPU), b.count(NPU), ""),
            ("epochs on the CPU", a.count(CPU) + a.count(HYBRID), b.count(CPU) + b.count(HYBRID), ""),
            ("activations", a.activations_bytes, b.activations_bytes, "bytes"),
            ("spilled", a.spilled_bytes, b.spilled_bytes, "bytes"),
            ("weights", a.weights_bytes, b.weights_bytes, "bytes"),
        )
    )
    pairs, paired_by = _pairs(a.layers, b.layers), BY_NAME
    if not pairs:
        pairs, paired_by = _aligned(a.layers, b.layers), BY_ORDER
    pairs.sort(key=lambda pair: (-abs(pair.difference), pair.nodes))
    unmatched = sum(bool(layer.steps) for layer in (*a.layers, *b.layers)) - 2 * len(pairs)
    return Comparison(a, b, figures, tuple(pairs), unmatched, paired_by, outputs)


def _st(network: NetworkView) -> int:
    return sum(step.st_cycles for step in network.steps)


def _pairs(a: Sequence[LayerView], b: Sequence[LayerView]) -> list[LayerPair]:
    """By the last source node."""
    left = {layer.nodes[-1]: layer for layer in a if layer.steps and layer.nodes}
    right = {layer.nodes[-1]: layer for layer in b if layer.steps and layer.nodes}
    return [LayerPair((name,), left[name], right[name]) for name in left if name in right]


def _aligned(a: Sequence[LayerView], b: Sequence[LayerView]) -> list[LayerPair]:
    """ST's compiler gives names of its own: convolutions are paired by their order and the size of their output."""
    left, right = _convolutions(a), _convolutions(b)
    matcher = SequenceMatcher(None, [prod(x.shape) for x in left], [prod(y.shape) for y in right], autojunk=False)
    found = [
        LayerPair((left[block.a + k].nodes[-1], right[block.b + k].nodes[-1]), left[block.a + k], right[block.b + k])
        for block in matcher.get_matching_blocks()
        for k in range(block.size)
    ]
    return found if len(found) >= _ENOUGH * min(len(left), len(right)) else []


def _convolutions(layers: Sequence[LayerView]) -> list[LayerView]:
    return [layer for layer in layers if layer.kind in _WEIGHTED and layer.steps and layer.shape]
