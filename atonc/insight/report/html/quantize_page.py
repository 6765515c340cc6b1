"""The page of `atonc quantize`: the front as a plot, accuracy against predicted milliseconds, steps, layers, data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from atonc.insight.explain.loss import KINDS
from atonc.insight.report.accuracy_text import short_db
from atonc.insight.report.html.page import links, note, plain_page, table, terms
from atonc.insight.report.html.scatter import ScatterDot, scatter
from atonc.insight.report.quantize_text import point_text, time_text, width_text
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

if TYPE_CHECKING:
    from atonc.insight.explain.loss import AccuracyReport
    from atonc.insight.quantizing.types import (
        PrecisionPoint,
        Quantised,
        QuantizedCandidate,
        Step,
        TensorPrecision,
        WidePoint,
    )


@dataclass(frozen=True)
class QuantizePageParts:
    """What more is known than the quantiser says."""

    origin: Mapping[str, str]  # names, hashes, versions, date
    layers: AccuracyReport | None = None
    why_no_layers: str = ""
    files: Mapping[str, str] | None = None  # beside the page, by what they are


def page(result: Quantised, more: QuantizePageParts) -> bytes:
    said = f"{count(result.samples, 'sample')}; {result.held_samples} of them judged. Milliseconds are predicted."
    return plain_page(f"{result.source}: quantised", said, _sections(result, more))


def _sections(result: Quantised, more: QuantizePageParts) -> Iterator[tuple[str, str]]:
    rows = [
        (str(number), f"{c.name}{' (chosen)' if c.chosen else ''}", f"{c.snr_db:.2f} dB", time_text(c))
        for number, c in enumerate(result.front, 1)
    ]
    ways = table(("", "way", "signal to noise", "predicted"), rows, "Ways to quantise")
    yield "Ways that were tried", plot(result.front) + ways
    if result.sizes:
        yield "Accuracy against flash", size_plot(result.sizes) + _sizes(result.sizes)
        yield "Weights by tensor", _tensors(result.tensors)
    if result.widths:
        yield "Activations of 16 bits", _widths(result.widths)
    yield "Reports and files", links(more.files or {})
    outputs = [(name, f"{snr:.2f} dB") for name, snr in result.outputs_db.items()]
    yield "Outputs", table(("output", "signal to noise against float"), outputs, "Outputs") + _notes(result)
    steps = [
        (step.name, f"{step.snr_db:.2f} dB", _gain(step), "kept" if step.kept else "undone") for step in result.steps
    ]
    yield "Steps", table(("step", "signal to noise", "gain, 95 % of draws", ""), steps, "Steps")
    yield "Layers", _layers(more)
    yield "What was quantised", terms(more.origin)


def _notes(result: Quantised) -> str:
    stays = f"Without an int8 form, or better in float: {', '.join(result.float_nodes)}." if result.float_nodes else ""
    return "".join(map(note, filter(None, (stays, *result.notes))))


def _layers(more: QuantizePageParts) -> str:
    """Each layer's own loss, and what has come together up to it."""
    if more.layers is None:
        return note(f"What each layer loses is not known: {more.why_no_layers}.") if more.why_no_layers else ""
    found = more.layers
    hint = (
        f"Signal to noise against float in dB, on {count(found.samples, 'sample')} that judged: what the weights of a "
        "layer, the codes of its result and the arithmetic of the NPU lose alone, and everything up to there in "
        "int8. The noisiest first; - loses nothing, ? is not known."
    )
    noisy = sorted(found.layers, key=lambda layer: min((v for v in layer.alone if v is not None), default=float("inf")))
    rows = [(one.name, one.kind, *map(short_db, one.alone), short_db(one.quantised)) for one in noisy]
    shown = table(("layer", "operator", *KINDS, "int8 so far"), rows, "Signal to noise by layer")
    return note(hint) + shown + "".join(map(note, found.notes))


def _gain(step: Step) -> str:
    return "" if step.gain_db is None else "{:+.2f} to {:+.2f} dB".format(*step.gain_db)


def _sizes(points: Sequence[PrecisionPoint]) -> str:
    rows = [
        (str(number), f"{point_text(point)}{' (chosen)' if point.chosen else ''}", f"{point.snr_db:.2f} dB",
         f"{point.flash_bytes:,}")
        for number, point in enumerate(points, 1)
    ]  # fmt: skip
    return table(("", "weights", "signal to noise", "bytes of flash"), rows, "Choices of bits, each measured")


def _widths(points: Sequence[WidePoint]) -> str:
    rows = [
        (f"{width_text(point)}{' (chosen)' if point.chosen else ''}", f"{point.worst_db:.2f} dB",
         f"{point.milliseconds:.3f} ms", f"{point.price_ms:+.3f} ms", "kept" if point.kept else "undone")
        for point in points
    ]  # fmt: skip
    heads = ("tensors", "signal to noise of the worst output", "predicted", "price", "")
    return table(heads, rows, "Steps of widening, each measured in the chip's arithmetic")


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
