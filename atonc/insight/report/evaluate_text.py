"""What `atonc evaluate` found: figures side by side, precision against recall, samples that changed their answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from atonc.insight.evaluating.metrics import Detection, MetricFigure, RecallCurve, class_name
from atonc.insight.evaluating.run import AnsweredSample, Evaluation
from atonc.insight.report import document as doc
from atonc.insight.report.html.page import document_page
from atonc.machine.base.words import count

SHOWN = 10
SIGNED = "{0.value:+.4f}  ({0.low:+.4f} to {0.high:+.4f}) on the same samples"
MOST_SIDES = 6
MOST_PICTURES = 60
MOST_CLASSES, MOST_PAIRS = 24, 20
MOST_PLOTS = 12  # of classes, the worst
Row = tuple[str, MetricFigure, str]  # by whom, the figure, its value in words
FIGURES = (
    doc.Column[Row]("by", lambda row: row[0], width=11, left=True),
    doc.Column[Row]("figure", lambda row: row[1].name, width=13, left=True),
    doc.Column[Row]("value", lambda row: row[2], left=True),
)


def document(found: Evaluation, page: str = "", all_changed: bool = False) -> doc.Document:
    """`page`: where it is written."""
    title = f"{found.model}: {count(found.samples, 'sample')}, metric {found.metric}; 95 % CI in parentheses"
    blocks: list[doc.Block] = [title, doc.Table(FIGURES, _figures(found))]
    if found.yardstick:
        answers = [f"  {one.entry.name}: {'; '.join(_answers(one))}" for one in found.changed]
        most = len(answers) if all_changed else SHOWN
        blocks += doc.at_most(most, answers, "  ... and {} more (-v, or the page)")
    firsts = [(side, figures[0]) for side, figures in found.sides.items() if figures]
    number = len(found.changed)
    changed = f"; {count(number, 'sample')} changed" if found.yardstick else ""
    samples = f"{count(found.samples, 'sample')}, {found.metric}"
    by_side = ", ".join(f"{side} {figure.value:.4f}" for side, figure in firsts)
    rows = [doc.SummaryRow(side, f"{figure.name} {figure_text(figure)}") for side, figure in firsts[:MOST_SIDES]]
    if found.yardstick:
        verb = "gets" if number == 1 else "get"
        said = f"{count(number, 'sample')} {verb} another answer on the NPU than by the {found.yardstick} model"
        rows.append(doc.SummaryRow("changed", said, doc.Mark.DOUBT if number else doc.Mark.GOOD))
    data = found.as_dict()
    sides = {**data["figures"], **data["distances"], f"NPU-{found.yardstick}": data["differences"]}
    return doc.Document(
        f"{doc.short_name(found.model)}, {samples}: {by_side}{changed}",
        [doc.Chapter("", [*blocks, *map(doc.Note, found.notes)], doc.Only.TEXT)],
        [*rows, doc.SummaryRow("written", page)],
        f"{found.model}: accuracy on {count(found.samples, 'sample')}",
        f"{count(found.samples, 'sample')}, metric {found.metric}; 95 % CI in parentheses",
        lambda: data,
        {
            "figures": [{"by": side, **figure} for side, figures in sides.items() for figure in figures],
            "changed": data["changed"],
        },
        doc.Intervals([(side, one.name, one.low, one.value, one.high) for side, one in firsts]),
    )


def page(found: Evaluation, about: Mapping[str, str] | None = None, reports: Mapping[str, str] | None = None) -> bytes:
    """`about`: what more is to be said of when and with what it was made; `reports`: files beside the page, by what
    they are."""
    sections = [
        doc.Chapter("Figures", [doc.Table(FIGURES, _figures(found), "Figures"), *map(doc.Note, found.notes)]),
        doc.Chapter("Reports", [doc.Links(reports or {})]),
        doc.Chapter("Precision against recall", list(_curves(found))),
        doc.Chapter("Classes and answers", list(_confusion(found))),
        doc.Chapter("Mistakes, the worst first", [_cards(found.worst)] if found.worst else []),
    ]
    if found.yardstick:
        title = f"{count(len(found.changed), 'sample')} with another answer than the {found.yardstick} model's"
        rest = [doc.Note(f"The first {MOST_PICTURES} are shown; evaluation.json has all.")]
        cards = _cards(found.changed[:MOST_PICTURES]) if found.changed else doc.Note("None.")
        sections.append(doc.Chapter(title, [cards, *(rest if len(found.changed) > MOST_PICTURES else [])]))
    sections.append(doc.Chapter("What was evaluated", [doc.Terms({**found.origin, **(about or {})})]))
    return document_page(replace(document(found), sections=sections))


def _figures(found: Evaluation) -> list[Row]:
    """All sides, how far they are from each other, and what the NPU loses on the same samples."""
    sides = (*found.sides.items(), *found.distances.items())
    rows = [(side, figure, figure_text(figure)) for side, figures in sides for figure in figures]
    return [*rows, *((f"NPU-{found.yardstick}", one, SIGNED.format(one)) for one in found.differences)]


def figure_text(figure: MetricFigure) -> str:
    return f"{figure.value:.4f}  ({figure.low:.4f} to {figure.high:.4f})"


def _answers(sample: AnsweredSample) -> list[str]:
    return [f"{side}: {words}" for side, words in sample.answers.items()]


def _cards(samples: Sequence[AnsweredSample]) -> doc.Cards:
    """Arrays have no picture."""
    rows = ((one, one.entry.file if one.entry.row is None else None) for one in samples)
    return doc.Cards([doc.Card(one.entry.name, _answers(one), file) for one, file in rows])


def _curves(found: Evaluation) -> Iterator[doc.Block]:
    """The mean of all classes by all sides; the worst classes of the NPU beside the others; all averages."""
    if not found.curves:
        return
    sides = list(found.curves)  # every side has the same classes: those that occur in the data
    means, *classes = (dict(zip(sides, curves, strict=True)) for curves in zip(*found.curves.values(), strict=True))
    overlap = " A box is found where it overlaps one of its class by half." if found.metric == Detection.name else ""
    which = "the class" if len(classes) == 1 else f"the {len(classes)} classes"
    yield doc.Note(
        f"How much of what is found is right, the more is found: at 101 recalls, the mean of {which} that "
        f"occur.{overlap}"
    )
    yield doc.Curves(means)
    worst = sorted(classes, key=lambda curves: curves[sides[0]].average)[:MOST_PLOTS]
    which = "All of them" if len(worst) == len(classes) else f"The {len(worst)} with the lowest average precision"
    yield doc.Subtitle("Class by class")
    yield doc.Note(f"{which}, the worst first.")
    averages = [", ".join(f"{side} {curve.average:.3f}" for side, curve in curves.items()) for curves in worst]
    cards = zip(worst, averages, strict=True)
    yield doc.Cards([doc.Card(one[sides[0]].name, [said], doc.Curves(one)) for one, said in cards])
    yield doc.Subtitle("Average precision")

    def average(side: str) -> doc.Column[dict[str, RecallCurve]]:
        about = f"average precision of the class by {side}"
        return doc.Column(side, lambda curves: curves[side].average, "{:.4f}", about=about)

    columns = [
        doc.Column[dict[str, RecallCurve]]("class", lambda curves: curves[sides[0]].name),
        doc.Column[dict[str, RecallCurve]]("to be found", lambda curves: curves[sides[0]].positives, "{:,}"),
        *map(average, sides),
    ]
    yield doc.Table(columns, classes, "Average precision by class")


def _confusion(found: Evaluation) -> Iterator[doc.Block]:
    """Rows are true classes, columns answers of the NPU, where there is room for all; and what is confused most."""
    counts = found.confusion
    names = [class_name(k, found.data) for k in range(len(counts))]
    if counts and len(counts) <= MOST_CLASSES:

        def answered(number: int) -> doc.Column[int]:
            about = f"samples that the NPU took for {names[number]}"
            return doc.Column(names[number], lambda k: counts[k][number] or None, about=about)

        columns = [doc.Column[int]("class", names.__getitem__), *map(answered, range(len(names)))]
        yield doc.Note("Classes down, answers of the NPU across.")
        yield doc.Table(columns, range(len(counts)), "Confusion matrix: classes down, answers across")
    pairs = [(-n, k, a) for k, row in enumerate(counts) for a, n in enumerate(row) if n and k != a]
    Pair = tuple[int, int, int]  # how often, negative; class; answer
    confused = [
        doc.Column[Pair]("class", lambda pair: names[pair[1]]),
        doc.Column[Pair]("taken for", lambda pair: names[pair[2]]),
        doc.Column[Pair]("samples", lambda pair: -pair[0]),
        doc.Column[Pair]("of the class", lambda pair: -pair[0] / sum(counts[pair[1]]), "{:.0%}"),
    ]
    if pairs:
        yield doc.Subtitle("Confused most")
        yield doc.Table(confused, sorted(pairs)[:MOST_PAIRS], "Most confused classes")
