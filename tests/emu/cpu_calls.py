"""Builds memories and argument structures for tests of CPU and hybrid calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.files.types import CValue, Symbol

BASE = 0x34200000
Array = NDArray[Any]
Struct = dict[str, Any]


def sym(name: str) -> Symbol:
    return Symbol(name)


class Bench:
    """A memory with a simple allocator that leaves gaps, so that a stray write shows."""

    def __init__(self, size: int = 1 << 20) -> None:
        self.memory = AddressSpace()
        self.memory.add("ram", BASE, size)
        self.memory.regions[0].data[:] = 0xA5
        self.next = BASE + 64

    def place(self, values: Array) -> int:
        address, raw = self.reserve(values.nbytes), np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self.memory.write(address, raw)
        return address

    def reserve(self, size: int) -> int:
        address = self.next
        self.next += (size + 63) // 16 * 16
        return address

    def array(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.memory.read(address, size).view(dtype).reshape(shape)

    def tensor(self, values: Array) -> Struct:
        """A packed B, H, W, C tensor with contents."""
        return describe(self.place(values), values.shape, values.itemsize, values.dtype == np.int8)

    def output(self, shape: tuple[int, ...], dtype: Any) -> Struct:
        kind = np.dtype(dtype)
        return describe(self.reserve(int(np.prod(shape)) * kind.itemsize), shape, kind.itemsize, kind == np.int8)

    def result(self, tensor: Struct, dtype: Any) -> Array:
        dim, mem = tensor["dim"], tensor["mem"]
        assert isinstance(dim, dict) and isinstance(mem, dict)
        shape = tuple(int(dim[f"tensor_{axis}"]) for axis in "bhwc")
        return self.array(int(mem["start_offset"]), shape, dtype)

    def params(self, values: Array, signed: bool = True) -> Struct:
        return {
            "dim": {"num_elem": int(values.size)},
            "mem": {"start_offset": self.place(values)},
            "format": {"is_signed": int(signed)},
        }

    def quant(
        self, scale: str, zero: str, scales: float | list[float], zeros: int | list[int], dtype: Any = np.int8
    ) -> Struct:
        signed = dtype == np.int8
        return {
            scale: self.params(np.atleast_1d(np.array(scales, np.float32)), signed),
            zero: self.params(np.atleast_1d(np.array(zeros, dtype)), signed),
        }

    def buffer(self, values: Array, shape: tuple[int, ...], nbits: int, batch: int, **extra: CValue) -> Struct:
        return buffer(self.place(values), values.nbytes, shape, nbits, batch, **extra)

    def out_buffer(self, shape: tuple[int, ...], nbits: int, batch: int, **extra: CValue) -> Struct:
        size = int(np.prod(shape)) * ((nbits + 7) // 8)
        return buffer(self.reserve(size), size, shape, nbits, batch, **extra)

    def contents(self, described: Struct, dtype: Any) -> Array:
        start, end = int(described["offset_start"]), int(described["offset_end"])
        return self.memory.read(int(described["addr_base"]) + start, end - start).view(dtype)


def describe(address: int, shape: tuple[int, ...], item: int, signed: bool) -> Struct:
    b, h, w, c = shape
    return {
        "dim": {"tensor_b": b, "tensor_h": h, "tensor_w": w, "tensor_c": c, "num_elem": b * h * w * c},
        "stride": {"b": h * w * c * item, "h": w * c * item, "w": c * item, "c": item},
        "mem": {"start_offset": address},
        "format": {"is_signed": int(signed)},
    }


def buffer(address: int, size: int, shape: tuple[int, ...], nbits: int, batch: int, **extra: CValue) -> Struct:
    """As the compiler writes it: a pool base and offsets."""
    offset = 32
    return {
        "addr_base": address - offset,
        "offset_start": offset,
        "offset_end": offset + size,
        "offset_limit": offset + size + 64,
        "ndims": len(shape),
        "nbits": nbits,
        "shape": list(shape),
        "batch": batch,
        **extra,
    }


def general(kind: str, source: Struct, target: Struct) -> Struct:
    return {"general": {"type": Symbol(kind), "input": source, "output": target}}
