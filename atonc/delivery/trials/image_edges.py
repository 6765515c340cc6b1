"""Inputs and outputs of an installed image, as the firmware that loaded it tells them: enough to make values for them,
and to read what comes out."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.delivery.wire.messages import TensorInfo
from atonc.insight.runs import runs
from atonc.insight.runs.runs import EdgeBuffers
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu import tensors
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.emu.files.types import BufferInfo

_FLOAT = 1  # DataType_FLOAT
_POSITIONS = ("", "First", "Last", "Mixed")
_WORDS = 7  # in front of the shape
_TOLD = "ATONC EDGE "


@dataclass(frozen=True)
class ImageEdges:
    inputs: EdgeBuffers
    outputs: tuple[BufferInfo, ...]

    def stored(self, files: Sequence[Path], seed: int) -> list[bytes]:
        """Inputs from files, or from the seed, as they lie in memory."""
        chosen = runs.choose_from(self.inputs, files, seed)
        return [_stored(info, chosen[info.name]) for info in self.inputs.inputs]

    def arrays(self, outputs: Sequence[bytes | Bytes]) -> Mapping[str, NDArray[Any]]:
        """Bytes of the outputs by name, in shape and type."""
        return {
            info.name: np.frombuffer(bytes(data), tensors.dtype_of(info)).reshape(tensors.io_shape(info))
            for info, data in zip(self.outputs, outputs, strict=True)
        }


def told(lines: Sequence[str]) -> ImageEdges:
    """From what our loader prints."""
    rows = [line.removeprefix(_TOLD).split() for line in lines if line.startswith(_TOLD)]
    sides = {side: tuple(_buffer(row[1:]) for row in rows if row[0] == side) for side in ("IN", "INNER", "OUT")}
    return ImageEdges(EdgeBuffers(sides["IN"], sides["INNER"]), sides["OUT"])


def _buffer(words: Sequence[str]) -> BufferInfo:
    numbers = [int(word) for word in words[:-1]]
    kind, bits, unsigned, position, scale, epoch, zero = numbers[:_WORDS]
    zero -= 1 << 32 if zero >= 1 << 31 else 0
    scales = struct.unpack("<f", struct.pack("<I", scale)) if scale else ()
    type_ = "FLOAT" if kind == _FLOAT else f"{'U' if unsigned else ''}INT{bits}"
    place = _POSITIONS[position] if position < len(_POSITIONS) else ""
    return _info(words[-1], tuple(numbers[_WORDS:]), place, type_, bits, (scales, zero, epoch))


def from_wire(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> ImageEdges:
    """From what a validation firmware says: it does not tell where channels are, nor the range of float inputs."""
    return ImageEdges(EdgeBuffers(tuple(map(_of_tensor, inputs))), tuple(map(_of_tensor, outputs)))


def _of_tensor(tensor: TensorInfo) -> BufferInfo:
    dtype = tensor.dtype
    kind = "FLOAT" if dtype.kind == "f" else dtype.name.upper()
    shape = tensor.shape if prod(tensor.shape) == tensor.elements else (tensor.elements,)
    quantised = (tensor.scale,) if tensor.scale else (), tensor.zero_point, 0
    return _info(tensor.name, shape, "Last", kind, 8 * dtype.itemsize, quantised)


_Quantised = tuple[tuple[float, ...], int, int]  # scales, zero point, epoch


def _info(name: str, shape: tuple[int, ...], position: str, kind: str, bits: int, quantised: _Quantised) -> BufferInfo:
    scales, zero, epoch = quantised
    size = prod(shape) * bits // 8
    return BufferInfo(
        name=plain(name),
        address=0,
        size_bytes=size,
        limit_bytes=size,
        shape=shape,
        mem_shape=shape,
        chpos=position,
        batch=1,
        type=kind,
        nbits=bits,
        scales=scales,
        offsets=(zero,) if scales else (),
        per_channel=False,
        epoch=epoch,
        is_user_allocated=False,
        is_param=False,
    )


def _stored(info: BufferInfo, value: NDArray[Any]) -> bytes:
    memory = AddressSpace()
    memory.add(info.name, 0, max(1, info.size_bytes))
    tensors.write_input(info, value, memory)
    return memory.read(0, info.size_bytes).tobytes()


def require(edges: ImageEdges, sizes: Sequence[int], where: str) -> ImageEdges:
    """What is told must fill the buffers; a firmware may not know shapes that we can read."""
    seen = [info.size_bytes for info in edges.inputs.inputs]
    if seen != list(sizes):
        raise InputError(f"its inputs are said to have {seen} bytes, their buffers have {list(sizes)}", where=where)
    return edges
