"""What `atonc quantize` says: signal to noise by step and output, the fronts of accuracy against time and flash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from atonc.insight.quantizing.judge import POOR_DB
from atonc.insight.quantizing.types import PrecisionPoint, Quantised, QuantizedCandidate, WidePoint
from atonc.insight.report.marks import Mark, head
from atonc.insight.report.summary import SummaryRow, next_row, summary_lines
from atonc.machine.base.words import count, shell

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
