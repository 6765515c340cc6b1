"""Two figures of several candidates against each other, as SVG: dots with labels."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from atonc.insight.report.html.axes import PlotFrame, around, grid, picture, titles
from atonc.machine.base.frozen import dataclass

_FRAME = PlotFrame(640, 360, 60)


@dataclass(frozen=True)
class ScatterDot:
    label: str  # beside the dot, such as its number in a table
    x: float
    y: float
    title: str
    chosen: bool = False


def scatter(dots: Sequence[ScatterDot], across: str, up: str) -> str:
    """`across` and `up` are the titles of the axes."""
    right = around([dot.x for dot in dots], _FRAME.edge, _FRAME.width - 20)
    rise = around([dot.y for dot in dots], _FRAME.bottom, 20)
    drawn = [grid(right, rise, _FRAME), titles(across, up, _FRAME)]
    for dot in dots:
        x, y, kind = right.at(dot.x), rise.at(dot.y), " class='chosen'" if dot.chosen else ""
        drawn.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='6'{kind}><title>{escape(dot.title)}</title></circle>")
        drawn.append(f"<text x='{x + 9:.1f}' y='{y - 7:.1f}'>{escape(dot.label)}</text>")
    return picture("".join(drawn), f"{up} against {across}", "front-dots", _FRAME)
