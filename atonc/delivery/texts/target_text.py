"""What `atonc validate --mode target` shows: the board, ST's figures, measured beside predicted times."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from atonc.delivery.trials.targeting import TargetValidation
from atonc.insight.explain.types import Measured, MeasuredBlock
from atonc.insight.report.validate_text import figure_rows, output_data
from atonc.machine.base.words import count

_MOST_BLOCKS = 40  # lines, unless all are wanted


def lines(found: TargetValidation, verbose: bool = False) -> list[str]:
    verdict = "every byte equals the emulator's" if found.equal else f"{found.different} bytes differ from the emulator"
    text = [
        f"target: {found.line}, protocol {found.protocol}, {found.measured.source.split(',')[0]}, "
        f"NPU {found.system.npu_hz / 1e6:.0f} MHz",
        f"network {found.model.name} ({found.model.description}): {found.identity}",
        f"{count(len(found.turns), 'sample')}, {found.compared:,} bytes of outputs: {verdict}",
    ]
    if found.faults:
        text.append(f"the line had {found.faults} faults: everything was asked again until it was certain")
    if found.outputs:
        text += ["", f"against {found.reference}:", *figure_rows(found.outputs)]
    return text + measured_lines(found.measured, verbose)


def measured_lines(measured: Measured, verbose: bool) -> list[str]:
    predicted = sum(block.predicted_ms for block in measured.blocks)
    rate = f", {1e3 / measured.total_ms:.1f} a second" if measured.total_ms else ""
    text = ["", f"inference: {measured.total_ms:.3f} ms{rate}"]
    if not measured.blocks:
        return [*text, "the firmware does not tell single epochs"]
    span = " ({:.3f} to {:.3f})".format(*measured.predicted_span_ms) if measured.predicted_span_ms else ""
    text[-1] += f"; predicted {predicted:.3f} ms{span}"
    text.append(
        f"{'epochs':>11} {'measured ms':>12} {'predicted':>10} {'ratio':>6} {'before':>9} {'core':>11} {'after':>9} "
        f"{'NPU cycles':>11} {'predicted':>11}  bound by"
    )
    shown = measured.blocks if verbose else measured.blocks[:_MOST_BLOCKS]
    text += [_row(block) for block in shown]
    left = len(measured.blocks) - len(shown)
    return text + ([f"... and {left} more (-v, --json)"] if left else [])


def _row(block: MeasuredBlock) -> str:
    epochs = str(block.first) if block.first == block.last else f"{block.first}-{block.last}"
    ratio = f"{block.ratio:6.2f}" if block.predicted_ms else "      "
    return (
        f"{epochs:>11} {block.measured_ms:12.4f} {block.predicted_ms:10.4f} {ratio} {block.before:9,} {block.core:11,} "
        f"{block.after:9,} {block.npu_cycles:11,} {block.predicted_cycles:11,}  {block.bound_by}"
    )


def as_json(found: TargetValidation) -> dict[str, Any]:
    measured = found.measured
    return {
        "mode": "target",
        "samples": len(found.turns),
        "equal": found.equal,
        "bytes_compared": found.compared,
        "bytes_different": found.different,
        "target": {
            "line": found.line,
            "protocol": found.protocol,
            "device": found.system.device,
            "cpu_hz": found.system.cpu_hz,
            "npu_hz": found.system.npu_hz,
            "network": found.model.name,
            "signature": found.model.signature,
            "runtime": found.model.description,
            "identity": found.identity,
            "faults": found.faults,
        },
        "reference": found.reference,
        "outputs": [output_data(output) for output in found.outputs],
        "latency_ms": measured.total_ms,
        "predicted_ms": sum(block.predicted_ms for block in measured.blocks) if measured.blocks else None,
        "predicted_span_ms": list(measured.predicted_span_ms),
        "epochs": [asdict(block) | {"ratio": block.ratio} for block in measured.blocks],
    }
