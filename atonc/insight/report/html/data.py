"""The picture of a network as the page's JSON: short keys, plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atonc.compiler.frontends.coverage import FloatNode
from atonc.insight.explain.band import error_band
from atonc.insight.explain.live import distinct, live_bytes
from atonc.insight.explain.roofline import roofline
from atonc.insight.explain.types import (
    CPU,
    HYBRID,
    NPU,
    PREDICTED,
    BufferView,
    LayerView,
    Measured,
    NetworkView,
    StepView,
    TensorView,
    Verified,
)
from atonc.insight.report import accuracy_text, energy_text, silicon_text
from atonc.insight.report.columns import COLUMNS
from atonc.insight.report.explain_text import layer_data
from atonc.insight.report.html.graph import graph_data
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.summary import Summary

_MOST_FLOATS = 40
_MOST_FORMS = 12  # of one argument
_MOST_TEXT = 160  # of names, which models may make as long as they like


def network_data(network: NetworkView) -> dict[str, Any]:
    band = error_band(network)
    tensors = _tensors(network)
    places = {name: place for place, name in enumerate(tensors)}
    return {
        "name": cut(network.name),
        "model": cut(network.model),
        "tool": network.tool,
        "board": network.board,
        "npu_mhz": network.npu_mhz,
        "cpu_mhz": network.cpu_mhz,
        "totals": {
            "latency_ms": network.latency_ms,
            "cycles": network.cycles,
            "macs": network.macs,
            "ram": network.memory.ram_bytes,
            "ram_by_use": {str(use): size for use, size in network.memory.ram_by_use.items()},
            "activations": network.memory.activations_bytes,
            "weights": network.memory.weights_bytes,
            "spilled": network.memory.spilled_bytes,
            "lower_bound": network.lower_bound_bytes,
            "npu": network.count(NPU),
            "cpu": network.count(CPU),
            "hybrid": network.count(HYBRID),
            **energy_text.as_json(network.energy),
            "low_ms": band.around(network.latency_ms)[0],
            "high_ms": band.around(network.latency_ms)[1],
            "st_cycles": network.st_cycles,
        },
        "tensors": [_tensor(one) for one in tensors.values()],
        "inputs": [places[one.name] for one in network.inputs],
        "outputs": [places[one.name] for one in network.outputs],
        "verified": _verified(network.verified) if network.verified else None,
        "rules": {one.rule.id: one.rule.sentence for layer in network.layers for one in layer.decisions},
        "graph": graph_data(network, places),
        "bound_by": dict(network.bound_by),
        "limit": network.limit.as_dict() if network.limit else None,
        "basis": network.basis,
        "uncertain": [[what, round(share, 6)] for what, share in band.parts] if network.basis == PREDICTED else [],
        "notes": [cut(note) for note in network.notes],
        "floats": [[node.kind, cut(node.name), node.size_bytes, cut(node.why)] for node in _floats(network)],
        "silicon": _silicon(network.silicon) if network.silicon else None,
        "measured": _measured(network.measured) if network.measured else None,
        "accuracy": accuracy_text.as_json(network.accuracy) if network.accuracy else None,
        "search": [[cut(a.reason), a.cycles, a.peak_bytes, cut(f"{a.verdict}. {a.seen}")] for a in network.search],
        "reproduce": dict(network.reproduce),
        "steps": [_step(step) for step in network.steps],
        "layers": [_layer(layer, places) for layer in network.layers],
        "columns": [[c.key, c.title, c.digits, c.window if c.first else None] for c in COLUMNS],
        "roofline": _roofline(network),
        "buffers": [_buffer(buffer, names) for buffer, names in distinct(network.buffers).items()],
        "live": list(live_bytes(network).values()),
        "pools": [
            {"name": p.name, "base": p.base, "size": p.size_bytes, "used": p.used_bytes, "external": p.external}
            for p in network.pools
        ],
    }


def _roofline(network: NetworkView) -> dict[str, Any]:
    """Layers by their place in `layers`."""
    found, places = roofline(network), {layer.name: place for place, layer in enumerate(network.layers)}
    return {
        "peak": found.peak,
        "rate": round(found.bytes_per_cycle, 2),
        "flash": round(found.flash_bytes_per_cycle, 4),
        "dots": [
            [places[d.layer.name], *(round(x, 4) for x in (d.macs_per_byte, d.macs_per_cycle, d.macs_per_flash_byte))]
            for d in found.dots
        ],
        "cpu": [places[layer.name] for layer in found.on_cpu],
    }


def _floats(network: NetworkView) -> list[FloatNode]:
    found = network.coverage.float_nodes if network.coverage else ()
    return sorted(found, key=lambda node: -node.size_bytes)[:_MOST_FLOATS]


def _silicon(found: Summary) -> dict[str, Any]:
    """Epochs by grade; what is not simply seen, by what it rests on, each with its forms in words."""
    allows = {f"{a.id} {a.title}": f": {a.allows}" for a in ARGUMENTS}
    groups = [
        [group.title + allows.get(group.title, ""), silicon_text.said_share(group.share), _forms(group)]
        for group in silicon_text.groups(found)
    ]
    strength = ". ".join((silicon_text.strength(found), *silicon_text.interleaved(found)))
    return {"head": silicon_text.head(found), "strength": strength, "groups": groups}


def _measured(found: Measured) -> dict[str, Any]:
    return {
        "source": cut(found.source),
        "ms": found.total_ms,
        "blocks": [
            {
                "first": block.first,
                "last": block.last,
                "parts": [block.before, block.core, block.after],
                "ms": block.measured_ms,
                "predicted_ms": block.predicted_ms,
                "cycles": block.npu_cycles,
                "predicted": block.predicted_cycles,
            }
            for block in found.blocks
        ],
    }


def _forms(group: silicon_text.Group) -> list[str]:
    return [cut(silicon_text.form_line(form)) for form in group.forms[:_MOST_FORMS]]


def _step(step: StepView) -> dict[str, Any]:
    return {
        "n": step.number,
        "on": step.on,
        "title": cut(step.title),
        "layer": cut(step.layer),
        "cycles": step.cycles,
        "ms": step.milliseconds,
        "st": step.st_cycles,
        "bound": step.bound_by,
        "known": step.known,
        "parts": {key: round(value) for key, value in step.parts.items() if value >= 1},
        "chains": list(step.chains),
        "modes": list(step.modes),
        "links": [list(link) for link in step.links],
        "units": dict(step.units),
        "bytes": step.bytes_moved,
    }


def _layer(layer: LayerView, places: Mapping[str, int]) -> dict[str, Any]:
    data = layer_data(layer)
    for one in data["decisions"]:
        del one["sentence"]  # the rules are listed once
    error = layer.error
    return data | {
        "name": cut(layer.name),
        "label": cut(layer.title),
        "nodes": [cut(node) for node in layer.nodes],
        "inputs": [places[name] for name in layer.inputs],
        "outputs": [places[name] for name in layer.outputs],
        "attributes": {cut(name): cut(value) for name, value in layer.attributes.items()},
        "weights": [_tensor(one) for one in layer.weights],
        "error": [error.codes, round(error.differ_percent, 4), error.limit] if error else None,
    }


def _tensors(network: NetworkView) -> dict[str, TensorView]:
    """Everything that an edge, an input or an output may name, in one order."""
    found = {one.name: one for one in network.inputs}
    for layer in network.layers:
        for name in (*layer.inputs, *layer.outputs):
            found.setdefault(name, network.tensors.get(name, TensorView(name, (), "")))
    return found | {one.name: one for one in network.outputs}


def _tensor(one: TensorView) -> dict[str, Any]:
    data: dict[str, Any] = {"name": cut(one.name), "shape": list(one.shape), "type": one.dtype}
    for key, value in (("scale", one.scale), ("zero", one.zero_point), ("low", one.low), ("high", one.high)):
        if value is not None:
            data[key] = float(f"{value:.6g}") if isinstance(value, float) else value
    if one.spread:
        spread = one.spread
        counts = {"channels": spread.channels, "saturated": spread.saturated, "elements": spread.elements}
        data["spread"] = counts | {"rows": spread.rows, "ends": list(zip(spread.lows, spread.highs, strict=True))}
    return data | ({"scales": one.scales} if one.scales > 1 else {})


def _verified(found: Verified) -> dict[str, Any]:
    rows = [[cut(name), cosine, exact, close, largest] for name, cosine, exact, close, largest in found.outputs]
    counts = {"samples": found.samples, "layers": found.layers, "tensors": found.tensors}
    return counts | {"worst": found.worst_codes, "sums": cut(found.sums), "outputs": rows}


def _buffer(buffer: BufferView, names: tuple[str, ...]) -> dict[str, Any]:
    """`also`: the other names of the same memory."""
    return {
        "name": cut(buffer.name),
        "pool": buffer.pool,
        "a": buffer.address,
        "size": buffer.size_bytes,
        "first": buffer.first,
        "last": buffer.last,
        "kind": buffer.kind,
        "layer": cut(buffer.layer),
        "also": [cut(name) for name in names],
    }


def cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"
