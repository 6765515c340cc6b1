"""What `atonc evaluate` found, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from atonc.insight.report.marks import Mark, note
from atonc.insight.report.summary import SummaryRow, summary_lines
from atonc.machine.base.words import count

if TYPE_CHECKING:
    from atonc.insight.evaluating.metrics import MetricFigure
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
