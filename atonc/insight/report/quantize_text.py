"""What `atonc quantize` found: signal to noise by step and output, the fronts of accuracy against time and flash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from atonc.insight.explain.types import KINDS, AccuracyReport, LayerNoise
from atonc.insight.quantizing.judge import POOR_DB
from atonc.insight.quantizing.types import (
    OutputAccuracy,
    PrecisionPoint,
    Quantised,
    QuantizationStep,
    QuantizedCandidate,
    TensorPrecision,
    WidePoint,
)
from atonc.insight.report import document as doc
from atonc.insight.report.accuracy_text import noisiest, short_db
from atonc.insight.report.evaluate_text import FIGURES, SIGNED, figure_text
from atonc.insight.report.html.page import document_page
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, shell

MOST_NAMES = 4  # of tensors in a line
CHOSEN = " (chosen)"
UNSURE = " (may be chance)"  # on these samples; so it is not chosen unless speed alone counts
CLIPPED = "({0.clipped:,} of {0.values:,} values clipped)"
GAIN = "{0[0]:+.2f} to {0[1]:+.2f}"

NEW = doc.Column[Any]("95 % of new samples", lambda row: row.interval_db, "({0[0]:.2f} to {0[1]:.2f})", width=16)

STEPS = (
    doc.Column[QuantizationStep]("dB", lambda step: step.snr_db, "{:.2f}", width=7),
    NEW,
    doc.Column[QuantizationStep]("gain (95 % CI)", lambda step: step.gain_db, GAIN, width=16, left=True),
    doc.Column[QuantizationStep]("step", lambda step: f"{step.name}{'' if step.kept else ' (not kept)'}", left=True),
)
FRONT = (
    doc.Column[QuantizedCandidate]("signal to noise", lambda way: way.snr_db, "{:.2f} dB", width=10),
    NEW,
    doc.Column[QuantizedCandidate]("predicted", lambda way: time_text(way), width=10),
    doc.Column[QuantizedCandidate](
        "way", lambda way: f"{way.name}{UNSURE * (not way.sound)}{CHOSEN * way.chosen}", left=True
    ),
)
OUTPUTS = (
    doc.Column[OutputAccuracy]("signal to noise", lambda row: row.snr_db, "{:.2f} dB", width=10),
    NEW,
    doc.Column[OutputAccuracy]("output", lambda row: row.name, left=True),
    doc.Column[OutputAccuracy]("clipped", lambda row: None if row.clipped is None else row, CLIPPED, left=True),
)
SIZES = (
    doc.Column[PrecisionPoint]("signal to noise", lambda point: point.snr_db, "{:.2f} dB", width=10),
    NEW,
    doc.Column[PrecisionPoint]("bytes of flash", lambda point: point.flash_bytes, "{:,} bytes", width=18),
    doc.Column[PrecisionPoint]("weights", lambda point: f"{point_text(point)}{CHOSEN * point.chosen}", left=True),
)
TENSORS = (
    doc.Column[TensorPrecision]("bits", lambda one: one.bits),
    doc.Column[TensorPrecision]("bytes", lambda one: one.size_bytes, "{:,}", width=10),
    doc.Column[TensorPrecision]("signal to noise of the weights", lambda one: one.snr_db, "{:.1f} dB", width=9),
    doc.Column[TensorPrecision]("lost with 4 bits alone", lambda one: one.alone_db, "{:.2f} dB", width=9),
    doc.Column[TensorPrecision](
        "tensor (why 8 bits)", lambda one: f"{one.tensor}{f'  ({one.reason})' if one.reason else ''}", left=True
    ),
)


def document(result: Quantised, file: str, verbose: bool = False, page: str = "") -> doc.Document:
    """`file`: the int8 model; `page`: where the page is written."""
    sections = [doc.Chapter("", [_said(result, file)], doc.Only.TEXT), *_sections(result, verbose)]
    chosen = result.chosen
    worst = min(result.outputs, key=lambda one: one.snr_db)
    predicted = "refused by the compiler" if chosen.milliseconds is None else f"{time_text(chosen)} predicted"
    return doc.Document(
        f"{doc.short_name(result.source)} as int8: {worst.snr_db:.1f} dB in the worst output, {predicted}",
        sections,
        list(_summary(result, worst, file, page)),
        f"{result.source}: quantised",
        f"{result.split.capitalize()}. Milliseconds are predicted.",
        data=lambda: {**as_json(result), "file": file},
        tables=_tables(result),
        plot=_front_plot(result),
    )


@dataclass(frozen=True)
class QuantizePageParts:
    """What a page says more than the quantiser."""

    origin: Mapping[str, str]  # names, hashes, versions, date
    layers: AccuracyReport | None = None
    why_no_layers: str = ""
    files: Mapping[str, str] | None = None  # beside the page, by what they are


def page(result: Quantised, more: QuantizePageParts) -> bytes:
    found = document(result, "", verbose=True)
    return document_page(replace(found, sections=[*found.sections, *_more_sections(more)]))


def _more_sections(more: QuantizePageParts) -> Iterator[doc.Chapter]:
    yield doc.Chapter("Reports and files", [doc.Links(more.files or {})])
    layers: list[doc.Block] = []
    if more.layers is not None:
        hint = (
            f"Signal to noise against float in dB, on {count(more.layers.samples, 'sample')} that judged: what the "
            "weights of a layer, the codes of its result and the arithmetic of the NPU lose alone, and everything up "
            "to there in int8. The noisiest first; - loses nothing, ? is not known."
        )

        def loss(kind: str) -> doc.Column[LayerNoise]:
            return doc.Column(kind, lambda one: short_db(one.alone[KINDS.index(kind)]))

        columns = (
            doc.Column[LayerNoise]("layer", lambda one: one.name, left=True),
            doc.Column[LayerNoise]("operator", lambda one: one.kind, left=True),
            *map(loss, KINDS),
            doc.Column[LayerNoise]("int8 so far", lambda one: short_db(one.quantised)),
        )
        noisy = sorted(more.layers.layers, key=noisiest)
        layers = [doc.Note(hint, hint=True), doc.Table(columns, noisy, "Signal to noise by layer")]
        layers += map(doc.Note, more.layers.notes)
    elif more.why_no_layers:
        layers = [doc.Note(f"What each layer loses is not known: {more.why_no_layers}.")]
    yield doc.Chapter("Layers", layers)
    yield doc.Chapter("What was quantised", [doc.Terms(more.origin)])


def _said(result: Quantised, file: str) -> str:
    kind = "int8, some weights of 4 bits," if any(tensor.bits == 4 for tensor in result.tensors) else "int8"
    kind = "int8, some activations of 16 bits," if result.wide else kind
    return doc.head("model ", f"{result.source}: {kind} in {file} ({result.split})")


def _sections(result: Quantised, verbose: bool) -> Iterator[doc.Chapter]:
    steps = [step for step in result.steps if verbose or step.kept]
    what = "signal to noise against float in dB, mean over samples and outputs (before a last sigmoid or softmax)"
    title = f"{what}; 95 % interval for as many new samples; gain of each step with its 95 % CI"
    yield doc.Chapter(title, [doc.Table(STEPS, steps, "Steps")])
    plot, front = _front_plot(result), doc.Table(FRONT, result.front, "Ways to quantise", numbered=True)
    yield doc.Chapter("accuracy against predicted time", [plot, front] if plot else [front])
    if result.sizes:
        dots = [
            doc.ScatterDot(
                str(number), one.flash_bytes, one.snr_db, f"{point_text(one)}: {one.snr_db:.2f} dB", one.chosen
            )
            for number, one in enumerate(result.sizes, 1)
        ]
        sizes = doc.Table(SIZES, result.sizes, "Choices of bits, each measured", numbered=True)
        title = "accuracy against flash, weights of 4 bits two to a byte (against 8 bits, 95 % CI)"
        yield doc.Chapter(title, [doc.Scatter(dots, "flash (bytes)", "signal to noise (dB)"), sizes])
    if result.sizes and verbose:
        lost = "what the outputs lose if it alone has 4 bits"
        yield doc.Chapter(
            f"weights by tensor: bits, bytes, their own signal to noise, {lost}",
            [doc.Table(TENSORS, result.tensors, "Weights by tensor")],
        )
    if result.widths:
        points = [point for point in result.widths if verbose or point.kept]
        columns = (
            doc.Column[WidePoint]("signal to noise of the worst", lambda one: one.worst_db, "{:.2f} dB", width=10),
            doc.Column[WidePoint]("predicted (price)", lambda one: one, "{0.milliseconds:.3f} ms ({0.price_ms:+.3f})"),
            doc.Column[WidePoint]("tensors", lambda one: width_text(one, verbose), left=True),
        )
        worst = "the worst of outputs, their parts and what a last sigmoid or softmax reads"
        title = f"activations of 16 bits: {worst}, and the price of each step (gain over the step before, 95 % CI)"
        widened = doc.Table(columns, points, "Steps of widening, each measured in the chip's arithmetic")
        yield doc.Chapter(
            title, [widened, *map(edges_text, [one for one in points if one.chosen and one.edges_saved_by])]
        )
    if result.task:
        flat = [(by, one) for by, figures in result.task.items() for one in figures]
        rows = [(by, one, (SIGNED.format if by == "difference" else figure_text)(one)) for by, one in flat]
        yield doc.Chapter("by the labels (95 % CI)", [doc.Table(FIGURES, rows, "Figures by the labels")])
    blocks: list[doc.Block] = [doc.Table(OUTPUTS, result.outputs, "Outputs")]
    if result.float_nodes:
        shown = result.float_nodes if verbose else result.float_nodes[:MOST_NAMES]
        more = " ..." if len(result.float_nodes) > len(shown) else ""
        blocks.append(f"without an int8 alternative, or better in float: {', '.join(shown)}{more}")
    if result.clipped_inside and verbose:
        most = result.clipped_inside[:MOST_NAMES]
        shares = ", ".join(f"{one.name} {100 * one.clipped / one.values:.2g} %" for one in most)
        blocks.append(f"inside, values are clipped in {count(len(result.clipped_inside), 'tensor')}: {shares}")
    yield doc.Chapter("outputs, each by itself", [*blocks, *(doc.Note(text, hint=True) for text in result.notes)])


def _front_plot(result: Quantised) -> doc.Scatter | None:
    """Milliseconds to the right, decibels upwards; numbers as in the table."""
    dots = [
        doc.ScatterDot(str(number), c.milliseconds, c.snr_db, f"{c.name}: {c.snr_db:.2f} dB, {time_text(c)}", c.chosen)
        for number, c in enumerate(result.front, 1)
        if c.milliseconds is not None
    ]
    return doc.Scatter(dots, "predicted latency (ms)", "signal to noise (dB)") if dots else None


def edges_text(point: WidePoint) -> str:
    """What integers at the edges would save."""
    saved = f"{point.edges_saved_by} leaves them to an application that has integers"
    return (
        f"of {point.milliseconds:.3f} ms, {point.edges_ms:.3f} are conversions from and to float at the edges; {saved}"
    )


def width_text(point: WidePoint, every: bool = True) -> str:
    """Which tensors, how sure the gain is, what leaves the NPU by it, and whether it was taken."""
    became = f"{'' if point.kept else ' (not kept)'}{CHOSEN * point.chosen}"
    if not point.tensors:
        return f"8 bits everywhere{became}"
    shown = point.tensors if every else point.tensors[:MOST_NAMES]
    more = len(point.tensors) - len(shown)
    names = ", ".join(shown) + (f" and {more} more" if more else "")
    slow = f"; on the CPU now: {', '.join(point.on_cpu)}" if point.on_cpu else ""
    low, high = point.gain_db
    return f"16 bits in {names} ({low:+.2f} to {high:+.2f} dB){slow}{became}"


def point_text(point: PrecisionPoint) -> str:
    """Which layers, and how sure the loss is."""
    changed = "" if point.changed is None else f", first class of {100 * point.changed:.1f} % of the samples changed"
    if not point.layers:
        return f"8 bits everywhere{changed}"
    gain = "{:+.2f} to {:+.2f}".format(*point.gain_db)
    where = f"4 bits in {count(point.layers, 'layer')}, {100 * point.share:.1f} % of the weights"
    return f"{where} ({gain} dB){changed}"


def time_text(candidate: QuantizedCandidate) -> str:
    if candidate.milliseconds is None:
        return "refused"
    span = " ({:.3f} to {:.3f})".format(*candidate.span_ms) if candidate.span_ms else ""
    return f"{candidate.milliseconds:.3f} ms{span}"


def _summary(result: Quantised, worst: OutputAccuracy, file: str, page: str) -> Iterator[doc.SummaryRow]:
    refused, poor = result.chosen.refusal, worst.snr_db < POOR_DB
    span = "{:.1f} to {:.1f}".format(*worst.interval_db)
    accuracy = f"{worst.snr_db:.1f} dB signal to noise against float, in the worst output ({span} on new samples, 95 %)"
    yield doc.SummaryRow("accuracy", accuracy, doc.Mark.ALARM if poor else None)
    for one in result.task.get("difference", [])[:1]:
        first = result.task["quantised"][0].value
        yield doc.SummaryRow(one.name, f"{first:.4f}, against float {SIGNED.format(one)}, 95 % CI")
    if point := next((point for point in result.sizes if point.chosen), None):
        whole = max(point.flash_bytes for point in result.sizes)
        saved = f"{whole - point.flash_bytes:,} fewer than with 8 bits" if point.layers else "as with 8 bits"
        yield doc.SummaryRow("flash", f"{point.flash_bytes:,} bytes, {saved} (where 4 bits stay packed)")
    if refused:
        yield doc.SummaryRow("refused", f"the compiler refuses the model: {refused}", doc.Mark.ALARM)
    else:
        yield doc.SummaryRow("latency", f"{time_text(result.chosen)} predicted")
    yield doc.SummaryRow("written", file)
    if page:
        yield doc.SummaryRow("page", page)
    if poor:
        yield doc.next_row("see the notes on the outputs")
    elif not refused:
        states = ("--state", ",".join(result.states)) if result.states else ()
        yield doc.next_row(shell("generate", file, *states))


def as_json(result: Quantised) -> dict[str, Any]:
    return {
        "model": result.source,
        "samples": result.samples,
        "held_samples": result.held_samples,
        "split": result.split,
        "outputs": {name: round(snr, 3) for name, snr in result.outputs_db.items()},
        "accuracy": [output.as_dict() for output in result.outputs],
        "clipped_inside": [tensor.as_dict() for tensor in result.clipped_inside],
        "task": {by: [figure.as_dict() for figure in figures] for by, figures in result.task.items()},
        "steps": [step.as_dict() for step in result.steps],
        "front": [candidate.as_dict() for candidate in result.front],
        "float_nodes": list(result.float_nodes),
        "notes": list(result.notes),
        "tail": result.tail.as_dict() if result.tail else None,
        "states": list(result.states),
        "sizes": [point.as_dict() for point in result.sizes],
        "tensors": [tensor.as_dict() for tensor in result.tensors],
        "widths": [point.as_dict() for point in result.widths],
    }


def _tables(result: Quantised) -> dict[str, list[dict[str, Any]]]:
    found = as_json(result)
    names = (["sizes", "tensors"] if result.sizes else []) + (["widths"] if result.widths else [])
    return {"front": found["front"], "steps": found["steps"], "outputs": found["accuracy"]} | {
        n: found[n] for n in names
    }
