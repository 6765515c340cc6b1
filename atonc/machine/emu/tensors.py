"""Buffers of a compiled network as arrays: element types, memory layouts, quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.files.types import BufferInfo

Array = NDArray[Any]

_TYPES = {
    "INT8": "i1", "UINT8": "u1", "BOOL": "u1", "INT16": "<i2", "UINT16": "<u2", "INT32": "<i4", "UINT32": "<u4",
    "INT64": "<i8", "UINT64": "<u8", "FLOAT16": "<f2", "DOUBLE": "<f8",
}  # fmt: skip


def dtype_of(info: BufferInfo) -> np.dtype[Any]:
    if info.type == "FLOAT" and info.nbits in (16, 32, 64):
        return np.dtype(f"<f{info.nbits // 8}")
    if info.type in _TYPES:
        return np.dtype(_TYPES[info.type])
    if info.nbits in (8, 16, 32):  # fixed point without a type of its own
        return np.dtype(f"<{'u' if info.q_unsigned else 'i'}{info.nbits // 8}")
    raise UnsupportedError(f"elements of type {info.type}, {info.nbits} bits", where=f"buffer {info.name}")


def io_shape(info: BufferInfo) -> tuple[int, ...]:
    """The shape in which an application sees the buffer: the order of the bytes in memory."""
    return info.mem_shape or info.shape


def is_whole(info: BufferInfo) -> bool:
    """Whether the memory of a buffer holds the whole tensor that its table entry describes."""
    return prod(io_shape(info)) * dtype_of(info).itemsize <= info.size_bytes


def read_memory_order(info: BufferInfo, memory: AddressSpace) -> Array:
    """The elements as they lie in memory, in the shape of that layout."""
    dtype, shape = dtype_of(info), io_shape(info)
    size = prod(shape) * dtype.itemsize
    if size > info.size_bytes:
        raise InputError(
            f"shape {shape} needs {size} bytes, the buffer has {info.size_bytes}", where=f"buffer {info.name}"
        )
    return memory.read(info.address, size).view(dtype).reshape(shape)


def channel_last(info: BufferInfo, data: Array) -> Array:
    """Logical N,H,W,C order of elements given in memory order."""
    if info.chpos == "Mixed" and data.ndim == 5 and len(info.shape) == 4 and info.shape[3] % max(1, info.batch) == 0:
        # the printed memory shape may belong to another tensor of the same shape; the batch is always right
        count, height, width, channels = info.shape
        groups = data.reshape(count, channels // info.batch, height, width, info.batch)
        return groups.transpose(0, 2, 3, 1, 4).reshape(info.shape)
    if info.chpos == "First" and data.ndim == 4:
        return data.transpose(0, 2, 3, 1)
    return data


def write_input(info: BufferInfo, value: Array, memory: AddressSpace) -> None:
    """Stores an input; element count, and shape up to dimensions of size one, must agree."""
    require_shape(info.name, value.shape, io_shape(info))
    scale, offset = info.scales[0] if info.scales else None, info.offsets[0] if info.offsets else 0
    elements = as_elements(info.name, value, dtype_of(info), scale, offset)
    memory.write(info.address, np.ascontiguousarray(elements).view(np.uint8).reshape(-1))


def require_shape(name: str, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if squeezed(given) != squeezed(wanted):
        raise InputError(
            f"input {name} has shape {'x'.join(map(str, wanted))}, the data {'x'.join(map(str, given)) or 'none'}",
            rule="the data has the shape that the network was compiled for",
            remedy="resize or transpose the data first; a run takes one sample",
        )


def require_rows(name: str, given: Array, rows: Mapping[str, int], where: str = "") -> None:
    """Indices of a table, where the input is one: the C code would take the last row, or the first."""
    known = name in rows and given.size and given.dtype.kind in "iuf"
    if known and not -rows[name] <= given.min() <= given.max() < rows[name]:
        worst = given.max() if given.max() >= rows[name] else given.min()
        raise InputError(f"{worst} for input {name}, which picks from {rows[name]} rows", where=where,
                         rule=f"indices are {-rows[name]} to {rows[name] - 1}", remedy="give one of them")  # fmt: skip


def as_elements(name: str, value: Array, dtype: np.dtype[Any], scale: float | None, offset: int) -> Array:
    """The data in the format of an input: real numbers become codes, integers that fit are codes.

    Bytes of the other sign are refused whatever their values: pixels of a dark picture would pass for codes.
    """
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise InputError(f"values for input {name} are not numbers, or infinite", remedy="give finite numbers")
    if value.dtype == dtype:
        return value
    if value.dtype.kind == "f" and dtype.kind in "iu":
        return _quantised(name, value, dtype, scale, offset)
    if dtype.kind == "f" and value.dtype.kind in "iuf":
        return value.astype(dtype)
    if value.dtype.kind in "iu" and dtype.kind in "iu" and _fits(value, np.iinfo(dtype)):
        return value.astype(dtype)
    raise InputError(
        f"input {name} takes {dtype.name}, the data is {value.dtype.name}"
        + (" with values outside that range" if value.dtype.kind in "iu" and value.dtype.itemsize > 1 else ""),
        remedy=f"give {dtype.name} codes, or float32 values to have them quantised",
    )


def _fits(value: Array, limits: np.iinfo[Any]) -> bool:
    other_sign = value.dtype.itemsize == limits.dtype.itemsize == 1 and value.dtype != limits.dtype
    return not other_sign and bool(limits.min <= value.min(initial=0) and value.max(initial=0) <= limits.max)


def _quantised(name: str, value: Array, dtype: np.dtype[Any], scale: float | None, offset: int) -> Array:
    if scale is None:
        raise InputError(f"float data for input {name} cannot be quantised", remedy=f"give {dtype.name} codes")
    limits = np.iinfo(dtype)
    steps = value.astype(np.float64) / scale
    codes = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + offset  # halves away from zero, as the models' tools do
    result: Array = np.clip(codes, limits.min, limits.max).astype(dtype)
    return result


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
