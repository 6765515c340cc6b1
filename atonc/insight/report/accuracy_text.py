"""The report of accuracy as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from atonc.insight.explain.types import KINDS, AccuracyReport, LayerNoise, LossFinding, Remedy
from atonc.insight.report.document import Block, Chapter, Column, Document, Mark, Marked, Note, Table
from atonc.machine.base.errors import sentence
from atonc.machine.base.words import count

LOSSLESS = "lossless"  # no noise at all, in JSON too: infinity is no number there
_MOST_LAYERS, _NAME = 16, 40


def as_json(report: AccuracyReport) -> dict[str, Any]:
    outputs = [
        {"name": name, "quantised_db": _number(quantised), "npu_db": _number(npu)}
        for name, quantised, npu in report.outputs
    ]
    return {**_plain(asdict(report)), "verdict": report.verdict, "outputs": outputs}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | str:
    """Finite, or in a word."""
    return round(value, 6) if isfinite(value) else LOSSLESS if value > 0 else -999.0


def document(report: AccuracyReport, verbose: bool = False) -> Document:
    against = report.float_model or "its own numbers without rounding"
    made = " (synthetic: give --input)" if report.synthetic else ""
    band = " ({:.3f} to {:.3f})".format(*report.latency_span_ms) if report.latency_span_ms else ""
    time = f"{report.latency_ms:.3f} ms predicted{band}"
    said: list[Block] = [f"{report.model} against {against}, {count(report.samples, 'sample')}{made}, {time}"]
    for name, exact, npu in report.outputs:
        said.append(f"output {name}: {_db(exact)} as int8 in exact arithmetic, {_db(npu)} on the NPU")
    said += map(Note, report.notes)
    said += [report.verdict] if report.verdict else []
    shown = enumerate(report.findings if verbose else report.findings[:3], 1)
    findings = [line for number, finding in shown for line in _finding(number, finding)]
    title = "what costs most: signal to noise of the outputs if this were the only loss"
    sections = [Chapter("", said), Chapter(title, findings), _layers(report, verbose)]
    return Document(sections=sections, data=lambda: {"accuracy": as_json(report)})


def _finding(number: int, finding: LossFinding) -> list[str]:
    head = f"{number}. {finding.layer}, {finding.part}: {finding.symptom}, {_db(finding.outputs_db)}"
    remedies = sorted(map(_remedy, finding.remedies), key=lambda line: not isinstance(line, Marked))  # that help first
    return [head, f"   {sentence(finding.says)}", *remedies]


def _remedy(remedy: Remedy) -> str:
    if not remedy.tried or remedy.before_db is None or remedy.after_db is None:
        return f"   {remedy.what}: not possible: {remedy.why_not}"
    gained = f"{_db(remedy.before_db)} -> {_db(remedy.after_db)}"
    if remedy.after_db <= remedy.before_db:
        return f"   tried without gain: {remedy.what} ({gained})"
    price = remedy.price_ms
    cost = f", {price:+.3f} ms" if price is not None else f", {remedy.why_not}"
    return Marked(Mark.REMEDY, f"tried: {remedy.what}: {gained}{cost}", "   ")


def _layers(report: AccuracyReport, verbose: bool) -> Chapter:
    layers, title = list(report.layers), "layers"
    if not verbose and len(layers) > _MOST_LAYERS:
        noisy = sorted(layers, key=noisiest)[:_MOST_LAYERS]
        layers = [layer for layer in layers if layer in noisy]
        title = f"the {_MOST_LAYERS} noisiest layers (-v shows all)"

    def loss(place: int) -> Column[LayerNoise]:
        return Column(
            KINDS[place],
            lambda one: f"{short_db(one.alone[place])} / {short_db(one.accumulated[place])}",
            width=14,
        )

    columns = (
        Column[LayerNoise]("", lambda one: _elided(f"{one.name} ({one.kind})"), width=_NAME, left=True),
        *map(loss, range(len(KINDS))),
        Column[LayerNoise]("int8 so far", lambda one: short_db(one.quantised)),
    )
    table = Table(columns, layers, "Signal to noise by layer", titles=True, indent=0)
    return Chapter(f"{title}: dB alone / accumulated", [table])


def _elided(name: str) -> str:
    """Long names differ at their ends."""
    return name if len(name) < _NAME else f"{name[:8]}...{name[12 - _NAME :]}"


def noisiest(layer: LayerNoise) -> float:
    return min((value for value in layer.alone if value is not None), default=float("inf"))


def _db(value: float) -> str:
    return f"{value:.1f} dB" if isfinite(value) else LOSSLESS if value > 0 else "nothing left"


def short_db(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}" if isfinite(value) else "-" if value > 0 else "0"
