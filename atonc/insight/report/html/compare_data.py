"""Two builds as the JSON of their page: what each is, its layers and steps in short, which layers belong together."""

from __future__ import annotations

from typing import Any

from atonc.insight.explain.band import error_band
from atonc.insight.explain.compare import Comparison, said
from atonc.insight.explain.live import live_bytes
from atonc.insight.explain.types import LayerView, NetworkView
from atonc.insight.report import compare_text
from atonc.insight.report.columns import rows
from atonc.insight.report.html.data import cut


def comparison_data(found: Comparison) -> dict[str, Any]:
    sides = [_side(view) for view in (found.a, found.b)]
    places = [{id(layer): place for place, layer in enumerate(view.layers)} for view in (found.a, found.b)]
    return {
        "sides": sides,
        "figures": [[f.name, f.a, f.b, f.unit, f.ratio] for f in found.figures],
        "warnings": list(found.warnings),
        "differ": [[one.option, said(one.a), said(one.b)] for one in found.differ],
        "says": [] if found.asked is not None else ["a build does not tell its options"],
        "paired_by": found.paired_by,
        "pairing": compare_text.pairing_lines(found),
        "pairs": [
            [[places[0][id(layer)] for layer in pair.a], [places[1][id(layer)] for layer in pair.b]]
            for pair in found.layers
        ],
        "alone": [[places[k][id(layer)] for layer in side] for k, side in enumerate(found.alone)],
        "outputs": [
            [cut(o.a), cut(o.b), o.cosine, o.exact_percent, o.within1_percent, o.largest] for o in found.outputs
        ],
    }


def _side(view: NetworkView) -> dict[str, Any]:
    places = {layer.name: place for place, layer in enumerate(view.layers)}
    band = error_band(view)
    return {
        "model": cut(view.model),
        "tool": view.tool,
        "board": view.board,
        "npu_mhz": view.npu_mhz,
        "cpu_mhz": view.cpu_mhz,
        "basis": view.basis,
        "notes": [cut(note) for note in view.notes],
        "latency_ms": view.latency_ms,
        "low_ms": band.around(view.latency_ms)[0],
        "high_ms": band.around(view.latency_ms)[1],
        "layers": [_layer(layer) for layer in view.layers],
        "steps": [[s.number, round(s.milliseconds, 6), s.on, s.bound_by, places.get(s.layer, -1)] for s in view.steps],
        "live": list(live_bytes(view).values()),
    }


def _layer(layer: LayerView) -> dict[str, Any]:
    return {
        "name": cut(layer.name),
        "label": cut(layer.title),
        "on": layer.on,
        "epochs": list(layer.steps),
        "shape": list(layer.shape),
        "ms": layer.milliseconds,
        "figures": rows(layer),
        "bound": next(iter(layer.bound_by), ""),
        "rules": [[one.rule.id, one.seen] for one in layer.decisions],
    }
