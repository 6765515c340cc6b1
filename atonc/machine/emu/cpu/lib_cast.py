"""LL_ATON_LIB_Cast, published in full: float, Qm.n fixed point and scale/offset codes into each other.

Kept as published: a negative n is not rounded when numbers become fixed point; fixed point to fixed point always
shifts left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.lib_buffers import KernelBuffer, buffer, require
from atonc.machine.emu.cpu.registry import library
from atonc.machine.emu.cpu.struct_view import StructView, argument
from atonc.machine.emu.cpu.tensors import F32, Array
from atonc.machine.emu.files.types import CValue

_NAME = "LL_ATON_LIB_Cast"
_INTEGER = ("DataType_UINT8", "DataType_INT8", "DataType_UINT16", "DataType_INT16", "DataType_BOOL")
_FIXED, _FLOAT = "DataType_FXP", "DataType_FLOAT"


@dataclass(frozen=True)
class CastSide:
    buffer: KernelBuffer
    kind: str
    qm: int
    qn: int
    unsigned: bool
    scale: np.float32 | None
    offset: int

    @property
    def stored(self) -> np.dtype[np.int8] | np.dtype[np.int16]:
        if self.buffer.nbits not in (8, 16):
            raise NotModelledError(f"a cast of {self.buffer.nbits}-bit fixed point", where=_NAME)
        return np.dtype("<i2") if self.buffer.nbits == 16 else np.dtype(np.int8)


def _side(value: CValue, where: str) -> CastSide:
    info = StructView.of(value, where)
    part, kind = buffer(info), info.enum("type")
    qm, qn = info.integer("Qm"), info.integer("Qn")
    require(not info.integer("per_channel"), "quantised per channel", where)
    if kind in _INTEGER:  # integers count as fixed point without fraction, whatever their Qm says
        kind, qm, qn = _FIXED, part.nbits, 0
    require(-32 < qn < 32 and -1 < qm + qn < 63, f"fixed point Q{qm}.{qn}", where)
    scales, offsets = info.numbers("scale"), info.numbers("offset")
    offset = ((int(offsets[0]) + 128) % 256 - 128) if scales and offsets else 0
    scale = np.float32(scales[0]) if scales else None
    return CastSide(part, kind, qm, qn, bool(info.integer("Qunsigned")), scale, offset)


@library(_NAME)
def cast(args: Sequence[CValue], memory: AddressSpace) -> None:
    source = _side(argument(args, 0, _NAME), f"{_NAME} input")
    target = _side(argument(args, 1, _NAME), f"{_NAME} output")
    require(source.buffer.elements == target.buffer.elements, "input and output differ in size", _NAME)
    if _is_copy(source, target):
        size = (source.buffer.nbits * source.buffer.elements + 7) >> 3
        memory.write(target.buffer.address, memory.read(source.buffer.address, size))
    elif source.kind == _FIXED and target.kind == _FLOAT:
        codes = _read(source, source.stored, memory, from_end=True)
        _write(target, _to_float(codes, source), F32, memory, from_end=True)
    elif source.kind == _FLOAT and target.kind == _FIXED:
        values = _read(source, F32, memory)
        _write(target, _to_fixed(values, target).astype(target.stored), target.stored, memory)
    elif source.kind == target.kind == _FIXED:
        codes = _read(source, source.stored, memory).astype(np.int64)
        _write(target, _fixed_to_fixed(codes, source, target).astype(target.stored), target.stored, memory)
    else:
        raise NotModelledError(f"a cast from {source.kind} to {target.kind}", where=_NAME)


def _is_copy(source: CastSide, target: CastSide) -> bool:
    same_fixed = (source.qm, source.qn, source.unsigned) == (target.qm, target.qn, target.unsigned)
    return source.kind == target.kind and (source.kind != _FIXED or same_fixed)


def _read(side: CastSide, dtype: np.dtype[np.generic], memory: AddressSpace, from_end: bool = False) -> Array:
    return _range(side, dtype, memory, from_end).view(dtype).copy()


def _write(
    side: CastSide, values: Array, dtype: np.dtype[np.generic], memory: AddressSpace, from_end: bool = False
) -> None:
    _range(side, dtype, memory, from_end).view(dtype)[:] = values


def _range(side: CastSide, dtype: np.dtype[np.generic], memory: AddressSpace, from_end: bool) -> Array:
    """Widening casts walk backwards from the buffers' ends, so that they can work in place."""
    size = side.buffer.elements * dtype.itemsize
    require(size <= side.buffer.size_bytes, "the buffer is smaller than its shape", side.buffer.where)
    start = side.buffer.address + (side.buffer.size_bytes - size if from_end else 0)
    return memory.view(start, size)


def _from_q(codes: Array, side: CastSide) -> Array:
    factor = np.float32(2.0 ** abs(side.qn))
    result: Array = codes.astype(F32) / factor if side.qn >= 0 else codes.astype(F32) * factor
    return result


def _to_float(codes: Array, side: CastSide) -> Array:
    values = _from_q(codes, side)
    return values if side.scale is None else (values - np.float32(side.offset)) * side.scale


def _to_q(values: Array, side: CastSide) -> Array:
    scaled: Array
    if side.qn >= 0:
        scaled = values * np.float32(2.0**side.qn) + np.where(values > 0, np.float32(0.5), np.float32(-0.5))
    else:
        scaled = values / np.float32(2.0**-side.qn)
    limit = 2.0 ** (side.qm + side.qn)
    clipped = np.clip(np.nan_to_num(scaled), np.float32(-limit), np.float32(limit - 1))
    result: Array = clipped.astype(np.int64)  # towards zero
    return result


def _to_fixed(values: Array, side: CastSide) -> Array:
    return _to_q(values if side.scale is None else values / side.scale + np.float32(side.offset), side)


def _fixed_to_fixed(codes: Array, source: CastSide, target: CastSide) -> Array:
    if source.scale is None and target.scale is None:
        return codes << abs(target.qn - source.qn)
    return _to_fixed(_to_float(codes, source), target)
