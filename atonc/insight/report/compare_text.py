"""What `atonc compare` found: totals side by side, outputs for the same inputs, layers that belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from atonc.compiler.compile.reproduce import MODEL_HASH
from atonc.insight.explain.compare import (
    ENERGY,
    MICROJOULES,
    TIMES,
    ComparedFigure,
    Comparison,
    LayerPair,
    OutputAgreement,
    said,
)
from atonc.insight.explain.live import live_bytes
from atonc.insight.explain.types import PREDICTED, LayerView, NetworkView, error_band, span_of
from atonc.insight.report import columns
from atonc.insight.report import document as doc
from atonc.insight.report.columns import rows
from atonc.insight.report.html.network import cut
from atonc.insight.report.parts import energy_data
from atonc.machine.base.reasons import CheckResult
from atonc.machine.base.words import count, difference_text, elided, ms_text

_MOST = 10
LONG_NAME = 44
DIGITS = {"ms": 3, TIMES: 2, MICROJOULES: 1}  # of figures of these units
FIGURES = (
    doc.Column[ComparedFigure]("", lambda one: f"{one.name}{f' ({one.unit})' * bool(one.unit)}", width=26, left=True),
    doc.Column[ComparedFigure]("A", lambda one: _shown(one, one.a), width=14),
    doc.Column[ComparedFigure]("B", lambda one: _shown(one, one.b), width=14),
    doc.Column[ComparedFigure]("B / A", lambda one: one.ratio, "{:.3f}", width=7),
)
PAIRS = (
    doc.Column[LayerPair]("A", lambda pair: pair.a_ms, "{:.4f}", width=10),
    doc.Column[LayerPair]("B", lambda pair: pair.b_ms, "{:.4f}", width=8),
    doc.Column[LayerPair]("B - A", lambda pair: pair.difference, "{:+.4f}", width=8),
    doc.Column[LayerPair]("layer", lambda pair: _pair_name(pair), left=True),
)


def document(found: Comparison, verbose: bool = False, checks: Sequence[CheckResult] | None = None) -> doc.Document:
    views = (("A", found.a), ("B", found.b))
    asked = [f"options that differ: {one}" for one in found.asked or ()]
    if found.asked is not None and not asked:
        asked = ["options that differ: none"]
    told = [
        *(f"{side}: {view.model}, {view.tool}, {view.clocks}" for side, view in views),
        *(f"warning: {warning}" for warning in found.warnings),
        *asked,
        *(f"note on {side}: {note}" for side, view in views for note in view.notes),
    ]
    # how far each predicted latency may be off; two programs of one compiler mostly err alike
    bands = [
        f"latency of {side} may be {error_band(view).span(view.latency_ms, 3)}"
        + (f" ({error_band(view)})" if verbose else "")
        for side, view in views
        if view.basis == PREDICTED
    ]
    sections = [
        doc.Chapter("", told),
        doc.Chapter("", [doc.Table(FIGURES, found.figures, titles=True, indent=0), *bands]),
    ]
    if found.outputs:
        title = "outputs for the same inputs, both emulated (a step: the coarser of both quantisations)"
        sections.append(doc.Chapter(title, list(map(_output_line, found.outputs))))
    pairs = found.layers if verbose else [pair for pair in found.layers if pair.difference][:_MOST]
    partners: list[doc.Block] = list(pairing_lines(found))
    if pairs:
        title = count(len(pairs), "pair") if verbose else f"the {len(pairs)} pairs of layers that differ most"
        table = doc.Table(PAIRS, pairs, titles=True, indent=0)
        sections.append(doc.Chapter(f"{title}, paired by {found.paired_by} (milliseconds)", [table, *partners]))
    else:
        sections[-1] = doc.Chapter(sections[-1].title, [*sections[-1].blocks, *partners])
    names = " and ".join(dict.fromkeys(doc.short_name(view.model) for _, view in views))
    sides = ", ".join(f"{side} {ms_text(view.latency_ms, 3)} {view.basis}{span_of(view, 3)}" for side, view in views)
    data = as_json(found)
    layers = [{**row, **{key: ", ".join(row[key]) for key in ("nodes", "a", "b")}} for row in data["layers"]]
    tables = {"figures": data["figures"], "layers": layers, "outputs": data["outputs"]}
    return doc.Document(
        f"two builds of {names}: {sides}",
        sections,
        list(_summary(found)),
        data=lambda: data,
        tables=tables | {"options": data["options"] or []},
        plot=doc.Timelines({side: view.steps for side, view in views}),
        checks=checks,
    )


def _summary(found: Comparison) -> Iterator[doc.SummaryRow]:
    """What a figure is worth follows from its ratio: less is better for all of them."""
    figures = {figure.name: figure for figure in found.figures}
    labels = {"latency": "latency", ENERGY: "energy", "RAM": "RAM", "flash": "flash"}
    for name, label in (labels | {"epochs on the CPU": "on the CPU"}).items():
        if (one := figures.get(name)) is None:
            continue
        unit = f" {one.unit}" if one.unit else ""
        a, b = f"{_shown(one, one.a)}{unit}", f"{_shown(one, one.b)}{unit}"
        if one.a == one.b:
            yield doc.SummaryRow(label, f"{b} in both")
        elif one.ratio is None:
            yield doc.SummaryRow(label, f"B {b}, A {a}")
        else:
            mark = doc.Mark.GOOD if one.ratio < 1 else doc.Mark.DOUBT
            yield doc.SummaryRow(label, f"B {b}, A {a}: {100 * (one.ratio - 1):+.1f} %", mark)
    if found.outputs:
        worst = min(output.cosine for output in found.outputs)
        yield doc.SummaryRow("outputs", f"cosine {worst:.6f} or more between A and B, both emulated")
    if found.warnings:
        yield doc.SummaryRow("warning", "A and B may be of different models", doc.Mark.ALARM)


def pairing_lines(found: Comparison) -> list[str]:
    """How much of each build has a partner."""
    out = []
    for letter, view, pairs, alone in zip("AB", (found.a, found.b), found.paired, found.alone, strict=True):
        whole = sum(layer.milliseconds for layer in view.layers)  # of layers side by side more than the latency
        share = 100 * sum(layer.milliseconds for layer in alone) / (whole or 1.0)
        text = f"{pairs} of {count(pairs + len(alone), 'layer')} of {letter} that take time have a partner"
        out.append(text + (f"; those without take {share:.1f} % of its time" if alone else ""))
    return out


def place(side: Sequence[LayerView]) -> str:
    return " + ".join(dict.fromkeys(layer.on for layer in side))


def side_name(side: Sequence[LayerView]) -> str:
    """The layers of one side of a pair: the first by its name, the others by their number."""
    more = f" and {len(side) - 1} more" if len(side) > 1 else ""
    return f"{elided(side[0].name, LONG_NAME)}{more}" if side else "none"


def _pair_name(pair: LayerPair) -> str:
    places = f" [{place(pair.a)} / {place(pair.b)}]" if place(pair.a) != place(pair.b) else ""
    return " / ".join(dict.fromkeys((side_name(pair.a), side_name(pair.b)))) + places


def _output_line(one: OutputAgreement) -> str:
    names = " / ".join(elided(name, LONG_NAME) for name in dict.fromkeys((one.a, one.b)))
    return (
        f"  cosine {one.cosine:.6f}, exact {one.exact_percent:.2f} %, within one step {one.within1_percent:.2f} %, "
        f"largest difference {difference_text(one.largest, one.span)}: {names}"
    )


def _shown(figure: ComparedFigure, value: float) -> str:
    return f"{value:,.{DIGITS.get(figure.unit, 0)}f}"


# --------------------------------------------------------------------------------------------------------------- data


def side(view: NetworkView) -> dict[str, Any]:
    outputs = [{"name": name, "cos": cosine} for name, cosine, *_ in view.verified.outputs] if view.verified else []
    return {
        "model": view.model,
        "model_sha256": view.reproduce.get(MODEL_HASH),
        "tool": view.tool,
        "clocks": doc.fields_of(view, "npu_mhz", "cpu_mhz"),
        "latency_ms": view.latency_ms,
        **(error_band(view).as_data(view.latency_ms) if view.basis == PREDICTED else {}),
        **energy_data(view.energy),
        "memory": view.memory.as_dict(),
        "notes": list(view.notes),
        "verify": {"outputs": outputs} if view.verified else None,
    }


def as_json(found: Comparison) -> dict[str, Any]:
    layers = [
        {
            "nodes": list(pair.nodes),
            "a": [layer.name for layer in pair.a],
            "b": [layer.name for layer in pair.b],
            **doc.fields_of(pair, "a_ms", "b_ms"),
            **columns.sums(pair.a, "a_"),
            **columns.sums(pair.b, "b_"),
            "a_on": place(pair.a),
            "b_on": place(pair.b),
        }
        for pair in found.layers
    ]
    names = ("a", "b", "elements", "cos=cosine", "exact_pct=exact_percent", "within1_pct=within1_percent")
    return {
        "a": side(found.a),
        "b": side(found.b),
        "same_model": found.same_model,
        "warnings": list(found.warnings),
        "options": None if found.asked is None else [doc.fields_of(one, "option", "a", "b") for one in found.asked],
        "figures": [doc.fields_of(one, "name", "a", "b", "unit", "ratio") for one in found.figures],
        "layers": layers,
        "paired_by": found.paired_by,
        "paired": {"a": found.paired[0], "b": found.paired[1]},
        "unmatched": found.unmatched,
        "outputs": [doc.fields_of(one, *names, "largest", "range=span") for one in found.outputs],
    }


def comparison_data(found: Comparison) -> dict[str, Any]:
    """The JSON of the page: what each build is, its layers and steps in short, which layers belong together."""
    places = [{id(layer): place for place, layer in enumerate(view.layers)} for view in (found.a, found.b)]
    pairs = [
        [[places[0][id(layer)] for layer in pair.a], [places[1][id(layer)] for layer in pair.b]]
        for pair in found.layers
    ]
    return {
        "sides": [_side_data(view) for view in (found.a, found.b)],
        "figures": [[column.title for column in FIGURES], *([c.text(one) for c in FIGURES] for one in found.figures)],
        "warnings": list(found.warnings),
        "differ": [[one.option, said(one.a), said(one.b)] for one in found.differ],
        "says": [] if found.asked is not None else ["a build does not tell its options"],
        "paired_by": found.paired_by,
        "pairing": pairing_lines(found),
        "pairs": pairs,
        "alone": [[places[k][id(layer)] for layer in side] for k, side in enumerate(found.alone)],
        "outputs": [
            [cut(o.a), o.cosine, o.exact_percent, o.within1_percent, difference_text(o.largest, o.span)]
            for o in found.outputs
        ],
    }


def _side_data(view: NetworkView) -> dict[str, Any]:
    places = {layer.name: place for place, layer in enumerate(view.layers)}
    low, high = error_band(view).around(view.latency_ms)
    layers = [
        {
            "name": cut(layer.name),
            "label": cut(layer.title),
            **doc.fields_of(layer, "on", "epochs=steps", "shape", "ms=milliseconds"),
            "figures": rows(layer),
            "bound": next(iter(layer.bound_by), ""),
            "rules": [[one.rule.id, one.seen] for one in layer.decisions],
        }
        for layer in view.layers
    ]
    return {
        "model": cut(view.model),
        **doc.fields_of(view, "tool", "board", "npu_mhz", "cpu_mhz", "basis"),
        "notes": [cut(note) for note in view.notes],
        "latency_ms": view.latency_ms,
        "low_ms": low,
        "high_ms": high,
        "layers": layers,
        "steps": [[s.number, round(s.milliseconds, 6), s.on, s.bound_by, places.get(s.layer, -1)] for s in view.steps],
        "live": list(live_bytes(view).values()),
    }
