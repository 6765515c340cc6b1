"""The page of `atonc quantize`: the front as a plot, accuracy against predicted milliseconds, and the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from atonc.insight.report.html.page import plain_page, table
from atonc.insight.report.html.scatter import ScatterDot, scatter
from atonc.insight.report.quantize_text import point_text, time_text

if TYPE_CHECKING:
    from atonc.insight.quantizing.types import PrecisionPoint, Quantised, QuantizedCandidate, Step, TensorPrecision


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
    if result.sizes:
        yield "Accuracy against flash", size_plot(result.sizes) + _sizes(result.sizes)
        yield "Weights by tensor", _tensors(result.tensors)
    steps = [
        (step.name, f"{step.snr_db:.2f} dB", _gain(step), "kept" if step.kept else "undone") for step in result.steps
    ]
    yield "Steps", table(("step", "signal to noise", "gain, 95 % of draws", ""), steps, "Steps")


def _gain(step: Step) -> str:
    return "" if step.gain_db is None else "{:+.2f} to {:+.2f} dB".format(*step.gain_db)


def _sizes(points: Sequence[PrecisionPoint]) -> str:
    rows = [
        (str(number), f"{point_text(point)}{' (chosen)' if point.chosen else ''}", f"{point.snr_db:.2f} dB",
         f"{point.flash_bytes:,}")
        for number, point in enumerate(points, 1)
    ]  # fmt: skip
    return table(("", "weights", "signal to noise", "bytes of flash"), rows, "Choices of bits, each measured")


def _tensors(tensors: Sequence[TensorPrecision]) -> str:
    rows = [
        (one.tensor, str(one.bits), f"{one.size_bytes:,}", f"{one.snr_db:.1f} dB",
         "" if one.alone_db is None else f"{one.alone_db:.2f} dB", one.reason)
        for one in tensors
    ]  # fmt: skip
    heads = ("tensor", "bits", "bytes", "signal to noise of the weights", "lost with 4 bits alone", "why 8 bits")
    return table(heads, rows, "Weights by tensor")


def size_plot(points: Sequence[PrecisionPoint]) -> str:
    """Bytes to the right, decibels upwards; numbers as in the table."""
    dots = [
        ScatterDot(str(number), one.flash_bytes, one.snr_db, f"{point_text(one)}: {one.snr_db:.2f} dB", one.chosen)
        for number, one in enumerate(points, 1)
    ]
    return scatter(dots, "flash (bytes)", "signal to noise (dB)")


def plot(candidates: Sequence[QuantizedCandidate]) -> str:
    """Milliseconds to the right, decibels upwards; numbers as in the table."""
    dots = [
        ScatterDot(str(number), c.milliseconds, c.snr_db, f"{c.name}: {c.snr_db:.2f} dB, {time_text(c)}", c.chosen)
        for number, c in enumerate(candidates, 1)
        if c.milliseconds is not None
    ]
    return scatter(dots, "predicted latency (ms)", "signal to noise (dB)") if dots else ""
