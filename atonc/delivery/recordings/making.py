"""Recordings of what a board did, and a recording beside another one or beside a folder of generated files on the
emulator: bytes, and times by block."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compile.reproduce import MODEL_HASH
from atonc.delivery.recordings.store import (
    EXPECTED,
    INPUTS,
    OUTPUTS,
    VIRTUAL,
    Array,
    RanWith,
    RecordedBlock,
    RecordedTensor,
    Recording,
    Statement,
    different_bytes,
    read,
)
from atonc.delivery.trials.loading import Loaded
from atonc.delivery.trials.targeting import FolderSide, TargetValidation
from atonc.delivery.wire.messages import TensorInfo
from atonc.insight.runs import runs
from atonc.machine.base.about import __version__
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu import tensors
from atonc.machine.emu.files.types import BufferInfo

_COMMAND = ("atonc", "generate")


def of_validation(found: TargetValidation, stated: Statement, reproduce: Mapping[str, str]) -> Recording:
    model, system = found.model, found.system
    arrays: dict[str, Array] = {}
    for k, tensor in enumerate(model.inputs):
        arrays[f"{INPUTS}_{k + 1}"] = _stacked([turn.inputs[k] for turn in found.turns], tensor)
    for k, tensor in enumerate(model.outputs):
        arrays[f"{OUTPUTS}_{k + 1}"] = _stacked([turn.outputs[k] for turn in found.turns], tensor)
        arrays[f"{EXPECTED}_{k + 1}"] = _stacked([turn.expected[k] for turn in found.turns], tensor)
    firmware = f"protocol {found.protocol}, {model.description}"
    return Recording(
        stated=stated,
        ran_with=RanWith(__version__, firmware, system.device, system.cpu_hz, system.npu_hz, _options(reproduce)),
        model_sha256=reproduce.get(MODEL_HASH, ""),
        program=model.signature,
        inputs=tuple(_told(tensor) for tensor in model.inputs),
        outputs=tuple(_told(tensor) for tensor in model.outputs),
        milliseconds=tuple(turn.milliseconds for turn in found.turns),
        blocks=tuple(
            RecordedBlock(one.first, one.last, one.before, one.core, one.after, one.predicted_ms)
            for one in found.measured.blocks
        ),
        arrays=arrays,
    )


def of_image(loaded: Loaded, stated: Statement) -> Recording:
    """One inference; nobody has worked out what it should give."""
    image = loaded.plan.file.read_bytes() + loaded.plan.params
    ins, outs = loaded.edges.inputs.inputs, loaded.edges.outputs
    arrays = {f"{OUTPUTS}_{k}": value[None] for k, value in enumerate(loaded.arrays.values(), 1)}
    for k, (info, stored) in enumerate(zip(ins, loaded.inputs, strict=True), 1):
        arrays[f"{INPUTS}_{k}"] = np.frombuffer(stored, tensors.dtype_of(info)).reshape(1, *tensors.io_shape(info))
    hz, mode = round(loaded.mhz * 1e6), f"--mode={loaded.plan.install_mode}"
    return Recording(
        stated=stated if stated.board or not loaded.virtual else Statement(VIRTUAL, stated.licence),
        ran_with=RanWith(__version__, loaded.line, loaded.device, hz, loaded.npu_hz, (mode,)),
        model_sha256=hashlib.sha256(image).hexdigest(),
        program="",
        inputs=tuple(_edge(info) for info in ins),
        outputs=tuple(_edge(info) for info in outs),
        milliseconds=(1e3 * loaded.cycles / hz,),
        blocks=tuple(RecordedBlock(one.first, one.last, one.pre, one.npu, one.post) for one in loaded.epochs),
        arrays=arrays,
    )


def _options(reproduce: Mapping[str, str]) -> tuple[str, ...]:
    """What was asked of the compiler, without the names of model and network."""
    words = shlex.split(reproduce.get("command", ""))
    if tuple(words[:2]) != _COMMAND:
        return ()
    words = words[3:]
    return tuple(words[2:] if words[:1] == ["-n"] else words)


def _stacked(values: Sequence[bytes], tensor: TensorInfo) -> Array:
    return np.frombuffer(b"".join(values), tensor.dtype).reshape(len(values), *_shape(tensor))


def _shape(tensor: TensorInfo) -> tuple[int, ...]:
    """Samples take the place of a batch of one."""
    return tensor.shape[1:] if len(tensor.shape) > 1 and tensor.shape[0] == 1 else tensor.shape


def _told(tensor: TensorInfo) -> RecordedTensor:
    return RecordedTensor(_shape(tensor), tensor.dtype.str, float(tensor.scale), tensor.zero_point)


def _edge(info: BufferInfo) -> RecordedTensor:
    scale, zero_point = (info.scales[0], info.offsets[0]) if info.scales else (0.0, 0)
    return RecordedTensor(tensors.io_shape(info), tensors.dtype_of(info).str, scale, zero_point)


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
    return _folder(recording, other) if build else _recordings(recording, read(other))


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
