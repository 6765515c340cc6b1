"""How far the prediction for a network may be off, beside the view that shows it."""

from __future__ import annotations

from atonc.insight.explain.types import CPU, HYBRID, PREDICTED, NetworkView
from atonc.machine.cost.band import PredictionBand, band_of


def error_band(network: NetworkView) -> PredictionBand:
    return band_of((step.on in (CPU, HYBRID), step) for step in network.steps)


def span_of(network: NetworkView, digits: int = 0) -> str:
    """The band to print behind a predicted time; nothing where ST's compiler estimated it."""
    return f" ({error_band(network).span(network.latency_ms, digits)})" if network.basis == PREDICTED else ""
