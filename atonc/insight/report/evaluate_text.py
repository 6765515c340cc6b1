"""What `atonc evaluate` found, for people."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from atonc.insight.evaluating.datasets import DatasetEntry
from atonc.insight.evaluating.metrics.curves import RecallCurve
from atonc.insight.evaluating.metrics.detection import Detection
from atonc.insight.evaluating.metrics.top import class_name
from atonc.insight.evaluating.run import AnsweredSample, Evaluation
from atonc.insight.report.document import Mark, SummaryRow, note, summary_lines
from atonc.insight.report.html.page import links, plain_page, table, terms
from atonc.insight.report.html.page import note as hint_note
from atonc.insight.report.html.plots import plot, small_plot
from atonc.machine.base.words import count

if TYPE_CHECKING:
    from atonc.insight.evaluating.metrics.base import MetricFigure
    from atonc.insight.evaluating.run import Evaluation

SHOWN = 10
_MOST_SIDES = 6


def lines(found: Evaluation, page: str, all_changed: bool = False) -> Iterator[str]:
    yield f"{found.model}: {count(found.samples, 'sample')}, metric {found.metric}; 95 % intervals behind"
    for side, figures in (*found.sides.items(), *found.distances.items()):
        for figure in figures:
            yield f"  {side:<12} {figure.name:<14} {value(figure)}"
    for figure in found.differences:
        yield f"  {'NPU-' + found.yardstick:<12} {figure.name:<14} {signed(figure)} on the same samples"
    if found.yardstick:
        changed = found.changed if all_changed else found.changed[:SHOWN]
        for one in changed:
            yield f"  {one.entry.name}: " + "; ".join(f"{side}: {word}" for side, word in one.answers.items())
        if len(changed) < len(found.changed):
            yield f"  ... and {len(found.changed) - SHOWN} more (-v, or the page)"
    yield from map(note, found.notes)
    yield from summary_lines([*_sides(found), _changed(found), SummaryRow("written", page)])


def _sides(found: Evaluation) -> Iterator[SummaryRow]:
    """The first figure of each side: the one that the metric is named after."""
    named = [(side, figures) for side, figures in found.sides.items() if figures]
    for side, figures in named[:_MOST_SIDES]:
        yield SummaryRow(side, f"{figures[0].name} {value(figures[0])}")


def _changed(found: Evaluation) -> SummaryRow | None:
    if not found.yardstick:
        return None
    number = len(found.changed)
    verb = "gets" if number == 1 else "get"
    said = f"{count(number, 'sample')} {verb} another answer on the NPU than by the {found.yardstick} model"
    return SummaryRow("changed", said, Mark.DOUBT if number else Mark.GOOD)


def signed(figure: MetricFigure) -> str:
    return f"{figure.value:+.4f}  ({figure.low:+.4f} to {figure.high:+.4f})"


def value(figure: MetricFigure) -> str:
    return f"{figure.value:.4f}  ({figure.low:.4f} to {figure.high:.4f})"


MOST_PICTURES, PIXELS = 60, 160
MOST_CLASSES, MOST_PAIRS = 24, 20
MOST_PLOTS = 12  # of classes, the worst


def page(found: Evaluation, about: Mapping[str, str] | None = None, reports: Mapping[str, str] | None = None) -> bytes:
    """`about`: what more is to be said of when and with what it was made; `reports`: files beside the page, by what
    they are."""
    title = f"{found.model}: accuracy on {count(found.samples, 'sample')}"
    said = f"{count(found.samples, 'sample')}, metric {found.metric}; in brackets the 95 % interval"
    return plain_page(title, said, _sections(found, about or {}, reports or {}))


def _sections(found: Evaluation, about: Mapping[str, str], reports: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    sides = (*found.sides.items(), *found.distances.items())
    rows = [(name, figure.name, value(figure)) for name, figures in sides for figure in figures]
    rows += [(f"NPU less {found.yardstick}, same samples", one.name, signed(one)) for one in found.differences]
    yield (
        "Figures",
        table(("by", "figure", "value"), rows, "Figures of all sides") + "".join(map(hint_note, found.notes)),
    )
    yield "Reports", links(reports)
    yield "Precision against recall", _curves(found)
    yield "Classes and answers", _confusion(found)
    if found.worst:
        yield "Mistakes, the worst first", f'<div class="samples">{"".join(map(_sample, found.worst))}</div>'
    if found.yardstick:
        shown = "".join(map(_sample, found.changed[:MOST_PICTURES]))
        more = len(found.changed) > MOST_PICTURES
        rest = hint_note(f"The first {MOST_PICTURES} are shown; evaluation.json has all.") if more else ""
        title = f"{count(len(found.changed), 'sample')} with another answer than the {found.yardstick} model's"
        yield title, f'<div class="samples">{shown}</div>{rest}' if shown else hint_note("None.")
    yield "What was evaluated", terms({**found.origin, **about})


# ------------------------------------------------------------------------------------------------------------- curves


def _curves(found: Evaluation) -> str:
    """The mean of all classes by all sides; the worst classes of the NPU beside the others; all averages."""
    if not found.curves:
        return ""
    means = {side: curves[0] for side, curves in found.curves.items()}
    overlap = " A box is found where it overlaps one of its class by half." if found.metric == Detection.name else ""
    classes = _by_class(found)
    worst = sorted(classes, key=lambda lines: next(iter(lines.values())).average)[:MOST_PLOTS]
    hint = (
        f"How much of what is found is right, the more is found: at 101 recalls, the mean of {_classes(len(classes))} "
        f"that occur.{overlap}"
    )
    which = "All of them" if len(worst) == len(classes) else f"The {len(worst)} with the lowest average precision"
    columns = ("class", "to be found", *found.curves)
    rows = [_averages(lines) for lines in classes]
    return (
        f"{hint_note(hint)}{plot(means)}<h3>Class by class</h3>{hint_note(f'{which}, the worst first.')}"
        f'<div class="samples">{"".join(map(small_plot, worst))}</div><h3>Average precision</h3>'
        + table(columns, rows, "Average precision by class")
    )


def _classes(number: int) -> str:
    return "the class" if number == 1 else f"the {number} classes"


def _by_class(found: Evaluation) -> list[dict[str, RecallCurve]]:
    """Every side has the same classes: those that occur in the data."""
    sides = list(found.curves)
    return [dict(zip(sides, lines, strict=True)) for lines in zip(*(found.curves[s][1:] for s in sides), strict=True)]


def _averages(lines: Mapping[str, RecallCurve]) -> tuple[str, ...]:
    first = next(iter(lines.values()))
    return first.name, f"{first.positives:,}", *(f"{curve.average:.4f}" for curve in lines.values())


# ------------------------------------------------------------------------------------------------- classes and samples


def _confusion(found: Evaluation) -> str:
    """Rows are true classes, columns answers of the NPU, where there is room for all; and what is confused most."""
    counts = found.confusion
    names = [class_name(k, found.data) for k in range(len(counts))]
    pairs = sorted((-count, k, answer) for k, row in enumerate(counts) for answer, count in enumerate(row)
                   if count and k != answer)  # fmt: skip
    listed = [(names[k], names[answer], str(-count), f"{-count / sum(counts[k]):.0%}") for count, k, answer in pairs]
    confused = table(("class", "taken for", "samples", "of the class"), listed[:MOST_PAIRS], "Most confused classes")
    most = f"<h3>Confused most</h3>{confused}"
    if not counts or len(counts) > MOST_CLASSES:
        return most if listed else ""
    lines = [(names[k], *(str(count or "") for count in row)) for k, row in enumerate(counts)]
    matrix = table(("class", *names), lines, "Confusion matrix: classes down, answers across")
    return hint_note("Classes down, answers of the NPU across.") + matrix + (most if listed else "")


def _sample(changed: AnsweredSample) -> str:
    answers = "".join(f"<br>{escape(side)}: {escape(words)}" for side, words in changed.answers.items())
    caption = f"<figcaption>{escape(changed.entry.name)}{answers}</figcaption>"
    return f"<figure>{_picture(changed.entry)}{caption}</figure>"


def _picture(entry: DatasetEntry) -> str:
    """Small and inside the page; arrays have none."""
    if entry.row is not None:
        return ""
    from PIL import Image

    with Image.open(entry.file) as image:
        small = image.convert("RGB")
        small.thumbnail((PIXELS, PIXELS))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=80)
    return f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}">'
