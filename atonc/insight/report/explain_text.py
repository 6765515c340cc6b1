"""What `atonc explain` shows: every layer, where it runs, what bounds it, which rules decided so, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atonc.insight.explain.band import error_band, span_of
from atonc.insight.explain.types import CPU, HYBRID, NOTHING, PREDICTED, Decision, LayerView, NetworkView
from atonc.insight.report import columns, energy_text, silicon_text
from atonc.insight.report.marks import Mark, Marked, head, note
from atonc.machine.base.errors import sentence
from atonc.machine.base.words import count, elided

if TYPE_CHECKING:
    from atonc.insight.explain.fit import FitLever, Peak

LONG_NAME = 72
_MOST_SLOW = 12
_MOST_LOST = 3


def alarms(spill: Sequence[str]) -> list[str]:
    return [Marked(Mark.ALARM, line) for line in spill]


def sections(*found: Sequence[str]) -> list[str]:
    """The first line of each is its head."""
    return [line for section in found for line in (*map(head, section[:1]), *section[1:])]


def node_lines(layers: Sequence[LayerView]) -> list[str]:
    """`--node`: these layers and nothing of the rest."""
    return [line for layer in layers for line in layer_lines(layer)]


def lines(network: NetworkView, layers: Sequence[LayerView], verbose: bool) -> list[str]:
    """Every layer with every reason, behind what is true of all; `verbose`: with every form behind the grades."""
    busy = [layer for layer in layers if layer.on != NOTHING]
    free = f", {len(layers) - len(busy)} cost nothing" if len(busy) < len(layers) else ""
    on_cpu = sum(layer.on in (CPU, HYBRID) for layer in busy)
    out = [
        f"{network.model}, compiled by {network.tool}: {count(len(network.steps), 'epoch')}, "
        f"{network.latency_ms:.2f} ms {network.basis}{span_of(network)} at {network.clocks}",
        f"{count(len(layers), 'layer')}, {on_cpu} of them on the CPU{free}; bound by " + _shares(network),
        f"{network.memory.ram_text}, weights {network.memory.weights_bytes:,} bytes",
        *energy_text.lines(network.energy),
        *band_lines(network),
        *limit_lines(network),
        *map(note, network.notes),
        *silicon_text.lines(network.silicon, verbose),
        *coverage_lines(network, verbose),
        "",
    ]
    return [*out, *(line for layer in busy for line in layer_lines(layer))]


def band_lines(network: NetworkView) -> list[str]:
    if network.basis != PREDICTED:
        return []
    return [Marked(Mark.DOUBT, f"expected error of the prediction: {error_band(network)}")]


def limit_lines(network: NetworkView) -> list[str]:
    """How near it is to what the chip could do, and which layers are furthest from it."""
    limit = network.limit
    if limit is None:
        return []
    worst = sorted((one for one in network.layers if one.lost_cycles), key=lambda one: -one.lost_cycles)[:_MOST_LOST]
    most = ", ".join(f"{elided(one.name, LONG_NAME)} {100 * one.lost_cycles / network.cycles:.0f} %" for one in worst)
    return [f"{limit}" + (f"; the most beyond it, by share of the time: {most}" if most else "")]


def coverage_lines(network: NetworkView, verbose: bool) -> list[str]:
    """Nodes that the quantiser left in float, and why."""
    found = network.coverage
    if found is None or not found.float_nodes:
        return []
    shown = sorted(found.float_nodes, key=lambda node: -node.size_bytes)[: None if verbose else _MOST_SLOW]
    share = f" {found.percent:.1f} % of the operators that compute; {len(found.float_nodes)} left in float"
    out: list[str] = [head("quantised:", f"{share} ({found.float_bytes:,} bytes)")]
    out += [f"  {node.kind} {elided(node.name, LONG_NAME)} ({node.size_bytes:,} bytes): {node.why}" for node in shown]
    more = len(found.float_nodes) - len(shown)
    return [*out, f"  and {more} more (-v shows all)"] if more else out


def _shares(network: NetworkView) -> str:
    return ", ".join(f"{label} {100 * share:.0f} %" for label, share in list(network.bound_by.items())[:5])


def _numbers(layer: LayerView) -> str:
    return f"epoch {layer.steps[0]}" if len(layer.steps) == 1 else f"epochs {layer.steps[0]} to {layer.steps[-1]}"


def layer_lines(layer: LayerView) -> list[str]:
    if layer.on == NOTHING:
        return [f"{layer.kind} {elided(layer.name, LONG_NAME)}: costs nothing, the bytes stay where they are"]
    place = _numbers(layer) if layer.steps else "in the epochs of another layer"
    name, figures = f"{layer.kind} {elided(layer.name, LONG_NAME)}: ", ", ".join((place, *columns.words(layer)))
    out: list[str] = [Marked(Mark.PLACE, layer.on.upper(), name, f", {figures}")]
    if layer.chains:
        out.append("    " + "; ".join(layer.chains) + (f" ({', '.join(layer.modes)})" if layer.modes else ""))
    for one in layer.decisions:
        if one.avoided:
            out.append(Marked(Mark.RULE, one.rule.id, "    ", f": {sentence(one.seen)}"))
            continue
        seen = sentence(f"seen: {one.seen}")
        out.append(Marked(Mark.RULE, one.rule.id, "    ", f": {one.rule.sentence}"))
        out.append(f"        {seen} {sentence(f'Limit: {one.limit}')}")
        if one.remedy:
            out.append(Marked(Mark.REMEDY, f"what to do: {sentence(one.remedy)}{_price(one)}", "        "))
        elif one.price is not None and one.price.tried:
            out.append(f"        tried without gain: {sentence(one.price.how)}")
    return out


def _price(one: Decision) -> str:
    price = one.price
    if price is None:
        return ""
    if not price.tried:
        return f" Brings {price.how}." if one.rule.id.startswith("CPU-") else ""
    saved = f"{abs(price.bytes):,} bytes of RAM {'less' if price.bytes > 0 else 'more'}" if price.bytes else ""
    faster = f"{abs(price.cycles):,} cycles {'less' if price.cycles > 0 else 'more'}" if price.cycles else "no cycles"
    return f" Tried: {', '.join(filter(None, (faster, saved)))} ({price.how})."


def as_json(
    network: NetworkView, layers: Sequence[LayerView], peak: Peak | None = None, levers: Sequence[FitLever] = ()
) -> dict[str, Any]:
    return {
        "model": network.model,
        "tool": network.tool,
        "board": network.board,
        "cycles": network.cycles,
        "latency_ms": network.latency_ms,
        **error_band(network).as_data(network.latency_ms),
        "clocks": {"npu_mhz": network.npu_mhz, "cpu_mhz": network.cpu_mhz},
        "bound_by": dict(network.bound_by),
        "limit": network.limit.as_dict() if network.limit else None,
        **energy_text.as_json(network.energy),
        "notes": list(network.notes),
        "coverage": _coverage_data(network),
        "silicon": silicon_text.as_json(network.silicon) if network.silicon else None,
        "memory": network.memory.as_dict(),
        "spilled_bytes": network.memory.spilled_bytes,
        "peak": _peak_data(peak) if peak is not None else None,
        "levers": [_lever_data(lever) for lever in levers],
        "layers": [layer_data(layer) for layer in layers],
    }


def _peak_data(peak: Peak) -> dict[str, Any]:
    buffers = [{"name": b.name, "kind": b.kind, "size_bytes": b.size_bytes, "layer": b.layer} for b in peak.buffers]
    return {"epoch": peak.step.number, "title": peak.step.title, "live_bytes": peak.live_bytes, "buffers": buffers}


def _lever_data(lever: FitLever) -> dict[str, Any]:
    saved = {"saved_bytes": lever.saved_bytes, "unspilled_bytes": lever.unspilled_bytes, "cycles": lever.cycles}
    return {"what": lever.what, **saved, "fits": lever.after.fits}


def _coverage_data(network: NetworkView) -> dict[str, Any] | None:
    found = network.coverage
    if found is None:
        return None
    nodes = [{"node": n.name, "op": n.kind, "size_bytes": n.size_bytes, "why": n.why} for n in found.float_nodes]
    return {"percent": found.percent, "float_ops": nodes}


def layer_data(layer: LayerView) -> dict[str, Any]:
    return {
        "name": layer.name,
        "op": layer.kind,
        "nodes": list(layer.nodes),
        "on": layer.on,
        "epochs": list(layer.steps),
        "shape": list(layer.shape),
        "macs": layer.macs,
        "milliseconds": layer.milliseconds,
        **columns.figures(layer),
        "bound_by": dict(layer.bound_by),
        "limited_by": layer.limit.held_by if layer.limit else "",
        "chains": list(layer.chains),
        "modes": list(layer.modes),
        "decisions": [one.as_dict() for one in layer.decisions],
    }
