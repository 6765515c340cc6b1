"""What `atonc explain` shows unless more is asked for: its headline, the costliest layers and what to do about each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atonc.insight.explain.band import span_of
from atonc.insight.explain.rules import bound_in_short
from atonc.insight.explain.types import CPU, HYBRID, NOTHING, Decision, LayerView, NetworkView
from atonc.insight.report import energy_text
from atonc.insight.report.marks import Mark, Marked, head
from atonc.insight.report.summary import (
    NAME,
    OnCpu,
    cpu_row,
    flash_row,
    latency_row,
    next_row,
    ram_row,
    resident_step,
    summary_lines,
)
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, elided

if TYPE_CHECKING:
    from atonc.insight.explain.fit import FitLever

MOST_LAYERS = 10
_MOST_BOUNDS = 3


def lines(network: NetworkView, layers: Sequence[LayerView], alarms: Sequence[str] = ()) -> list[str]:
    return [*_headline(network), *alarms, *_costliest(network, layers)]


def _headline(network: NetworkView) -> list[str]:
    free = sum(layer.on == NOTHING for layer in network.layers)
    steps = f"{count(len(network.layers), 'layer')} in {count(len(network.steps), 'epoch')} (units that run at once)"
    steps += f", {count(free, 'layer')} at no cost" if free else ""
    out: list[str] = [head(elided(network.model, NAME), f", compiled by {network.tool}: {steps}")]
    for label, share in list(network.bound_by.items())[:_MOST_BOUNDS]:
        out.append(f"  {100 * share:3.0f} % of the time  {label:12} {bound_in_short(label)}")
    return out


def _costliest(network: NetworkView, layers: Sequence[LayerView]) -> list[str]:
    busy = sorted((layer for layer in layers if layer.cycles), key=lambda layer: -layer.cycles)
    shown = busy[:MOST_LAYERS]
    share = 100 * sum(layer.cycles for layer in shown) / max(1, network.cycles)
    every = "every layer" if len(layers) == len(shown) else "every layer that takes time"
    title = f"the {len(shown)} costliest of {count(len(layers), 'layer')}" if len(shown) < len(busy) else every
    out: list[str] = ["", head(title, f" ({share:.0f} % of the time: share, cycles, where), and what to do")]
    said = set[str]()
    for layer in shown:
        out += [_layer_line(layer, network), *_what_to_do(layer, said)]
    if len(shown) < len(busy):
        out.append("all layers with all reasons: --all; one of them: --layer NAME; words: --terms")
    return out


def _layer_line(layer: LayerView, network: NetworkView) -> Marked:
    before = f"{100 * layer.cycles / max(1, network.cycles):5.1f} % {layer.cycles:>12,}  "
    place = (layer.on, Mark.ON_CPU if layer.on in (CPU, HYBRID) else None)
    return Marked.of((before, None), place, (f"  {layer.title} {elided(layer.name, NAME)}", None))


def _what_to_do(layer: LayerView, said: set[str]) -> list[str]:
    """The remedy that brings most; its words once, for the layers behind only what it brings them."""
    tried = [one for one in layer.decisions if one.remedy and one.price is not None and one.price.tried]
    if not tried:
        open_ = next((one for one in layer.decisions if one.remedy), None)
        return [_once(open_, f"not tried: {open_.remedy}", said)] if open_ is not None else []
    best = max(tried, key=lambda one: one.price.cycles if one.price is not None else 0)
    assert best.price is not None
    gained = f"{best.price.cycles:,} cycles less" if best.price.cycles > 0 else f"{best.price.bytes:,} bytes less RAM"
    return [_once(best, f"{best.remedy}; tried: {gained}", said, f"as above; tried: {gained}")]


def _once(one: Decision, words: str, said: set[str], again: str = "as above") -> Marked:
    shown = again if one.rule.id in said else words
    said.add(one.rule.id)
    return Marked.of((" " * 9, None), (one.rule.id, Mark.RULE), (f": {shown}", Mark.REMEDY), hang=11)


# ----------------------------------------------------------------------------------------------------------- summary


@dataclass(frozen=True)
class Known:
    """What was tried or estimated for the network as a whole."""

    levers: Sequence[FitLever] | None = None  # where activations spill: what would help, each tried
    outlook: tuple[float, int] | None = None  # milliseconds with weights in RAM, and their bytes


def summary(network: NetworkView, known: Known) -> list[str]:
    on_cpu = [layer for layer in network.layers if layer.on in (CPU, HYBRID)]
    step = _next(network, known)
    return summary_lines(
        (
            latency_row(network.latency_ms, f"{network.basis}{span_of(network)}", network.clocks),
            ram_row(network.memory),
            flash_row(network.memory),
            cpu_row([OnCpu(one.name, one.kind, one.milliseconds) for one in on_cpu], network.latency_ms),
            energy_text.row(network.energy),
            next_row(step) if step else None,
        )
    )


def _next(network: NetworkView, known: Known) -> str:
    """The step that brings the whole network most, of those that were tried or estimated."""
    if known.levers:
        return str(known.levers[0])
    if found := resident_step(known.outlook, network.latency_ms):
        return found
    tried = [
        (one.price.cycles, layer, one.price.how)
        for layer in network.layers
        for one in layer.decisions
        if one.remedy and one.price is not None and one.price.tried and one.price.cycles > 0
    ]
    if not tried:
        return ""
    cycles, layer, how = max(tried, key=lambda row: row[0])
    return f"see {elided(layer.name, NAME)} above: {cycles:,} cycles less ({how})"
