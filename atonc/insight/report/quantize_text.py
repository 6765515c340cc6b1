"""What `atonc quantize` says: signal to noise by step and output, and the front of accuracy against milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atonc.insight.quantizing.types import Quantised, QuantizedCandidate
from atonc.insight.report.marks import Mark, head
from atonc.insight.report.summary import SummaryRow, next_row, summary_lines
from atonc.machine.base.words import count


def lines(result: Quantised, file: str, verbose: bool = False, page: str = "") -> Iterator[str]:
    used = f"{count(result.samples, 'sample')}, {result.held_samples} of them only to judge"
    yield head("model ", f"{result.source}: int8 in {file} ({used})")
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
    for name, snr in result.outputs_db.items():
        yield f"output {name}: {snr:.2f} dB"
    if result.float_nodes:
        shown = ", ".join(result.float_nodes[:4]) + (" ..." if len(result.float_nodes) > 4 else "")
        yield f"without an int8 form, or better in float: {shown}"
    yield from _summary(result, file, page)


def _summary(result: Quantised, file: str, page: str) -> list[str]:
    chosen = result.chosen
    worst = min(result.outputs_db.values(), default=chosen.snr_db)
    compiled = SummaryRow("latency", f"{time_text(chosen)} predicted")
    if chosen.refusal:
        compiled = SummaryRow("refused", f"the compiler refuses the model: {chosen.refusal}", Mark.ALARM)
    return summary_lines(
        (
            SummaryRow("accuracy", f"{worst:.1f} dB signal to noise against float, in the worst output"),
            compiled,
            SummaryRow("written", file),
            SummaryRow("page", page) if page else None,
            None if chosen.refusal else next_row(f"atonc generate {file}"),
        )
    )


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
    }
