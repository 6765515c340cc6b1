"""The page of `atonc quantize`: the front as a plot, accuracy against predicted milliseconds, and the steps."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from atonc.insight.report.html.page import head
from atonc.insight.report.quantize_text import time_text

if TYPE_CHECKING:
    from atonc.insight.quantizing.types import Quantised, QuantizedCandidate

WIDTH, HEIGHT, EDGE = 640, 360, 60
_STYLE = """
main{max-width:70rem;margin:2rem auto;padding:0 1rem}svg{max-width:100%;height:auto}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.3rem .8rem;text-align:left;border-bottom:1px solid #8884}
circle{fill:#6b7bd6}circle.chosen{fill:#d6336c}svg text{font:13px sans-serif;fill:currentColor}path{stroke:#8888}
"""


def page(result: Quantised) -> bytes:
    """One file; nothing is loaded from elsewhere."""
    body = "\n".join(_body(result))
    start = head(f"{result.source}: quantised", _STYLE)
    return f"{start}\n<body><main>\n{body}\n</main></body></html>\n".encode()


def _body(result: Quantised) -> Iterator[str]:
    yield f"<h1>{escape(result.source)}, quantised</h1>"
    yield f"<p>{result.samples} samples; {result.held_samples} of them judged. Milliseconds are predicted.</p>"
    priced = [candidate for candidate in result.front if candidate.milliseconds is not None]
    if priced:
        yield plot(priced)
    yield "<table><tr><th></th><th>way</th><th>signal to noise</th><th>predicted</th></tr>"
    for number, candidate in enumerate(result.front, 1):
        time = time_text(candidate)
        name = f"{escape(candidate.name)}{' (chosen)' if candidate.chosen else ''}"
        yield f"<tr><td>{number}</td><td>{name}</td><td>{candidate.snr_db:.2f} dB</td><td>{time}</td></tr>"
    yield "</table><table><tr><th>step</th><th>signal to noise</th><th></th></tr>"
    for name, snr, used in result.steps:
        yield f"<tr><td>{escape(name)}</td><td>{snr:.2f} dB</td><td>{'kept' if used else 'undone'}</td></tr>"
    yield "</table>"


def plot(candidates: list[QuantizedCandidate]) -> str:
    """Milliseconds to the right, decibels upwards; numbers as in the table."""
    times, signals = [c.milliseconds or 0.0 for c in candidates], [c.snr_db for c in candidates]
    left, right = _limits(times)
    low, high = _limits(signals)
    marks = []
    for number, (time, candidate) in enumerate(zip(times, candidates, strict=True), 1):
        x = EDGE + (time - left) / (right - left) * (WIDTH - 2 * EDGE)
        y = HEIGHT - EDGE - (candidate.snr_db - low) / (high - low) * (HEIGHT - 2 * EDGE)
        kind = " class='chosen'" if candidate.chosen else ""
        title = f"<title>{escape(candidate.name)}: {candidate.snr_db:.2f} dB, {time:.3f} ms</title>"
        marks.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='6'{kind}>{title}</circle>")
        marks.append(f"<text x='{x + 9:.1f}' y='{y - 7:.1f}'>{number}</text>")
    floor = HEIGHT - EDGE
    frame = f"<path fill='none' d='M{EDGE} {EDGE}V{floor}H{WIDTH - EDGE}'/>"
    words = [(EDGE, floor + 20, f"{left:.3f} ms"), (WIDTH - 2 * EDGE, floor + 20, f"{right:.3f} ms"),
             (4, floor, f"{low:.1f} dB"), (4, EDGE, f"{high:.1f} dB")]  # fmt: skip
    texts = [f"<text x='{x}' y='{y}'>{text}</text>" for x, y, text in words]
    label = "signal to noise against predicted milliseconds"
    drawn = "".join([frame, *texts, *marks])
    return f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' role='img' aria-label='{label}'>{drawn}</svg>"


def _limits(values: list[float]) -> tuple[float, float]:
    """A little more than what is shown, also where all are the same."""
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.01 * max(abs(high), 1e-3)
    return low - room, high + room
