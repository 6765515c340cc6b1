"""What `atonc recordings` shows: what a recording says of itself, two of them side by side, what a meter saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from atonc.delivery.recordings.making import BlockPair, RecordingComparison
from atonc.delivery.recordings.power import MeasuredEnergy, PowerTrace
from atonc.delivery.recordings.store import Fault, Recording
from atonc.insight.report.document import Block, Chapter, Column, Document, Table, Terms, fields_of
from atonc.machine.base.words import count
from atonc.machine.cost.energy import BOARD, COVERS, Between, EnergyEstimate, amount

_SAME = {True: "the same program", False: "another program", None: "one of the two has no hash of its program"}
BLOCKS = (
    Column[BlockPair]("epochs", lambda one: f"{one.first}-{one.last}" if one.last > one.first else str(one.first)),
    Column[BlockPair]("recorded ms", lambda one: one.recorded_ms, "{:.4f}"),
    Column[BlockPair]("other ms", lambda one: one.other_ms, "{:.4f}"),
    Column[BlockPair]("ratio", lambda one: one.ratio, "{:.2f}"),
)


def checked(recording: Recording, wrong: Sequence[Fault], missing: Sequence[Fault]) -> Document:
    blocks: list[Block] = list(_told(recording)) if recording.milliseconds else []
    for what, faults in (("not true", wrong), ("to give it on", missing)):
        blocks += [f"{what}: {one.seen}. Cause: {one.rule}. Fix: {one.remedy}." for one in faults]
    blocks += [] if wrong else ["hashes, shapes, clocks and times agree with each other"]
    told = {key: value for key, value in recording.manifest().items() if key not in ("format", "version")}
    data = {
        "recording": told,
        "samples": recording.samples,
        "bytes_different": recording.different if recording.expects else None,
        "faults": [asdict(fault) for fault in wrong],
        "missing": [asdict(fault) for fault in missing],
    }
    return Document(sections=[Chapter("", blocks)], data=lambda: data)


def _told(recording: Recording) -> tuple[str, Terms]:
    ran, stated, times = recording.ran_with, recording.stated, recording.milliseconds
    npu = f", NPU {ran.npu_hz / 1e6:g} MHz" if ran.npu_hz else ""
    where = f"{stated.board} (emulated)" if recording.virtual else stated.board or "a board that is not named"
    outputs = "no expected values"
    if recording.expects:
        wrong = recording.different
        outputs = f"{wrong:,} bytes are not the emulator's" if wrong else "every byte is the emulator's"
    terms = {
        "model": recording.model_sha256 or "not known",
        "program": recording.program or "not known",
        "made with": f"atonc {ran.atonc}; {ran.firmware}",
        "options": " ".join(ran.options),
        "outputs": outputs,
        "inference": f"{min(times):.3f} to {max(times):.3f} ms, {count(len(recording.blocks), 'block')} of epochs",
        "licence": stated.licence or "not stated",
    }
    line = f"{count(recording.samples, 'sample')} on {where}: STM32N6 ({ran.device:#x}) at {ran.cpu_hz / 1e6:g} MHz"
    return f"{line}{npu}", Terms({name: value for name, value in terms.items() if value})


def compared(found: RecordingComparison) -> Document:
    equal = "every byte is the same" if found.equal else f"{found.different:,} bytes differ"
    said = [
        f"beside {found.other}: {_SAME[found.same_program]}",
        f"{count(found.samples, 'sample')} with equal inputs, {found.compared:,} bytes of outputs: {equal}",
    ]
    blocks = [{**asdict(one), "ratio": one.ratio} for one in found.blocks]
    sections = [Chapter("", said), Chapter("", [Table(BLOCKS, found.blocks, "Epochs", titles=True)])]
    return Document(sections=sections, data=lambda: {**asdict(found), "blocks": blocks, "equal": found.equal})


def power(trace: PowerTrace, found: MeasuredEnergy, estimate: EnergyEstimate | None) -> Document:
    size = f"{len(trace.seconds):,} samples of {trace.what}, one every {1e6 * trace.step_s:.4g} us"
    said = [
        f"{size}; {count(len(found.windows), 'inference')} by {found.found_by}",
        f"measured  : {amount(found.uj)} +- {amount(found.within_uj)}/inference, {found.milliseconds:.3f} ms, "
        f"{found.milliwatts:.1f} mW",
    ]
    if estimate is not None:
        rails = (("core rail", estimate.core_uj), (COVERS, estimate.uj), (f"whole {BOARD}", estimate.board_uj))
        said += [f"estimated : {_estimated(span, found)} ({rail})" for rail, span in rails]
    data = {
        "samples": len(trace.seconds),
        "step_us": 1e6 * trace.step_s,
        "columns": trace.what,
        **fields_of(found, "found_by", "energy_uj=uj", "within_uj", "milliseconds", "milliwatts"),
        "inferences": [asdict(window) for window in found.windows],
        "estimate": estimate.as_dict() if estimate else None,
        "inside": _holds(estimate.core_uj, found) if estimate else None,
    }
    return Document(sections=[Chapter("", said)], data=lambda: data)


def _estimated(span: Between, found: MeasuredEnergy) -> str:
    inside = "within bounds" if _holds(span, found) else "not within bounds"
    return f"{amount(span.likely)}, {amount(span.low)} to {amount(span.high)}; the measured figure is {inside}"


def _holds(span: Between, found: MeasuredEnergy) -> bool:
    return span.low <= found.uj + found.within_uj and found.uj - found.within_uj <= span.high
