"""What `atonc compare` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atonc.compiler.compile.reproduce import MODEL_HASH
from atonc.insight.explain.compare import ENERGY, MICROJOULES, TIMES, ComparedFigure, Comparison, said
from atonc.insight.explain.live import live_bytes
from atonc.insight.explain.types import PREDICTED, LayerView, NetworkView, error_band
from atonc.insight.report import columns, parts
from atonc.insight.report.columns import rows
from atonc.insight.report.document import Mark, SummaryRow, summary_lines
from atonc.insight.report.html.network import cut
from atonc.machine.base.words import count, elided

_MOST = 10
LONG_NAME = 44


def lines(found: Comparison, verbose: bool) -> list[str]:
    out = [
        f"A: {found.a.model}, {found.a.tool}, {found.a.clocks}",
        f"B: {found.b.model}, {found.b.tool}, {found.b.clocks}",
        *(f"warning: {warning}" for warning in found.warnings),
        *asked_lines(found),
        *(f"note on {side}: {note}" for side, view in (("A", found.a), ("B", found.b)) for note in view.notes),
        "",
        f"{'':26}{'A':>16}{'B':>16}{'B / A':>9}",
        *(_row(figure) for figure in found.figures),
        *_band_lines(found, verbose),
    ]
    out += _output_lines(found)
    pairs = found.layers if verbose else [pair for pair in found.layers if pair.difference][:_MOST]
    if pairs:
        title = count(len(pairs), "pair") if verbose else f"the {len(pairs)} pairs of layers that differ most"
        out += ["", f"{title}, paired by {found.paired_by} (milliseconds)", f"{'A':>10}{'B':>10}{'B - A':>10}  layer"]
        for pair in pairs:
            places = f" [{place(pair.a)} / {place(pair.b)}]" if place(pair.a) != place(pair.b) else ""
            names = dict.fromkeys((side_name(pair.a), side_name(pair.b)))
            out.append(f"{pair.a_ms:10.4f}{pair.b_ms:10.4f}{pair.difference:+10.4f}  {' / '.join(names)}{places}")
    return [*out, *pairing_lines(found), *_summary(found)]


def _summary(found: Comparison) -> list[str]:
    figures = {figure.name: figure for figure in found.figures}
    shown = ("latency", ENERGY, "RAM", "weights", "epochs on the CPU")
    rows = [_summary_row(figures[name]) for name in shown if name in figures]
    if found.outputs:
        worst = min(output.cosine for output in found.outputs)
        rows.append(SummaryRow("outputs", f"cosine {worst:.6f} or more between A and B, both emulated"))
    if found.warnings:
        rows.append(SummaryRow("warning", "A and B may be of different models", Mark.ALARM))
    return summary_lines(rows)


def _summary_row(figure: ComparedFigure) -> SummaryRow:
    """What it is worth follows from its ratio: less is better for all of them."""
    a, b = _shown(figure)
    label = {"epochs on the CPU": "on the CPU", ENERGY: "energy"}.get(figure.name, figure.name)
    unit = f" {figure.unit}" if figure.unit else ""
    if figure.a == figure.b:
        return SummaryRow(label, f"{b}{unit} in both")
    if figure.ratio is None:
        return SummaryRow(label, f"B {b}{unit}, A {a}{unit}")
    mark = Mark.GOOD if figure.ratio < 1 else Mark.DOUBT
    return SummaryRow(label, f"B {b}{unit}, A {a}{unit}: {100 * (figure.ratio - 1):+.1f} %", mark)


def _band_lines(found: Comparison, verbose: bool) -> list[str]:
    """How far each predicted latency may be off. Two programs of one compiler mostly err alike."""
    bands = [(side, view, error_band(view)) for side, view in (("A", found.a), ("B", found.b))]
    return [
        f"latency of {side} may be {band.span(view.latency_ms, 3)}" + (f" ({band})" if verbose else "")
        for side, view, band in bands
        if view.basis == PREDICTED
    ]


def asked_lines(found: Comparison) -> list[str]:
    """Options that differ."""
    if found.asked is None:
        return []
    return [f"asked otherwise: {one}" for one in found.asked] or ["asked otherwise: nothing, the same options"]


def pairing_lines(found: Comparison) -> list[str]:
    """How much of each build has a partner."""
    out = []
    for letter, view, pairs, alone in zip("AB", (found.a, found.b), found.paired, found.alone, strict=True):
        whole = sum(layer.milliseconds for layer in view.layers)  # of layers side by side more than the latency
        share = 100 * sum(layer.milliseconds for layer in alone) / (whole or 1.0)
        text = f"{pairs} of {count(pairs + len(alone), 'layer')} of {letter} have a partner"
        out.append(text + (f"; those without take {share:.1f} % of its time" if alone else ""))
    return out


def place(side: Sequence[LayerView]) -> str:
    return " + ".join(dict.fromkeys(layer.on for layer in side))


def side_name(side: Sequence[LayerView]) -> str:
    """The layers of one side of a pair: the first by its name, the others by their number."""
    more = f" and {len(side) - 1} more" if len(side) > 1 else ""
    return f"{_short(side[0].name)}{more}" if side else "none"


def _output_lines(found: Comparison) -> list[str]:
    if not found.outputs:
        return []
    head = "outputs for the same inputs, both emulated (a step: the coarser of both quantisations)"
    rows = [
        f"  cosine {o.cosine:.6f}, exact {o.exact_percent:.2f} %, within one step {o.within1_percent:.2f} %, "
        f"largest difference {o.largest:.4g}: {_short(o.a)}" + (f" / {_short(o.b)}" if o.a != o.b else "")
        for o in found.outputs
    ]
    return ["", head, *rows]


def _short(name: str) -> str:
    return elided(name, LONG_NAME)


def _shown(figure: ComparedFigure) -> tuple[str, str]:
    digits = {"ms": 3, TIMES: 2, MICROJOULES: 1}.get(figure.unit, 0)
    return f"{figure.a:,.{digits}f}", f"{figure.b:,.{digits}f}"


def _row(figure: ComparedFigure) -> str:
    shown = _shown(figure)
    ratio = "" if figure.ratio is None else f"{figure.ratio:.3f}"
    name = f"{figure.name} ({figure.unit})" if figure.unit else figure.name
    return f"{name:26}{shown[0]:>16}{shown[1]:>16}{ratio:>9}"


def side(view: NetworkView) -> dict[str, Any]:
    clocks = {"npu_mhz": view.npu_mhz, "cpu_mhz": view.cpu_mhz}
    band = error_band(view).as_data(view.latency_ms) if view.basis == PREDICTED else {}
    names = {"model": view.model, "model_sha256": view.reproduce.get(MODEL_HASH), "tool": view.tool, "clocks": clocks}
    outputs = [{"name": name, "cos": cosine} for name, cosine, *_ in view.verified.outputs] if view.verified else []
    verify = {"outputs": outputs} if view.verified else None
    energy = parts.energy_data(view.energy)
    return {**names, "latency_ms": view.latency_ms, **band, **energy, "memory": view.memory.as_dict(), "verify": verify}


def as_json(found: Comparison) -> dict[str, Any]:
    return {
        "a": side(found.a),
        "b": side(found.b),
        "same_model": found.same_model,
        "warnings": list(found.warnings),
        "options": None if found.asked is None else [{"option": o.option, "a": o.a, "b": o.b} for o in found.asked],
        "figures": [{"name": f.name, "a": f.a, "b": f.b, "unit": f.unit, "ratio": f.ratio} for f in found.figures],
        "layers": [
            {
                "nodes": list(pair.nodes),
                "a": [layer.name for layer in pair.a],
                "b": [layer.name for layer in pair.b],
                "a_ms": pair.a_ms,
                "b_ms": pair.b_ms,
                **columns.sums(pair.a, "a_"),
                **columns.sums(pair.b, "b_"),
                "a_on": place(pair.a),
                "b_on": place(pair.b),
            }
            for pair in found.layers
        ],
        "paired_by": found.paired_by,
        "paired": {"a": found.paired[0], "b": found.paired[1]},
        "unmatched": found.unmatched,
        "outputs": [
            {
                "a": o.a,
                "b": o.b,
                "elements": o.elements,
                "cos": o.cosine,
                "exact_pct": o.exact_percent,
                "within1_pct": o.within1_percent,
                "largest": o.largest,
            }
            for o in found.outputs
        ],
    }


def comparison_data(found: Comparison) -> dict[str, Any]:
    sides = [_side_data(view) for view in (found.a, found.b)]
    places = [{id(layer): place for place, layer in enumerate(view.layers)} for view in (found.a, found.b)]
    return {
        "sides": sides,
        "figures": [[f.name, f.a, f.b, f.unit, f.ratio] for f in found.figures],
        "warnings": list(found.warnings),
        "differ": [[one.option, said(one.a), said(one.b)] for one in found.differ],
        "says": [] if found.asked is not None else ["a build does not tell its options"],
        "paired_by": found.paired_by,
        "pairing": pairing_lines(found),
        "pairs": [
            [[places[0][id(layer)] for layer in pair.a], [places[1][id(layer)] for layer in pair.b]]
            for pair in found.layers
        ],
        "alone": [[places[k][id(layer)] for layer in side] for k, side in enumerate(found.alone)],
        "outputs": [
            [cut(o.a), cut(o.b), o.cosine, o.exact_percent, o.within1_percent, o.largest] for o in found.outputs
        ],
    }


def _side_data(view: NetworkView) -> dict[str, Any]:
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
        "layers": [_layer_data(layer) for layer in view.layers],
        "steps": [[s.number, round(s.milliseconds, 6), s.on, s.bound_by, places.get(s.layer, -1)] for s in view.steps],
        "live": list(live_bytes(view).values()),
    }


def _layer_data(layer: LayerView) -> dict[str, Any]:
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
