"""Plots as SVG: axes with round ticks, dots with labels, lines, intervals, timelines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import ceil, floor, isfinite, log10

from atonc.insight.explain.types import NPU, StepView
from atonc.insight.report.document import Curves, Intervals, LiveMemory, MemoryMap, Plot, Scatter, Trend, short_name
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import size_text

WIDTH, HEIGHT = 760, 34  # of timelines and intervals
ROW, BAR, BAR_WIDTH = 22, 110, 340  # of intervals: the height of a row, where they begin, how long they may be
_COLOURS = {NPU: "#3b7dd8", "cpu": "#d97b29", "hybrid": "#8a63c9"}
_TOP = 12
_PRECISION = "the mean precision over all recalls: 1 where everything is found and nothing else"
_WIDE, _NAMES, _TALL = 900, 180, 60  # of memory
_USES = {"works in": "var(--bar)", "stays": "var(--found)", "weights": "var(--accent)", "reserved": "var(--soft)"}


@dataclass(frozen=True)
class PlotFrame:
    """Width and height in pixels, and what is left for ticks and titles at the left and below."""

    width: int
    height: int
    edge: int

    @property
    def bottom(self) -> int:
        return self.height - self.edge


_SCATTER, _LARGE, _SMALL = PlotFrame(640, 360, 60), PlotFrame(560, 360, 60), PlotFrame(200, 170, 34)
_TREND, _VALUES, _INSET = PlotFrame(460, 190, 30), 60, 34  # where values end and how far lines stay from the edge


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


def svg(plot: Plot) -> str:
    if isinstance(plot, Scatter):
        return _scatter(plot)
    if isinstance(plot, Curves):
        keys = "".join(
            f'<span class="key" tabindex="0" data-tip="{_PRECISION}"><i class="side-{k}"></i>{escape(side)}: average '
            f"precision {curve.average:.4f}</span>"
            for k, (side, curve) in enumerate(plot.lines.items())
        )
        return f'<p class="tools">{keys}</p>{_curves(plot, _LARGE)}'
    if isinstance(plot, Intervals):
        return _intervals(plot)
    if isinstance(plot, MemoryMap):
        return _memory_map(plot)
    if isinstance(plot, LiveMemory):
        return _live_memory(plot)
    if isinstance(plot, Trend):
        return _trend(plot)
    return "".join(f"<div>{escape(name)}</div>{timeline(steps)}" for name, steps in plot.builds.items())


def small_curves(plot: Curves) -> str:
    return _curves(plot, _SMALL)


def _picture(drawn: str, label: str, kind: str, frame: PlotFrame) -> str:
    about = f"role='img' aria-label='{escape(label)}' class='{kind}'"
    size = f"viewBox='0 0 {frame.width} {frame.height}' width='{frame.width}' style='max-width:100%'"
    return f"<svg {size} {about}>{drawn}</svg>"


def _grid(across: Axis, up: Axis, frame: PlotFrame) -> str:
    parts, right, top = list[str](), across.end, up.end
    for tick in across.ticks:
        x = f"{across.at(tick):.1f}"
        parts.append(f"<path class='axis' d='M{x} {top}V{frame.bottom}'/>")
        parts.append(f"<text class='soft' text-anchor='middle' x='{x}' y='{frame.bottom + 18}'>{tick:.6g}</text>")
    return "".join((*parts, _ticks(up, frame.edge, right)))


def _ticks(up: Axis, left: int, right: int) -> str:
    parts = list[str]()
    for tick in up.ticks:
        y = up.at(tick)
        parts.append(f"<path class='axis' d='M{left} {y:.1f}H{right}'/>")
        parts.append(f"<text class='soft' text-anchor='end' x='{left - 6}' y='{y + 4:.1f}'>{tick:,.6g}</text>")
    return "".join(parts)


def _titles(across: str, up: str, frame: PlotFrame) -> str:
    middle = f"translate(14 {frame.height // 2}) rotate(-90)"
    return (
        f"<text text-anchor='middle' x='{frame.width // 2}' y='{frame.height - 10}'>{escape(across)}</text>"
        f"<text text-anchor='middle' transform='{middle}'>{escape(up)}</text>"
    )


def _around(values: Sequence[float], start: int, end: int) -> Axis:
    """A little more than what is shown, also where all are the same."""
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.01 * max(abs(high), 1e-3)
    return Axis(low - room, high + room, start, end)


def _trend(plot: Trend) -> str:
    """A line through the builds, with its bounds behind it; the first, the last and both extremes say their value."""
    ends = {k: ends for k, ends in enumerate(plot.bounds) if ends is not None}
    frame, values = _TREND, [value for _, value, _ in plot.points]
    up = _around([*values, *(end for pair in ends.values() for end in pair)], frame.bottom, 2 * _TOP)
    across = Axis(0, max(1, len(plot.points) - 1), _VALUES + _INSET, frame.width - _INSET)
    drawn = [_ticks(up, _VALUES, frame.width - _TOP)]
    if ends:
        below = [f"{across.at(k):.1f} {up.at(low):.1f}" for k, (low, _) in ends.items()]
        above = [f"{across.at(k):.1f} {up.at(high):.1f}" for k, (_, high) in reversed(ends.items())]
        drawn.append(f"<path class='bounds' d='M{'L'.join(below + above)}Z'/>")
    line = "L".join(f"{across.at(k):.1f} {up.at(value):.1f}" for k, value in enumerate(values))
    drawn.append(f"<path class='side-0' d='M{line}'/>")
    said = {0, len(values) - 1, values.index(min(values)), values.index(max(values))}
    for k, (name, value, text) in enumerate(plot.points):
        x, y = across.at(k), up.at(value)
        title = f"<title>{escape(f'{name}: {text}')}</title>"
        drawn.append(f"<circle class='dot' cx='{x:.1f}' cy='{y:.1f}' r='4'>{title}</circle>")
        if k in said:
            drawn.append(f"<text text-anchor='middle' x='{x:.1f}' y='{y - 9:.1f}'>{escape(text)}</text>")
    for k, anchor in {0: "start", len(plot.points) - 1: "end"}.items():
        name = escape(short_name(plot.points[k][0]))
        place = f"x='{across.at(k):.1f}' y='{frame.height - 6}'"
        drawn.append(f"<text class='soft' text-anchor='{anchor}' {place}>{name}</text>")
    picture = _picture("".join(drawn), f"{plot.title} of {len(values)} {plot.of}", "curves trend", frame)
    return f"<div class='chart'><h3>{escape(plot.title)}</h3>{picture}</div>"


def _scatter(plot: Scatter) -> str:
    frame = _SCATTER
    right = _around([dot.x for dot in plot.dots], frame.edge, frame.width - 20)
    rise = _around([dot.y for dot in plot.dots], frame.bottom, 20)
    drawn = [_grid(right, rise, frame), _titles(plot.across, plot.up, frame)]
    for dot in plot.dots:
        x, y, kind = right.at(dot.x), rise.at(dot.y), " class='chosen'" if dot.chosen else ""
        drawn.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='6'{kind}><title>{escape(dot.title)}</title></circle>")
        drawn.append(f"<text x='{x + 9:.1f}' y='{y - 7:.1f}'>{escape(dot.label)}</text>")
    return _picture("".join(drawn), f"{plot.up} against {plot.across}", "front-dots", frame)


def _curves(plot: Curves, frame: PlotFrame) -> str:
    across, up = Axis(0.0, 1.0, frame.edge, frame.width - _TOP), Axis(0.0, 1.0, frame.bottom, _TOP)
    drawn = _grid(across, up, frame)
    for number, line in reversed(list(enumerate(plot.lines.values()))):  # the first on top of the others
        last = len(line.precision) - 1
        path = "L".join(f"{across.at(k / last):.1f} {up.at(value):.1f}" for k, value in enumerate(line.precision))
        drawn += f"<path class='side-{number}' d='M{path}'/>"
    drawn += _titles("recall", "precision", frame) if frame is _LARGE else ""
    name = next(iter(plot.lines.values())).name
    averages = ", ".join(f"{side} {curve.average:.4f}" for side, curve in plot.lines.items())
    return _picture(drawn, f"precision against recall, {name}: {averages}", "curves", frame)


def _intervals(plot: Intervals) -> str:
    """A row for each side: a dot with its interval, and the same in figures."""
    values = [end for _, _, *ends in plot.rows for end in ends if isfinite(end)]
    if not values:
        return ""
    least, span = min(values), max(values) - min(values) or 1.0
    parts = list[str]()
    for row, (side, name, low, value, high) in enumerate(plot.rows):
        y = ROW * row + ROW // 2
        parts.append(f'<text x="0" y="{y + 4}">{escape(short_name(side))}</text>')
        if all(map(isfinite, (low, value, high))):
            start, dot, end = (BAR + BAR_WIDTH * (v - least) / span for v in (low, value, high))
            parts.append(f'<path d="M{start:.1f} {y}H{end:.1f}" stroke="#3b7dd8" stroke-width="2"/>')
            parts.append(f'<circle cx="{dot:.1f}" cy="{y}" r="4"/>')
        label = f"{name} {value:.4f} ({low:.4f} to {high:.4f})"
        parts.append(f'<text x="{BAR + BAR_WIDTH + 14}" y="{y + 4}">{escape(label)}</text>')
    size = f'viewBox="0 0 {WIDTH} {ROW * len(plot.rows)}" width="100%" style="max-width:{WIDTH}px"'
    return f'<svg {size} role="img" aria-label="figures with 95 % CI">{"".join(parts)}</svg>'


def _memory_map(plot: MemoryMap) -> str:
    drawn, scale = list[str](), (_WIDE - _NAMES) / (plot.high - plot.low)
    for top, (name, spans) in zip(range(0, ROW * len(plot.rows), ROW), plot.rows.items(), strict=True):
        place = f'x="0" y="{top + ROW - 7}"'
        drawn.append(f'<text {place} font-size="12" fill="var(--ink)">{escape(name[:24])}</text>')
        for kind, start, end in spans:
            low, high = max(start, plot.low), min(end, plot.high)
            if low < high:
                title = escape(f"{name}, {kind}: {start:#010x} to {end:#010x}, {size_text(end - start)}")
                x, width = _NAMES + scale * (low - plot.low), max(1.0, scale * (high - low))
                box = f'x="{x:.1f}" y="{top + 3}" width="{width:.1f}" height="{ROW - 6}"'
                drawn.append(f'<rect {box} fill="{_USES[kind]}"><title>{title}</title></rect>')
    frame = f'viewBox="0 0 {_WIDE} {len(plot.rows) * ROW}" role="img" aria-label="RAM by network"'
    return f"<svg {frame}>{''.join(drawn)}</svg>"


def _live_memory(plot: LiveMemory) -> str:
    """As wide as a step takes, as high as what lives in it."""
    total, most = sum(ms for ms, _ in plot.steps), max(size for _, size in plot.steps)
    corners, end = list[str](), 0.0
    for ms, size in plot.steps:
        start, end = end, end + ms
        y = _TALL - _TALL * size / most
        corners.append(f"L{_WIDE * start / total:.1f},{y:.1f}H{_WIDE * end / total:.1f}")
    path = f'<path d="M0,{_TALL}{"".join(corners)}V{_TALL}Z" fill="var(--bar)" stroke="var(--accent)"/>'
    return f'<svg viewBox="0 0 {_WIDE} {_TALL}" role="img" aria-label="{escape(plot.label)}">{path}</svg>'


def timeline(steps: Sequence[StepView]) -> str:
    """Epochs as boxes as wide as their time; what is too thin to see is drawn with its neighbours."""
    total = sum(step.milliseconds for step in steps) or 1.0
    boxes, start = list[str](), 0.0
    for first, last, on, length in _merged(steps, total / WIDTH):
        x, width = WIDTH * start / total, max(0.5, WIDTH * length / total)
        name = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        boxes.append(
            f'<rect x="{x:.1f}" y="4" width="{width:.1f}" height="16" fill="{_COLOURS.get(on, "#888")}" '
            f'stroke="#fff" stroke-width=".5"><title>{name}, {on.upper()}, {length:.4f} ms</title></rect>'
        )
        start += length
    marks = "".join(
        f'<text x="{x}" y="{HEIGHT - 2}" font-size="10" fill="currentColor" text-anchor="{anchor}">{text}</text>'
        for x, anchor, text in ((0, "start", "0"), (WIDTH, "end", f"{total:.3f} ms"))
    )
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" style="max-width:{WIDTH}px"'
    return f'<svg {size} role="img" aria-label="timeline">{"".join(boxes)}{marks}</svg>'


def _merged(steps: Iterable[StepView], least: float) -> Iterator[tuple[int, int, str, float]]:
    """First and last step, where they run, milliseconds."""
    waiting: tuple[int, int, str, float] | None = None
    for step in steps:
        if waiting is not None and waiting[2] == step.on and min(waiting[3], step.milliseconds) < least:
            waiting = (waiting[0], step.number, step.on, waiting[3] + step.milliseconds)
            continue
        if waiting is not None:
            yield waiting
        waiting = (step.number, step.number, step.on, step.milliseconds)
    if waiting is not None:
        yield waiting
