"""Buffers of the hybrid library (`LL_Buffer_InfoTypeDef`): an address range with a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.emu.cpu.struct_view import MAX_RANK, StructView, fail, struct_list
from atonc.machine.emu.cpu.tensors import MAX_ELEMENTS
from atonc.machine.emu.files.types import CValue

MIN_DMA_BYTES = 40  # smaller transfers are done by the CPU
# elements of three bytes have no NumPy type: all moves work on blocks of bytes
_BLOCKS = {n: np.dtype((np.void, n)) for n in (1, 2, 3, 4)}


@dataclass(frozen=True)
class KernelBuffer:
    address: int
    size_bytes: int
    shape: tuple[int, ...]  # as stored: ..., H, W, C in most functions
    batch: int  # channels that lie together
    nbits: int
    where: str

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return (self.nbits + 7) >> 3

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def block(self) -> np.dtype[Any]:
        return _BLOCKS[self.nbytes]

    def bytes(self, memory: AddressSpace) -> Bytes:
        return memory.view(self.address, self.size_bytes)


def buffer(info: StructView, *, shaped: bool = True) -> KernelBuffer:
    start, end = info.integer("offset_start"), info.integer("offset_end")
    rank = info.integer("ndims")
    nbits = info.integer("nbits")
    if not 0 <= start < end < 1 << 32 or not 0 <= rank <= MAX_RANK:
        raise fail(f"impossible buffer: offsets {start} to {end}, {rank} dimensions", info.where)
    if not 1 <= nbits <= 32:
        raise fail(f"elements of {nbits} bits", info.where)
    shape = info.integers("shape", rank) if rank else ()
    result = KernelBuffer(
        info.address("addr_base") + start, end - start, shape, info.integer("batch"), nbits, info.where
    )
    if shaped and (not shape or min(shape) < 1 or result.elements > MAX_ELEMENTS):
        raise fail(f"impossible shape {shape}", info.where)
    return result


def first_buffer(value: CValue, where: str) -> KernelBuffer:
    return buffer(StructView.of(value, where))


def buffers(value: CValue, count: int, where: str) -> list[KernelBuffer]:
    if not 0 < count <= 256:
        raise fail(f"{count} buffers", where)
    return [buffer(item) for item in struct_list(value, count, where)]


def require(condition: bool, what: str, where: str) -> None:
    """What the published library refuses with an error code and no effect is an error of the network here."""
    if not condition:
        raise fail(what, where)
