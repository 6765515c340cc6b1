"""Recordings of what a board did."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from atonc.compiler.compile.reproduce import MODEL_HASH
from atonc.delivery.recordings.recording import (
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
)
from atonc.delivery.trials.load_run import Loaded
from atonc.delivery.trials.targeting import TargetValidation
from atonc.delivery.wire.messages import TensorInfo
from atonc.machine.base.about import __version__
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
