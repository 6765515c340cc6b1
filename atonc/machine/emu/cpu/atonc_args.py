"""Arguments of our own kernels: addresses or tables, numbers, formats; every access bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.atonc_costs import WORK, Work
from atonc.machine.emu.cpu.atonc_numbers import Format, element_type
from atonc.machine.emu.cpu.registry import library
from atonc.machine.emu.cpu.struct_view import StructView, argument, as_address, as_int, as_number, fail
from atonc.machine.emu.cpu.tensors import MAX_ELEMENTS, Array
from atonc.machine.emu.files.types import CValue

MAX_LOOPS = 8
BYTE = np.dtype(np.uint8)


class KernelCall:
    """One call of a kernel; arguments by position, as in atonc_kernels.h."""

    def __init__(self, name: str, args: Sequence[CValue], memory: AddressSpace) -> None:
        self.name, self.args, self.memory = name, args, memory

    def fail(self, what: str) -> Exception:
        return fail(what, self.name)

    def value(self, index: int) -> CValue:
        return argument(self.args, index, self.name)

    def integer(self, index: int) -> int:
        return as_int(self.value(index), f"{self.name} argument {index + 1}")

    def size(self, index: int) -> int:
        return self.bounded(self.integer(index))

    def sizes(self, first: int, count: int) -> list[int]:
        return [self.size(first + k) for k in range(count)]

    def bounded(self, *factors: int) -> int:
        """A number of elements that a memory can hold."""
        product = math.prod(factors)
        if any(n < 0 for n in factors) or product > MAX_ELEMENTS * 8:
            raise self.fail(f"a size of {' x '.join(map(str, factors))} is impossible")
        return product

    def number(self, index: int) -> float:
        return as_number(self.value(index), f"{self.name} argument {index + 1}")

    def struct(self, index: int) -> StructView:
        return StructView.of(self.value(index), f"{self.name} argument {index + 1}")

    def format(self, index: int) -> Format:
        return Format.of(self.struct(index))

    def type(self, index: int) -> np.dtype[Any]:
        return element_type(self.integer(index), self.name)

    def is_null(self, index: int) -> bool:
        return self.value(index) in (0, None)

    def address(self, index: int) -> int:
        return as_address(self.value(index), f"{self.name} argument {index + 1}")

    # --- data

    def read(self, index: int, dtype: np.dtype[Any], count: int) -> Array:
        """The first `count` elements behind a pointer: in memory, or of a table in the code."""
        self.bounded(count)
        value = self.value(index)
        if not isinstance(value, list):
            return self.memory.read(self.address(index), count * dtype.itemsize).view(dtype)
        if len(value) < count:
            raise self.fail(f"a table of {len(value)} numbers where {count} are read")
        try:
            return np.array(value[:count], dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.fail(f"a table that does not hold {dtype} numbers") from error

    def write(self, index: int, values: Array) -> None:
        self.memory.write(self.address(index), np.ascontiguousarray(values).reshape(-1).view(np.uint8))

    def integers(self, index: int, count: int) -> Array:
        return self.read(index, np.dtype("<i4"), count).astype(np.int64)

    def numbers(self, index: int, count: int) -> Array:
        return self.read(index, np.dtype("<f8"), count)

    def loops(self, rank: int, index: int, width: int) -> list[list[int]]:
        """Rows {count, step, ...} of nested loops."""
        count = self.integer(rank)
        if not 1 <= count <= MAX_LOOPS:
            raise self.fail(f"{count} nested loops")
        found: list[list[int]] = self.integers(index, count * width).reshape(count, width).tolist()
        self.bounded(*(max(0, row[0]) for row in found))
        return found

    def window(self, index: int, shape: list[int], steps: list[int], dtype: np.dtype[Any]) -> Array:
        """A strided view; steps in elements, also negative ones. The address is that of position 0."""
        ends = [(n - 1) * step * dtype.itemsize for n, step in zip(shape, steps, strict=True)]
        first, last = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends) + dtype.itemsize
        value = self.value(index)
        if isinstance(value, list):
            if first < 0:
                raise self.fail("a walk that leaves its table")
            data = self.read(index, dtype, last // dtype.itemsize)
        else:
            data = self.memory.view(self.address(index) + first, last - first)
        strides = tuple(step * dtype.itemsize for step in steps)
        return np.ndarray(tuple(shape), dtype, buffer=data.data, offset=-first, strides=strides)


def kernel(
    name: str, price: Work | None = None
) -> Callable[[Callable[[KernelCall], None]], Callable[[KernelCall], None]]:
    """Registers one of our kernels by its C name, with its price unless `atonc_costs.WORK` has that."""

    def register(function: Callable[[KernelCall], None]) -> Callable[[KernelCall], None]:
        if price is not None:
            WORK[name] = price
        library(name)(lambda args, memory: function(KernelCall(name, args, memory)))
        return function

    return register
