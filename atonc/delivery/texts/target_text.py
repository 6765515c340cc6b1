"""What `atonc validate` shows of boards: the virtual one; a real one with ST's figures, measured beside predicted
times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from atonc.insight.explain.types import Measured, MeasuredBlock
from atonc.insight.report.document import Block, Chapter, Column, Document, Table, fields_of
from atonc.insight.report.validate_text import metrics, output_data
from atonc.machine.base.reasons import CheckResult
from atonc.machine.base.words import count

if TYPE_CHECKING:
    from atonc.delivery.trials.boarding import BoardValidation
    from atonc.delivery.trials.targeting import TargetValidation

_MOST_BLOCKS = 40  # lines, unless all are wanted
BLOCKS = (
    Column[MeasuredBlock]("epochs", lambda one: f"{one.first}-{one.last}" if one.last > one.first else str(one.first)),
    Column[MeasuredBlock]("measured ms", lambda one: one.measured_ms, "{:.4f}"),
    Column[MeasuredBlock]("predicted", lambda one: one.predicted_ms, "{:.4f}"),
    Column[MeasuredBlock]("ratio", lambda one: one.ratio if one.predicted_ms else None, "{:.2f}"),
    Column[MeasuredBlock]("before", lambda one: one.before, "{:,}"),
    Column[MeasuredBlock]("core", lambda one: one.core, "{:,}"),
    Column[MeasuredBlock]("after", lambda one: one.after, "{:,}"),
    Column[MeasuredBlock]("NPU cycles", lambda one: one.npu_cycles, "{:,}"),
    Column[MeasuredBlock]("predicted", lambda one: one.predicted_cycles, "{:,}"),
    Column[MeasuredBlock]("bottleneck", lambda one: one.bound_by, left=True),
)


def document(found: TargetValidation, verbose: bool = False) -> Document:
    verdict = "every byte equals the emulator's" if found.equal else f"{found.different} bytes differ from the emulator"
    said: list[Block] = [
        f"target: {found.line}, protocol {found.protocol}, {found.measured.source.split(',')[0]}, "
        f"NPU {found.system.npu_hz / 1e6:.0f} MHz",
        f"network {found.model.name} ({found.model.description}): {found.identity}",
        f"{_runs(len(found.turns), found.sequences)}, {found.compared:,} bytes of outputs: {verdict}",
    ]
    if found.faults:
        said.append(f"the line had {found.faults} faults: everything was asked again until it was certain")
    sections = [Chapter("", said)]
    if found.outputs:
        rows = [(output.name, output, "") for output in found.outputs]
        sections.append(Chapter(f"against {found.reference}:", [metrics(rows)]))
    sections.append(Chapter("", list(measured_blocks(found.measured, verbose))))
    return Document(sections=sections, data=lambda: as_json(found))


def _runs(samples: int, sequences: int) -> str:
    if not sequences:
        return count(samples, "sample")
    return f"{count(samples, 'frame')} of {count(sequences, 'sequence')}, each after a reset of the states"


def measured_blocks(measured: Measured, verbose: bool) -> Iterator[Block]:
    predicted = sum(block.predicted_ms for block in measured.blocks)
    rate = f", {1e3 / measured.total_ms:,.0f} inferences/s" if measured.total_ms else ""
    total = f"inference: {measured.total_ms:.3f} ms{rate}"
    if not measured.blocks:
        yield from (total, "the firmware does not report single epochs")
        return
    span = " ({:.3f} to {:.3f})".format(*measured.predicted_span_ms) if measured.predicted_span_ms else ""
    yield f"{total}; predicted {predicted:.3f} ms{span}"
    shown = measured.blocks if verbose else measured.blocks[:_MOST_BLOCKS]
    yield Table(BLOCKS, shown, "Epochs", titles=True)
    if left := len(measured.blocks) - len(shown):
        yield f"... and {left} more (-v, --json)"


def as_json(found: TargetValidation) -> dict[str, Any]:
    measured = found.measured
    return {
        "mode": "target",
        "samples": len(found.turns),
        **({"sequences": found.sequences} if found.sequences else {}),
        **fields_of(found, "equal", "bytes_compared=compared", "bytes_different=different"),
        "target": {
            **fields_of(found, "line", "protocol"),
            **fields_of(found.system, "device", "cpu_hz", "npu_hz"),
            **fields_of(found.model, "network=name", "signature", "runtime=description"),
            **fields_of(found, "identity", "faults"),
        },
        "reference": found.reference,
        "outputs": [output_data(output) for output in found.outputs],
        "latency_ms": measured.total_ms,
        "predicted_ms": sum(block.predicted_ms for block in measured.blocks) if measured.blocks else None,
        "predicted_span_ms": list(measured.predicted_span_ms),
        "epochs": [asdict(block) | {"ratio": block.ratio} for block in measured.blocks],
    }


def virtual(found: BoardValidation, notes: Sequence[str] = ()) -> Document:
    """`notes`: what everybody should know of the network."""
    verdict = "every byte equals the emulator's" if found.equal else f"{found.bytes_different} bytes differ"
    said = [
        f"validation on the virtual board (Cortex-M33 code, runtime: {found.runtime}): "
        f"{_runs(found.samples, found.sequences)}, {count(found.outputs, 'output')}, {found.bytes_compared} bytes: "
        f"{verdict}",
        *([f"first difference: {found.first_difference}"] if found.first_difference else []),
        f"last inference: {found.cycles:,} CPU cycles, of them {found.instructions:,} instructions; "
        f"NPU {found.npu_cycles:,} cycles by the hardware model",
        f"clocks: NPU {found.npu_mhz:.0f} MHz, CPU {found.cpu_mhz:.0f} MHz, flash {found.flash_mb_per_s:.0f} MB/s",
        "CPU layers here are code without vector instructions: the chip's Cortex-M55 takes less time for them",
        *(f"note: {note}" for note in notes),
    ]
    differ = f"{found.bytes_different} of {found.bytes_compared} bytes differ from the emulator's"
    return Document(
        sections=[Chapter("", said)],
        data=lambda: asdict(found) | {"equal": found.equal, "core": "cortex-m33", "notes": list(notes)},
        checks=[CheckResult("outputs on the virtual board", found.equal, differ)],
    )
