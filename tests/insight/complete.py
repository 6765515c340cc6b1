"""Is every decision explained? Looks only at how layers run, not at how their rules were found."""

from __future__ import annotations

import json
from collections.abc import Iterator

from atonc.insight.explain.types import CPU, HYBRID, NPU, Decision, LayerView, NetworkView
from atonc.machine.base.words import count

_PLAIN_MODES = ("8x8 SIMD", "deep 1x1")
_PLAIN_KINDS = ("conv", "dense", "add", "sub", "mul", "minimum", "maximum", "max_pool", "mean", "average_pool")


def gaps(network: NetworkView) -> list[str]:
    """What lacks a rule with seen, limit and remedy, in sentences; empty when all is explained."""
    return [*_layer_gaps(network), *_words(network)]


def unusual(layer: LayerView) -> list[str]:
    """Why the form of a layer on the NPU is not the default: one epoch, plain units, 8-bit products."""
    found = [mode for mode in layer.modes if mode not in _PLAIN_MODES and "convolvers" not in mode]
    if len(layer.steps) > 1:
        found.append(f"{count(len(layer.steps), 'epoch')}")
    if layer.kind not in _PLAIN_KINDS:
        found.append(f"{layer.kind} is no plain operator")
    if any("ACTIV" in chain for chain in layer.chains):
        found.append("a function table")
    if any("CONVACC" in chain for chain in layer.chains) and not layer.macs:
        found.append("a convolver without a convolution")
    return found


def _none(decision: Decision) -> bool:
    """Whether a missing remedy is meant so: nothing is needed, or the one that was tried brought nothing."""
    return decision.avoided or not decision.rule.remedy or (decision.price is not None and decision.price.tried)


def _layer_gaps(network: NetworkView) -> Iterator[str]:
    for layer in network.layers:
        complete = [d for d in layer.decisions if d.seen and d.limit and d.rule.sentence and (d.remedy or _none(d))]
        if len(complete) < len(layer.decisions):
            yield f"{layer.name}: a rule without seen, limit or remedy"
        shaping = [d for d in complete if not d.rule.id.startswith("BOUND-")]
        if layer.on in (CPU, HYBRID) and not shaping:
            yield f"{layer.name}: on the {layer.on.upper()} without a rule"
        acting = [d for d in shaping if not d.avoided]
        if layer.on == NPU and not acting and (why := unusual(layer)):
            yield f"{layer.name}: {', '.join(why)} without a rule"
        if layer.on == NPU and layer.steps and not complete:
            yield f"{layer.name}: nothing says what bounds it"


def _words(network: NetworkView) -> Iterator[str]:
    for layer in network.layers:
        text = json.dumps([one.as_dict() for one in layer.decisions]).lower()
        if "unknown" in text:
            yield f"{layer.name}: a rule says unknown"
