"""Tensors of the software layers: a view into memory by shape and byte strides, always in the order B, H, W, C."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.struct_view import StructView, fail

Array = NDArray[Any]
MAX_ELEMENTS = 1 << 25  # more than any memory of the board holds: such a structure is damaged
# ONNX counts N, C, H, W; the software layers store B, H, W, C
ONNX_TO_BHWC = {0: 0, 1: 3, 2: 1, 3: 2}

F32 = np.dtype("<f4")
I32 = np.dtype("<i4")
I8 = np.dtype(np.int8)
U8 = np.dtype(np.uint8)


def check_shape(shape: tuple[int, ...], strides: tuple[int, ...], where: str) -> None:
    if any(n < 1 for n in shape) or any(s < 0 for s in strides):
        raise fail(f"shape {shape} with strides {strides} is impossible", where)
    elements = 1
    for n in shape:
        elements *= n
        if elements > MAX_ELEMENTS:
            raise fail(f"shape {shape} has more than {MAX_ELEMENTS} elements", where)


def strided(
    memory: AddressSpace, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """A writable view; raises where any element lies outside its memory."""
    check_shape(shape, strides, f"{address:#010x}")
    span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
    # contiguous: the buffer protocol below needs it, and the bytes of a region are
    buffer = memory.view(address, span)
    return np.ndarray(shape, dtype, buffer=buffer.data, strides=strides)


def packed_strides(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    strides = [item_bytes]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    return tuple(strides)


@dataclass(frozen=True)
class KernelTensor:
    """`Tensor_info` of a software layer."""

    address: int
    shape: tuple[int, int, int, int]  # B, H, W, C
    strides: tuple[int, int, int, int]  # bytes, same order
    signed: bool
    where: str

    @property
    def elements(self) -> int:
        b, h, w, c = self.shape
        return b * h * w * c

    @property
    def code_type(self) -> np.dtype[Any]:
        return I8 if self.signed else U8

    def view(self, memory: AddressSpace, dtype: np.dtype[Any]) -> Array:
        return strided(memory, self.address, self.shape, self.strides, dtype)

    def read(self, memory: AddressSpace, dtype: np.dtype[Any]) -> Array:
        """A copy: layers may work in place."""
        return self.view(memory, dtype).copy()

    def write(self, memory: AddressSpace, values: Array, dtype: np.dtype[Any]) -> None:
        if values.shape != self.shape:
            raise fail(f"the result has shape {values.shape}, the output {self.shape}", self.where)
        target = self.view(memory, dtype)
        if any(s == 0 and n > 1 for n, s in zip(self.shape, self.strides, strict=True)):
            raise fail("an output whose elements lie on each other", self.where)
        target[...] = values


def tensor(info: StructView, name: str) -> KernelTensor:
    """Reads a tensor description; sizes that are left out count as 1 (a scalar, a vector)."""
    part = info.sub(name)
    if not part.has("mem.start_offset"):
        raise fail("this layer needs the tensor, but it has no address", part.where)
    b, h, w, c = (part.integer(f"dim.tensor_{axis}", 1) for axis in "bhwc")
    by, hy, wy, cy = (part.integer(f"stride.{axis}") for axis in "bhwc")
    check_shape((b, h, w, c), (by, hy, wy, cy), part.where)
    signed = bool(part.integer("format.is_signed"))
    return KernelTensor(part.address("mem.start_offset"), (b, h, w, c), (by, hy, wy, cy), signed, part.where)


def vector(info: StructView, name: str, memory: AddressSpace, dtype: np.dtype[Any], at_least: int = 1) -> Array:
    """A small parameter array: `num_elem` packed elements."""
    part = info.sub(name)
    count = part.integer("dim.num_elem", 1)
    if count < at_least:
        raise fail(f"at least {at_least} elements are needed, not {count}", part.where)
    address = part.address("mem.start_offset")
    return strided(memory, address, (count,), (dtype.itemsize,), dtype).copy()


def onnx_axis(info: StructView, path: str = "axis") -> int:
    """Position in B, H, W, C of an axis that is counted as ONNX does."""
    axis = info.integer(path)
    if axis not in ONNX_TO_BHWC:
        raise NotModelledError(f"axis {axis}", where=info.where, rule="the published layers know axes 0 to 3 only")
    return ONNX_TO_BHWC[axis]
