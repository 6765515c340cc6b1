"""The graph of a network as boxes with places and edges with shapes: layers between inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atonc.compiler.frontends.coverage import FloatNode
from atonc.insight.explain.limits import PEAK
from atonc.insight.explain.live import distinct, live_bytes
from atonc.insight.explain.tensors import ACTIVATION
from atonc.insight.explain.types import (
    CPU,
    HYBRID,
    NPU,
    PREDICTED,
    UNBUILT,
    BufferView,
    LayerView,
    Measured,
    NetworkView,
    StepView,
    TensorView,
    Verified,
    error_band,
)
from atonc.insight.report import accuracy_text, parts
from atonc.insight.report.columns import COLUMNS
from atonc.insight.report.document import fields_of
from atonc.insight.report.explain_text import layer_data
from atonc.insight.report.html.layout import layered
from atonc.insight.report.key_figures import best_actions, more_figures, tiles
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.machine import FLASH, Machine, stm32n6
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.summary import Summary

BOX_HEIGHT = 72  # four lines: operator and activation, name, shapes of kernel and bias, time
_CHARACTER, _NARROW, _WIDE = 7.2, 118, 244  # pixels


def graph_data(network: NetworkView, tensors: dict[str, int]) -> dict[str, Any]:
    """Boxes: left, top, width, and the layer's place or -1 - tensor of an input or output. Edges: upper box, lower box,
    tensor, then the points of the line."""
    ends = [one.name for one in network.inputs], [one.name for one in network.outputs]
    first, count = len(ends[0]), len(network.layers)
    widths = [
        *map(_edge_width, network.inputs),
        *map(_width, network.layers),
        *map(_edge_width, network.outputs),
    ]
    source = {name: k for k, name in enumerate(ends[0])}
    links: dict[tuple[int, int], str] = {}
    for k, layer in enumerate(network.layers):
        for name in layer.inputs:
            if name in source and source[name] < first + k:
                links.setdefault((source[name], first + k), name)
        source |= dict.fromkeys(layer.outputs, first + k)
    for k, name in enumerate(ends[1]):
        if name in source:
            links.setdefault((source[name], first + count + k), name)
    picture = layered(widths, BOX_HEIGHT, list(links))
    meaning = [
        *(-1 - tensors[name] for name in ends[0]),
        *range(count),
        *(-1 - tensors[name] for name in ends[1]),
    ]
    places = zip(picture.boxes, widths, meaning, strict=True)
    edges = zip(links.items(), picture.edges, strict=True)
    return {
        "w": picture.width,
        "h": picture.height,
        "box": BOX_HEIGHT,
        "boxes": [[x, y, width, what] for (x, y), width, what in places],
        "edges": [[a, b, tensors[name], *points] for ((a, b), name), points in edges],
    }


def _width(layer: LayerView) -> int:
    activation = layer.attributes.get(ACTIVATION, "")
    held = sum(3 + 4 * len(one.shape) for one in layer.weights[:2])
    return _fitting(max(len(layer.title) + (len(activation) + 3 if activation else 0), min(len(layer.name), 24), held))


def _edge_width(one: TensorView) -> int:
    return _fitting(max(min(len(one.name), 24), len(f"{'x'.join(map(str, one.shape))} {one.dtype}")))


def _fitting(characters: int) -> int:
    return round(min(_WIDE, max(_NARROW, _CHARACTER * characters + 20)))


@dataclass(frozen=True)
class Dot:
    """A layer of the NPU. It takes part in whole epochs: cycles and bytes are theirs, also where others share them, so
    that none goes faster than the epoch does."""

    layer: LayerView
    macs_per_byte: float
    macs_per_flash_byte: float  # 0: it reads none
    macs_per_cycle: float


@dataclass(frozen=True)
class Roofline:
    """`on_cpu`: layers that multiply on the processor. Its caches bring what they read, not the NPU's bus: they have no
    place below this roof."""

    peak: float  # multiplications a cycle
    bytes_per_cycle: float
    flash_bytes_per_cycle: float
    dots: tuple[Dot, ...]
    on_cpu: tuple[LayerView, ...]


def roofline(network: NetworkView) -> Roofline:
    machine = stm32n6().with_clocks(npu_mhz=network.npu_mhz, cpu_mhz=network.cpu_mhz)
    steps = {step.number: step for step in network.steps}
    dots, on_cpu = [], []
    for layer in network.layers:
        if not layer.macs or not layer.steps:
            continue
        if layer.on != NPU:
            on_cpu.append(layer)
            continue
        own = [steps[number] for number in layer.steps]
        cycles, moved = sum(step.cycles for step in own), sum(step.bytes_moved for step in own)
        flash = layer.limit.work.outside_bytes.get(FLASH, 0) if layer.limit else 0
        by_flash = layer.macs / flash if flash else 0.0
        dots.append(Dot(layer, layer.macs / max(1, moved), by_flash, layer.macs / max(1, cycles)))
    rates = _bytes_per_cycle(machine), 1 / machine.flash_byte_cycles
    return Roofline(PEAK, *rates, tuple(dots), tuple(on_cpu))


def _bytes_per_cycle(machine: Machine) -> float:
    """Every bus interface moves a beat in each direction at a time."""
    timing = machine.timing
    return len(machine.engine_ports) * BUS_BYTES * (1 / timing.read_beat + 1 / timing.write_beat)


_MOST_FLOATS = 40
_MOST_FORMS = 12  # of one argument
_MOST_TEXT = 160  # of names, which models may make as long as they like


def network_data(network: NetworkView) -> dict[str, Any]:
    band = error_band(network)
    tensors = _tensors(network)
    places = {name: place for place, name in enumerate(tensors)}
    return {
        **{"name": cut(network.name), "model": cut(network.model)},
        **fields_of(network, "tool", "board", "npu_mhz", "cpu_mhz"),
        "pending": network.basis == UNBUILT,
        "tiles": [[one.name, one.value, one.said] for one in tiles(network)],
        "more": [[one.name, one.value] for one in more_figures(network)],
        "actions": [[cut(one.what), one.gain, cut(one.layer)] for one in best_actions(network)],
        "totals": {
            "latency_ms": network.latency_ms,
            "cycles": network.cycles,
            "macs": network.macs,
            "ram": network.memory.ram_bytes,
            "ram_by_use": {str(use): size for use, size in network.memory.ram_by_use.items()},
            "activations": network.memory.activations_bytes,
            "weights": network.memory.weights_bytes,
            "code_constants": network.memory.code_constants_bytes,
            "flash": network.memory.flash_bytes,
            "spilled": network.memory.spilled_bytes,
            "lower_bound": network.lower_bound_bytes,
            "npu": network.count(NPU),
            "cpu": network.count(CPU),
            "hybrid": network.count(HYBRID),
            **parts.energy_data(network.energy),
            "low_ms": band.around(network.latency_ms)[0],
            "high_ms": band.around(network.latency_ms)[1],
            "st_cycles": network.st_cycles,
        },
        "tensors": [_tensor(one) for one in tensors.values()],
        "states": [fields_of(one, "name", "address", "size_bytes", "pool", "first") for one in network.states],
        "inputs": [places[one.name] for one in network.inputs],
        "outputs": [places[one.name] for one in network.outputs],
        "verified": _verified(network.verified) if network.verified else None,
        "rules": {one.rule.id: one.rule.sentence for layer in network.layers for one in layer.decisions},
        "graph": graph_data(network, places),
        "advised": bool(network.advice),
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
            fields_of(pool, "name", "base", "size=size_bytes", "used=used_bytes", "external") for pool in network.pools
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
        [group.title + allows.get(group.title, ""), parts.said_share(group.share), _forms(group)]
        for group in parts.groups(found)
    ]
    strength = ". ".join((parts.strength(found), *parts.interleaved(found)))
    return {"head": parts.grade_text(found), "strength": strength, "groups": groups}


def _measured(found: Measured) -> dict[str, Any]:
    return {
        "source": cut(found.source),
        "ms": found.total_ms,
        "blocks": [
            {
                **fields_of(block, "first", "last"),
                "parts": [block.before, block.core, block.after],
                **fields_of(block, "ms=measured_ms", "predicted_ms", "cycles=npu_cycles", "predicted=predicted_cycles"),
            }
            for block in found.blocks
        ],
    }


def _forms(group: parts.Group) -> list[str]:
    return [cut(parts.form_line(form)) for form in group.forms[:_MOST_FORMS]]


def _step(step: StepView) -> dict[str, Any]:
    return {
        **fields_of(step, "n=number", "on"),
        "title": cut(step.title),
        "layer": cut(step.layer),
        **fields_of(step, "cycles", "ms=milliseconds", "st=st_cycles", "bound=bound_by", "known"),
        "parts": {key: round(value) for key, value in step.parts.items() if value >= 1},
        **fields_of(step, "chains", "modes", "links", "units", "bytes=bytes_moved"),
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
    """Percentages are of stored integers: of an output in real values, its largest error beside its range is left."""
    said = found.errors or [f"max error {largest:g} LSB" for *_, largest in found.outputs]  # builds of before tell less
    rows = []
    for (name, cosine, exact, close, _), error in zip(found.outputs, said, strict=True):
        codes = f"{exact:.2f} % of the values exact, {close:.2f} % within 1 LSB, " if error.endswith("LSB") else ""
        rows.append([cut(name), f"cosine {cosine:.6f}, {codes}{error}"])
    counts = {"samples": found.samples, "layers": found.layers, "tensors": found.tensors}
    worst = found.worst_text or f"max error {found.worst_codes:g} LSB"
    return counts | {"worst": worst, "sums": cut(found.sums), "outputs": rows}


def _buffer(buffer: BufferView, names: tuple[str, ...]) -> dict[str, Any]:
    """`also`: the other names of the same memory."""
    return {
        "name": cut(buffer.name),
        **fields_of(buffer, "pool", "a=address", "size=size_bytes", "first", "last", "kind"),
        "layer": cut(buffer.layer),
        "also": [cut(name) for name in names],
    }


def cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"
