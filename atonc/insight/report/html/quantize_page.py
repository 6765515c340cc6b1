"""The page of `atonc quantize`: the front as a plot, accuracy against predicted milliseconds, and the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from atonc.insight.report.html.page import plain_page, table
from atonc.insight.report.html.scatter import ScatterDot, scatter
from atonc.insight.report.quantize_text import time_text

if TYPE_CHECKING:
    from atonc.insight.quantizing.types import Quantised, QuantizedCandidate, Step


def page(result: Quantised) -> bytes:
    said = f"{result.samples} samples; {result.held_samples} of them judged. Milliseconds are predicted."
    return plain_page(f"{result.source}: quantised", said, _sections(result))


def _sections(result: Quantised) -> Iterator[tuple[str, str]]:
    rows = [
        (str(number), f"{c.name}{' (chosen)' if c.chosen else ''}", f"{c.snr_db:.2f} dB", time_text(c))
        for number, c in enumerate(result.front, 1)
    ]
    ways = table(("", "way", "signal to noise", "predicted"), rows, "Ways to quantise")
    yield "What no other way beats", plot(result.front) + ways
    steps = [
        (step.name, f"{step.snr_db:.2f} dB", _gain(step), "kept" if step.kept else "undone") for step in result.steps
    ]
    yield "Steps", table(("step", "signal to noise", "gain, 95 % of draws", ""), steps, "Steps")


def _gain(step: Step) -> str:
    return "" if step.gain_db is None else "{:+.2f} to {:+.2f} dB".format(*step.gain_db)


def plot(candidates: Sequence[QuantizedCandidate]) -> str:
    """Milliseconds to the right, decibels upwards; numbers as in the table."""
    dots = [
        ScatterDot(str(number), c.milliseconds, c.snr_db, f"{c.name}: {c.snr_db:.2f} dB, {time_text(c)}", c.chosen)
        for number, c in enumerate(candidates, 1)
        if c.milliseconds is not None
    ]
    return scatter(dots, "predicted latency (ms)", "signal to noise (dB)") if dots else ""
