"""Recordings as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from atonc.delivery.recordings.making import RecordingComparison
from atonc.delivery.recordings.power import MeasuredEnergy, PowerTrace
from atonc.delivery.recordings.store import Fault, Recording
from atonc.machine.base.words import count
from atonc.machine.cost.energy import Between, EnergyEstimate, amount


def check_lines(recording: Recording, wrong: Sequence[Fault], missing: Sequence[Fault]) -> list[str]:
    ran, stated = recording.ran_with, recording.stated
    npu = f", NPU {ran.npu_hz / 1e6:g} MHz" if ran.npu_hz else ""
    where = f"{stated.board} (emulated)" if recording.virtual else stated.board or "a board that is not named"
    found = [
        f"{count(recording.samples, 'sample')} on {where}: STM32N6 ({ran.device:#x}) at {ran.cpu_hz / 1e6:g} MHz{npu}",
        f"model          : {recording.model_sha256 or 'not known'}",
        f"program        : {recording.program or 'not known'}",
        f"made with      : atonc {ran.atonc}; {ran.firmware}",
        *([f"options        : {' '.join(ran.options)}"] if ran.options else []),
        f"outputs        : {_outputs(recording)}",
        f"inference      : {min(recording.milliseconds):.3f} to {max(recording.milliseconds):.3f} ms, "
        f"{count(len(recording.blocks), 'block')} of epochs",
        f"licence        : {stated.licence or 'not stated'}",
    ] if recording.milliseconds else []
    found += [f"not true       : {_told(fault)}" for fault in wrong]
    found += [f"to give it on  : {_told(fault)}" for fault in missing]
    return [*found, "" if wrong else "hashes, shapes, clocks and times agree with each other"]


def _told(fault: Fault) -> str:
    return f"{fault.seen}. Rule: {fault.rule}. What to do: {fault.remedy}."


def _outputs(recording: Recording) -> str:
    if not recording.expects:
        return "nobody worked out what they should be"
    wrong = recording.different
    return f"{wrong:,} bytes are not the emulator's" if wrong else "every byte is the emulator's"


def compare_lines(found: RecordingComparison) -> list[str]:
    same = {True: "the same program", False: "another program", None: "one of the two has no hash of its program"}
    equal = "every byte is the same" if found.equal else f"{found.different:,} bytes differ"
    lines = [
        f"beside {found.other}: {same[found.same_program]}",
        f"{count(found.samples, 'sample')} with equal inputs, {found.compared:,} bytes of outputs: {equal}",
    ]
    if found.blocks:
        lines += ["", f"{'epochs':>11}{'recorded ms':>14}{'other ms':>12}{'ratio':>8}"]
        for one in found.blocks:
            span = f"{one.first}-{one.last}" if one.last > one.first else f"{one.first}"
            lines.append(f"{span:>11}{one.recorded_ms:14.4f}{one.other_ms:12.4f}{one.ratio:8.2f}")
    return lines


def check_json(recording: Recording, wrong: Sequence[Fault], missing: Sequence[Fault]) -> dict[str, Any]:
    told = {key: value for key, value in recording.manifest().items() if key not in ("format", "version")}
    return {
        "recording": told,
        "samples": recording.samples,
        "bytes_different": recording.different if recording.expects else None,
        "faults": [asdict(fault) for fault in wrong],
        "missing": [asdict(fault) for fault in missing],
    }


def compare_json(found: RecordingComparison) -> dict[str, Any]:
    blocks = [{**asdict(one), "ratio": one.ratio} for one in found.blocks]
    return {**asdict(found), "blocks": blocks, "equal": found.equal}


def power_lines(trace: PowerTrace, found: MeasuredEnergy, estimate: EnergyEstimate | None) -> list[str]:
    size = f"{len(trace.seconds):,} samples of {trace.what}, one every {1e6 * trace.step_s:.4g} us"
    lines = [
        f"{size}; {count(len(found.windows), 'inference')} by {found.found_by}",
        f"measured       : {amount(found.uj)} +- {amount(found.within_uj)} an inference, {found.milliseconds:.3f} ms, "
        f"{found.milliwatts:.1f} mW",
    ]
    if estimate is not None:
        rails = (("core rail", estimate.core_uj), ("core and memories", estimate.uj))
        lines += [f"estimated      : {_estimated(span, found)} ({rail})" for rail, span in rails]
    return lines


def _estimated(span: Between, found: MeasuredEnergy) -> str:
    inside = "inside" if _holds(span, found) else "not inside"
    return f"{amount(span.likely)}, {amount(span.low)} to {amount(span.high)}; the measured figure is {inside}"


def _holds(span: Between, found: MeasuredEnergy) -> bool:
    return span.low <= found.uj + found.within_uj and found.uj - found.within_uj <= span.high


def power_json(trace: PowerTrace, found: MeasuredEnergy, estimate: EnergyEstimate | None) -> dict[str, Any]:
    return {
        "samples": len(trace.seconds),
        "step_us": 1e6 * trace.step_s,
        "columns": trace.what,
        "found_by": found.found_by,
        "energy_uj": found.uj,
        "within_uj": found.within_uj,
        "milliseconds": found.milliseconds,
        "milliwatts": found.milliwatts,
        "inferences": [asdict(window) for window in found.windows],
        "estimate": estimate.as_dict() if estimate else None,
        "inside": _holds(estimate.core_uj, found) if estimate else None,
    }
