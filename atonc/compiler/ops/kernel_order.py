"""A matrix in the order in which convolvers read kernels: the second factor of a product of two activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.compiler.ops.registry import moves
from atonc.compiler.ops.shapes import rule
from atonc.compiler.ops.values import OpCall
from atonc.machine.base.frozen import dataclass

TOGETHER = 8  # kernels whose weights of one channel lie side by side
WORD = 3  # bytes; the kernels of a unit fill whole words
APART = 16  # bytes to whose multiples matrices are aligned


@dataclass(frozen=True)
class UnitKernels:
    """What a unit takes of some channels: (code & keep) ^ value, in bytes, and zeros behind them."""

    first: int
    count: int
    keep: int = -1
    value: int = 0


@dataclass(frozen=True)
class KernelOrder:
    """Sets of kernels, of each set those of every unit in turn."""

    kernels: int  # of a set; the last one has those that are left over
    channels: int  # of a unit
    units: tuple[UnitKernels, ...]
    turned: bool = False  # the summed axis is the last one of the matrix

    @property
    def attrs(self) -> dict[str, Any]:
        units = tuple((unit.first, unit.count, unit.keep, unit.value) for unit in self.units)
        return {"kernels": self.kernels, "channels": self.channels, "units": units, "turned": self.turned}

    @staticmethod
    def of(attrs: Mapping[str, Any]) -> KernelOrder:
        units = tuple(UnitKernels(*unit) for unit in attrs["units"])
        return KernelOrder(attrs["kernels"], attrs["channels"], units, attrs["turned"])

    def unit_bytes(self, kernels: int) -> int:
        return -(-kernels * self.channels // WORD) * WORD

    def set_bytes(self, kernels: int) -> int:
        return self.unit_bytes(kernels) * len(self.units)

    def whole_sets(self, columns: int) -> int:
        """Bytes up to the kernels that are left over."""
        return _apart(columns // self.kernels * self.set_bytes(self.kernels))

    def matrix_bytes(self, columns: int) -> int:
        return self.whole_sets(columns) + _apart(self.set_bytes(columns % self.kernels))

    def packed(self, matrices: Array) -> Array:
        """Packs matrices [columns, depth]."""
        (count, columns, _), at = matrices.shape, 0
        found = np.zeros((count, self.matrix_bytes(columns)), np.int8)
        for first in range(0, columns, self.kernels):
            some = matrices[:, first : first + self.kernels]
            at = at if some.shape[1] == self.kernels else self.whole_sets(columns)
            for unit in self.units:
                size, taken = self.unit_bytes(some.shape[1]), self._of_unit(some, unit)
                found[:, at : at + taken.shape[1]] = taken
                at += size
        return found

    def _of_unit(self, kernels: Array, unit: UnitKernels) -> NDArray[np.int8]:
        count, number, _ = kernels.shape
        block = np.zeros((count, number, self.channels), np.int8)
        codes = kernels[..., unit.first : unit.first + unit.count]
        block[..., : unit.count] = (codes & np.int8(unit.keep)) ^ np.int8(unit.value)
        eights = (block[:, k : k + TOGETHER].swapaxes(1, 2) for k in range(0, number, TOGETHER))
        return np.concatenate([eight.reshape(count, -1) for eight in eights], axis=1)


def _apart(size: int) -> int:
    return -(-size // APART) * APART


@rule("pack_kernels")
def _shape(attrs: Mapping[str, Any], inputs: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    order, shape = KernelOrder.of(attrs), inputs[0]
    return prod(shape[:-2]), order.matrix_bytes(shape[-2 if order.turned else -1])


@moves("pack_kernels", data_inputs=1)
def pack_kernels(call: OpCall, data: list[Array]) -> list[Array]:
    order = KernelOrder.of(call.attrs)
    matrices = data[0].reshape(-1, *data[0].shape[-2:])
    return [order.packed(matrices if order.turned else matrices.swapaxes(1, 2))]
