"""A recording beside another one, or beside a folder of generated files on the emulator: bytes, and times by block."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from atonc.delivery.recordings import files
from atonc.delivery.recordings.recording import INPUTS, OUTPUTS, Recording, different_bytes
from atonc.delivery.trials.targeting import FolderSide
from atonc.insight.runs import runs
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class BlockPair:
    first: int
    last: int
    recorded_ms: float
    other_ms: float

    @property
    def ratio(self) -> float:
        return self.recorded_ms / self.other_ms if self.other_ms else 0.0


@dataclass(frozen=True)
class RecordingComparison:
    other: str  # what it was compared with
    same_program: bool | None  # None: one of the two has no hash
    samples: int
    compared: int  # bytes of outputs
    different: int
    blocks: tuple[BlockPair, ...]

    @property
    def equal(self) -> bool:
        return self.different == 0


def compare(recording: Recording, other: Path) -> RecordingComparison:
    build = other.is_dir() or other.suffix == ".c"
    return _folder(recording, other) if build else _recordings(recording, files.read(other))


def _recordings(one: Recording, other: Recording) -> RecordingComparison:
    if one.inputs != other.inputs or one.outputs != other.outputs:
        raise InputError("the two are of networks with other inputs or outputs", rule="shapes, types and scales agree")
    samples = _common(one, other)
    if not samples:
        rule, remedy = "outputs are compared for equal inputs", "record both with one --valinput file or one --seed"
        raise InputError("no sample of one is in the other", rule=rule, remedy=remedy)
    compared = different = 0
    for mine, theirs in samples:
        for k in range(len(one.outputs)):
            a, b = one.array(OUTPUTS, k)[mine], other.array(OUTPUTS, k)[theirs]
            compared += a.nbytes
            different += different_bytes(a, b)
    clock = other.ran_with.cpu_hz
    known = {(block.first, block.last): 1e3 * block.cycles / clock for block in other.blocks}
    return RecordingComparison(
        f"a recording on {other.stated.board or 'an unnamed board'}",
        one.program == other.program if one.program and other.program else None,
        len(samples),
        compared,
        different,
        _pairs(one, known),
    )


def _common(one: Recording, other: Recording) -> list[tuple[int, int]]:
    """Samples with equal inputs, each by its number in both."""
    known: dict[bytes, int] = {}
    for k in range(other.samples):
        known.setdefault(_input_bytes(other, k), k)
    found = ((k, known.get(_input_bytes(one, k))) for k in range(one.samples))
    return [(mine, theirs) for mine, theirs in found if theirs is not None]


def _input_bytes(recording: Recording, sample: int) -> bytes:
    return b"".join(recording.array(INPUTS, k)[sample].tobytes() for k in range(len(recording.inputs)))


def _folder(recording: Recording, folder: Path) -> RecordingComparison:
    net = runs.load(runs.RunOptions(folder))
    _require_edges(recording, "input", [info.size_bytes for info in net.inputs])
    _require_edges(recording, "output", [info.size_bytes for info in net.outputs])
    compared = different = 0
    for sample in range(recording.samples):
        for k, info in enumerate(net.inputs):
            net.memory.write(info.address, np.frombuffer(recording.array(INPUTS, k)[sample].tobytes(), np.uint8))
        for _ in net.run():
            pass
        for k, info in enumerate(net.outputs):
            mine = np.frombuffer(recording.array(OUTPUTS, k)[sample].tobytes(), np.uint8)
            compared += mine.size
            different += different_bytes(mine, net.memory.read(info.address, mine.size))
    side, ran = FolderSide(net).side, recording.ran_with
    known = {
        (block.first, block.last): sum(
            side.predicted_ms(cost, ran.cpu_hz, ran.npu_hz)
            for number, cost in side.costs
            if block.first <= number <= block.last
        )
        for block in recording.blocks
    }
    same = recording.program == side.signature if recording.program else None
    return RecordingComparison(
        f"{net.network.c_file.name} on the emulator", same, recording.samples, compared, different,
        _pairs(recording, known),
    )  # fmt: skip


def _pairs(recording: Recording, known: dict[tuple[int, int], float]) -> tuple[BlockPair, ...]:
    clock = recording.ran_with.cpu_hz
    blocks = ((block, known.get((block.first, block.last))) for block in recording.blocks)
    return tuple(
        BlockPair(block.first, block.last, 1e3 * block.cycles / clock, other)
        for block, other in blocks
        if other is not None
    )


def _require_edges(recording: Recording, what: str, sizes: Sequence[int]) -> None:
    tensors = recording.inputs if what == "input" else recording.outputs
    recorded = [prod(one.shape) * np.dtype(one.dtype).itemsize for one in tensors]
    if recorded != list(sizes):
        seen: Any = f"{what}s of {recorded} bytes, the folder has {list(sizes)}"
        raise InputError(f"the recording is of another network: {seen}", remedy="give the folder that was on the board")
