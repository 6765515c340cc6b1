"""Two figures of several candidates against each other, as SVG: dots with labels, axes with round ticks and titles."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from atonc.machine.base.frozen import dataclass

WIDTH, HEIGHT, EDGE = 640, 360, 60


@dataclass(frozen=True)
class ScatterDot:
    label: str  # beside the dot, such as its number in a table
    x: float
    y: float
    title: str
    chosen: bool = False


def scatter(dots: Sequence[ScatterDot], across: str, up: str) -> str:
    """`across` and `up` are the titles of the axes."""
    right, rise = _Axis([dot.x for dot in dots], EDGE, WIDTH - 20), _Axis([dot.y for dot in dots], HEIGHT - EDGE, 20)
    drawn = [_grid(right, rise), _titles(across, up)]
    for dot in dots:
        x, y, kind = right.at(dot.x), rise.at(dot.y), " class='chosen'" if dot.chosen else ""
        drawn.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='6'{kind}><title>{escape(dot.title)}</title></circle>")
        drawn.append(f"<text x='{x + 9:.1f}' y='{y - 7:.1f}'>{escape(dot.label)}</text>")
    about = f"role='img' aria-label='{escape(f'{up} against {across}')}' class='front-dots'"
    return f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' style='max-width:100%' {about}>{''.join(drawn)}</svg>"


class _Axis:
    """A little more than what is shown, also where all are the same."""

    def __init__(self, values: list[float], start: int, end: int) -> None:
        low, high = min(values), max(values)
        room = 0.08 * (high - low) or 0.01 * max(abs(high), 1e-3)
        self.low, self.high, self.start, self.end = low - room, high + room, start, end

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round values, five or six of them."""
        rough = (self.high - self.low) / 5
        power = 10.0 ** floor(log10(rough))
        step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough)
        return [k * step for k in range(ceil(self.low / step), floor(self.high / step) + 1)]


def _grid(across: _Axis, up: _Axis) -> str:
    bottom, parts = HEIGHT - EDGE, list[str]()
    for tick in across.ticks:
        x = f"{across.at(tick):.1f}"
        parts.append(f"<path class='axis' d='M{x} 20V{bottom}'/>")
        parts.append(f"<text class='soft' text-anchor='middle' x='{x}' y='{bottom + 18}'>{tick:.6g}</text>")
    for tick in up.ticks:
        y = up.at(tick)
        parts.append(f"<path class='axis' d='M{EDGE} {y:.1f}H{WIDTH - 20}'/>")
        parts.append(f"<text class='soft' text-anchor='end' x='{EDGE - 6}' y='{y + 4:.1f}'>{tick:.6g}</text>")
    return "".join(parts)


def _titles(across: str, up: str) -> str:
    middle = f"translate(14 {HEIGHT // 2}) rotate(-90)"
    return (
        f"<text text-anchor='middle' x='{WIDTH // 2}' y='{HEIGHT - 10}'>{escape(across)}</text>"
        f"<text text-anchor='middle' transform='{middle}'>{escape(up)}</text>"
    )
