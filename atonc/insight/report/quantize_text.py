"""What `atonc quantize` says: signal to noise by step and output, the fronts of accuracy against time and flash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atonc.insight.explain.types import KINDS
from atonc.insight.quantizing.signal import POOR_DB
from atonc.insight.quantizing.types import PrecisionPoint, Quantised, QuantizedCandidate, WidePoint
from atonc.insight.report.accuracy_text import short_db
from atonc.insight.report.document import Mark, SummaryRow, head, next_row, summary_lines
from atonc.insight.report.html.page import links, note, plain_page, table, terms
from atonc.insight.report.html.plots import ScatterDot, scatter
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, shell

if TYPE_CHECKING:
    from atonc.insight.explain.types import AccuracyReport
    from atonc.insight.quantizing.types import (
        PrecisionPoint,
        Quantised,
        QuantizedCandidate,
        Step,
        TensorPrecision,
        WidePoint,
    )

MOST_NAMES = 4  # of tensors in a line


def lines(result: Quantised, file: str, verbose: bool = False, page: str = "") -> Iterator[str]:
    used = f"{count(result.samples, 'sample')}, {result.held_samples} of them only to judge"
    kind = "int8, some weights of 4 bits," if any(tensor.bits == 4 for tensor in result.tensors) else "int8"
    kind = "int8, some activations of 16 bits," if any(point.wide for point in result.widths) else kind
    yield head("model ", f"{result.source}: {kind} in {file} ({used})")
    yield ""
    yield "signal to noise against float, in dB (how much each step gains, 95 % of draws)"
    for step in result.steps:
        if verbose or step.kept:
            gain = "" if step.gain_db is None else "{:+.2f} to {:+.2f}".format(*step.gain_db)
            yield f"  {step.snr_db:7.2f}  {gain:16}  {step.name}{'' if step.kept else ' (not kept)'}"
    yield ""
    yield "accuracy against predicted time"
    for candidate in result.front:
        name = f"{candidate.name}{'  <- chosen' * candidate.chosen}"
        yield f"  {candidate.snr_db:7.2f} dB  {time_text(candidate):>10}  {name}"
    yield ""
    if result.sizes:
        yield from _precision_lines(result, verbose)
        yield ""
    if result.widths:
        yield from _width_lines(result.widths, verbose)
        yield ""
    for name, snr in result.outputs_db.items():
        yield f"output {name}: {snr:.2f} dB"
    if result.float_nodes:
        shown = ", ".join(result.float_nodes[:4]) + (" ..." if len(result.float_nodes) > 4 else "")
        yield f"without an int8 form, or better in float: {shown}"
    yield from _summary(result, file, page)


def _precision_lines(result: Quantised, verbose: bool) -> Iterator[str]:
    yield "accuracy against flash, weights of 4 bits two to a byte (against 8 bits, 95 % of draws)"
    for point in result.sizes:
        said = f"{point_text(point)}{'  <- chosen' * point.chosen}"
        yield f"  {point.snr_db:7.2f} dB  {point.flash_bytes:>12,} bytes  {said}"
    if not verbose:
        return
    yield ""
    yield "weights by tensor: bits, bytes, their own signal to noise, what the outputs lose if it alone has 4 bits"
    for tensor in result.tensors:
        alone = "" if tensor.alone_db is None else f"{tensor.alone_db:.2f} dB"
        why = f"  ({tensor.reason})" if tensor.reason else ""
        yield f"  {tensor.bits}  {tensor.size_bytes:>10,}  {tensor.snr_db:6.1f} dB  {alone:>9}  {tensor.tensor}{why}"


def _width_lines(points: Sequence[WidePoint], verbose: bool) -> Iterator[str]:
    yield "activations of 16 bits, each step with its price (gain over the step before, 95 % of draws)"
    for point in points:
        if verbose or point.kept:
            said = f"{width_text(point, verbose)}{'' if point.kept else ' (not kept)'}{'  <- chosen' * point.chosen}"
            yield f"  {point.worst_db:7.2f} dB  {point.milliseconds:.3f} ms ({point.price_ms:+.3f})  {said}"


def width_text(point: WidePoint, every: bool = True) -> str:
    """Which tensors, how sure the gain is, and what leaves the NPU by it."""
    if not point.tensors:
        return "8 bits everywhere"
    shown = point.tensors if every else point.tensors[:MOST_NAMES]
    more = len(point.tensors) - len(shown)
    names = ", ".join(shown) + (f" and {more} more" if more else "")
    slow = f"; on the CPU now: {', '.join(point.on_cpu)}" if point.on_cpu else ""
    low, high = point.gain_db
    return f"16 bits in {names} ({low:+.2f} to {high:+.2f} dB){slow}"


def point_text(point: PrecisionPoint) -> str:
    """Which layers, and how sure the loss is."""
    changed = "" if point.changed is None else f", first class of {100 * point.changed:.1f} % of the samples changed"
    if not point.layers:
        return f"8 bits everywhere{changed}"
    gain = "{:+.2f} to {:+.2f}".format(*point.gain_db)
    where = f"4 bits in {count(point.layers, 'layer')}, {100 * point.share:.1f} % of the weights"
    return f"{where} ({gain} dB){changed}"


def _summary(result: Quantised, file: str, page: str) -> list[str]:
    chosen = result.chosen
    worst = min(result.outputs_db.values(), default=chosen.snr_db)
    poor = worst < POOR_DB
    alarm = Mark.ALARM if poor else None
    compiled = SummaryRow("latency", f"{time_text(chosen)} predicted")
    if chosen.refusal:
        compiled = SummaryRow("refused", f"the compiler refuses the model: {chosen.refusal}", Mark.ALARM)
    return summary_lines(
        (
            SummaryRow("accuracy", f"{worst:.1f} dB signal to noise against float, in the worst output", alarm),
            _flash(result),
            compiled,
            SummaryRow("written", file),
            SummaryRow("page", page) if page else None,
            None if chosen.refusal or poor else next_row(shell("generate", file)),
            next_row("other samples, or --wide: see the notes") if poor else None,
        )
    )


def _flash(result: Quantised) -> SummaryRow | None:
    chosen = next((point for point in result.sizes if point.chosen), None)
    if chosen is None:
        return None
    whole = max(point.flash_bytes for point in result.sizes)
    saved = f"{whole - chosen.flash_bytes:,} fewer than with 8 bits" if chosen.layers else "as with 8 bits"
    return SummaryRow("flash", f"{chosen.flash_bytes:,} bytes, {saved} (where 4 bits stay packed)")


def time_text(candidate: QuantizedCandidate) -> str:
    if candidate.milliseconds is None:
        return "refused"
    span = " ({:.3f} to {:.3f})".format(*candidate.span_ms) if candidate.span_ms else ""
    return f"{candidate.milliseconds:.3f} ms{span}"


def as_json(result: Quantised) -> dict[str, Any]:
    return {
        "model": result.source,
        "samples": result.samples,
        "held_samples": result.held_samples,
        "outputs": {name: round(snr, 3) for name, snr in result.outputs_db.items()},
        "steps": [step.as_dict() for step in result.steps],
        "front": [candidate.as_dict() for candidate in result.front],
        "float_nodes": list(result.float_nodes),
        "notes": list(result.notes),
        "sizes": [point.as_dict() for point in result.sizes],
        "tensors": [tensor.as_dict() for tensor in result.tensors],
        "widths": [point.as_dict() for point in result.widths],
    }


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
    yield "Ways that were tried", front_plot(result.front) + ways
    if result.sizes:
        yield "Accuracy against flash", size_plot(result.sizes) + _sizes_table(result.sizes)
        yield "Weights by tensor", _tensors_table(result.tensors)
    if result.widths:
        yield "Activations of 16 bits", _widths_table(result.widths)
    yield "Reports and files", links(more.files or {})
    outputs = [(name, f"{snr:.2f} dB") for name, snr in result.outputs_db.items()]
    yield "Outputs", table(("output", "signal to noise against float"), outputs, "Outputs") + _notes(result)
    steps = [
        (step.name, f"{step.snr_db:.2f} dB", _gain_text(step), "kept" if step.kept else "undone")
        for step in result.steps
    ]
    yield "Steps", table(("step", "signal to noise", "gain, 95 % of draws", ""), steps, "Steps")
    yield "Layers", _layers_table(more)
    yield "What was quantised", terms(more.origin)


def _notes(result: Quantised) -> str:
    stays = f"Without an int8 form, or better in float: {', '.join(result.float_nodes)}." if result.float_nodes else ""
    return "".join(map(note, filter(None, (stays, *result.notes))))


def _layers_table(more: QuantizePageParts) -> str:
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


def _gain_text(step: Step) -> str:
    return "" if step.gain_db is None else "{:+.2f} to {:+.2f} dB".format(*step.gain_db)


def _sizes_table(points: Sequence[PrecisionPoint]) -> str:
    rows = [
        (str(number), f"{point_text(point)}{' (chosen)' if point.chosen else ''}", f"{point.snr_db:.2f} dB",
         f"{point.flash_bytes:,}")
        for number, point in enumerate(points, 1)
    ]  # fmt: skip
    return table(("", "weights", "signal to noise", "bytes of flash"), rows, "Choices of bits, each measured")


def _widths_table(points: Sequence[WidePoint]) -> str:
    rows = [
        (f"{width_text(point)}{' (chosen)' if point.chosen else ''}", f"{point.worst_db:.2f} dB",
         f"{point.milliseconds:.3f} ms", f"{point.price_ms:+.3f} ms", "kept" if point.kept else "undone")
        for point in points
    ]  # fmt: skip
    heads = ("tensors", "signal to noise of the worst output", "predicted", "price", "")
    return table(heads, rows, "Steps of widening, each measured in the chip's arithmetic")


def _tensors_table(tensors: Sequence[TensorPrecision]) -> str:
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


def front_plot(candidates: Sequence[QuantizedCandidate]) -> str:
    """Milliseconds to the right, decibels upwards; numbers as in the table."""
    dots = [
        ScatterDot(str(number), c.milliseconds, c.snr_db, f"{c.name}: {c.snr_db:.2f} dB, {time_text(c)}", c.chosen)
        for number, c in enumerate(candidates, 1)
        if c.milliseconds is not None
    ]
    return scatter(dots, "predicted latency (ms)", "signal to noise (dB)") if dots else ""
