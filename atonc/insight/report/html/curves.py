"""Precision against recall as SVG: all sides in one plot, and a small one for each of some classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from atonc.insight.evaluating.metrics import RecallCurve
from atonc.insight.report.html.axes import Axis, PlotFrame, grid, picture, titles

_LARGE, _SMALL = PlotFrame(560, 360, 60), PlotFrame(200, 170, 34)
_TOP = 12


def plot(lines: Mapping[str, RecallCurve]) -> str:
    """One line a side, with a legend that says their averages."""
    shown = _drawn(list(lines.values()), _LARGE) + titles("recall", "precision", _LARGE)
    keys = "".join(
        f'<span class="key"><i class="side-{k}"></i>{escape(side)}: average precision {curve.average:.4f}</span>'
        for k, (side, curve) in enumerate(lines.items())
    )
    return f'<p class="tools">{keys}</p>' + picture(shown, _said(lines), "curves", _LARGE)


def small_plot(lines: Mapping[str, RecallCurve]) -> str:
    """The same of one class, as a figure with its caption."""
    first = next(iter(lines.values()))
    averages = ", ".join(f"{escape(side)} {curve.average:.3f}" for side, curve in lines.items())
    shown = picture(_drawn(list(lines.values()), _SMALL), _said(lines), "curves", _SMALL)
    return f"<figure>{shown}<figcaption><b>{escape(first.name)}</b><br>{averages}</figcaption></figure>"


def _drawn(lines: Sequence[RecallCurve], frame: PlotFrame) -> str:
    across, up = Axis(0.0, 1.0, frame.edge, frame.width - _TOP), Axis(0.0, 1.0, frame.bottom, _TOP)
    drawn = grid(across, up, frame)
    for number, line in reversed(list(enumerate(lines))):  # the first on top of the others
        last = len(line.precision) - 1
        path = "L".join(f"{across.at(k / last):.1f} {up.at(value):.1f}" for k, value in enumerate(line.precision))
        drawn += f"<path class='side-{number}' d='M{path}'/>"
    return drawn


def _said(lines: Mapping[str, RecallCurve]) -> str:
    name = next(iter(lines.values())).name
    return f"precision against recall, {name}: " + ", ".join(f"{s} {c.average:.4f}" for s, c in lines.items())
