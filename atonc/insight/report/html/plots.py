"""Axes of a plot as SVG: round ticks, lines across, titles. Whoever draws dots or lines into it shares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

from atonc.insight.evaluating.metrics.curves import RecallCurve
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class PlotFrame:
    """Width and height in pixels, and what is left for ticks and titles at the left and below."""

    width: int
    height: int
    edge: int

    @property
    def bottom(self) -> int:
        return self.height - self.edge


class Axis:
    """From `low` to `high` of the values, drawn from one pixel to another."""

    def __init__(self, low: float, high: float, start: int, end: int) -> None:
        self.low, self.high, self.start, self.end = low, high, start, end

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round values, five or six of them."""
        rough = (self.high - self.low) / 5
        power = 10.0 ** floor(log10(rough))
        step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))
        return [k * step for k in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]


def around(values: Sequence[float], start: int, end: int) -> Axis:
    """A little more than what is shown, also where all are the same."""
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.01 * max(abs(high), 1e-3)
    return Axis(low - room, high + room, start, end)


def grid(across: Axis, up: Axis, frame: PlotFrame) -> str:
    parts, right, top = list[str](), across.end, up.end
    for tick in across.ticks:
        x = f"{across.at(tick):.1f}"
        parts.append(f"<path class='axis' d='M{x} {top}V{frame.bottom}'/>")
        parts.append(f"<text class='soft' text-anchor='middle' x='{x}' y='{frame.bottom + 18}'>{tick:.6g}</text>")
    for tick in up.ticks:
        y = up.at(tick)
        parts.append(f"<path class='axis' d='M{frame.edge} {y:.1f}H{right}'/>")
        parts.append(f"<text class='soft' text-anchor='end' x='{frame.edge - 6}' y='{y + 4:.1f}'>{tick:.6g}</text>")
    return "".join(parts)


def titles(across: str, up: str, frame: PlotFrame) -> str:
    middle = f"translate(14 {frame.height // 2}) rotate(-90)"
    return (
        f"<text text-anchor='middle' x='{frame.width // 2}' y='{frame.height - 10}'>{escape(across)}</text>"
        f"<text text-anchor='middle' transform='{middle}'>{escape(up)}</text>"
    )


def picture(drawn: str, label: str, kind: str, frame: PlotFrame) -> str:
    about = f"role='img' aria-label='{escape(label)}' class='{kind}'"
    size = f"viewBox='0 0 {frame.width} {frame.height}' width='{frame.width}' style='max-width:100%'"
    return f"<svg {size} {about}>{drawn}</svg>"


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
