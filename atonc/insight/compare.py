"""Two builds of a network side by side: totals, and layer by layer where they share names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atonc.insight.types import CPU, HYBRID, NPU, LayerView, NetworkView


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
    unmatched: int  # layers whose nodes the other build does not name


def compare(a: NetworkView, b: NetworkView) -> Comparison:
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
    pairs, unmatched = _pairs(a.layers, b.layers)
    pairs.sort(key=lambda pair: (-abs(pair.difference), pair.nodes))
    return Comparison(a, b, figures, tuple(pairs), unmatched)


def _st(network: NetworkView) -> int:
    return sum(step.st_cycles for step in network.steps)


def _pairs(a: Sequence[LayerView], b: Sequence[LayerView]) -> tuple[list[LayerPair], int]:
    """By equal operator name, else by the last source node."""
    left = {layer.nodes[-1]: layer for layer in a if layer.steps and layer.nodes}
    right = {layer.nodes[-1]: layer for layer in b if layer.steps and layer.nodes}
    common = [name for name in left if name in right]
    pairs = [LayerPair((name,), left[name], right[name]) for name in common]
    return pairs, len(left) + len(right) - 2 * len(common)
