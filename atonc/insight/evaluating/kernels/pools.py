"""Largest codes of windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.pool.recipe import geometry_of
from atonc.compiler.lower.semantics.arithmetic import CODES
from atonc.compiler.lower.semantics.operators import changed

Array = NDArray[Any]

_LOWEST = -128


class LargestCodes:
    """Down the columns first, then along the lines."""

    def __init__(self, op: Op, context: Context) -> None:
        x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
        self.geometry = geometry_of(op)
        self.picture = (1,) * (4 - len(x.shape)) + x.shape[1:]
        self.out = y.shape
        self.size = ((1,) * (4 - len(y.shape)) + y.shape[1:])[:2]
        self.table = changed(op, x, y)(CODES).astype(np.int8)
        self.same = np.array_equal(self.table, CODES)

    def __call__(self, codes: Array) -> Array:
        samples = codes.shape[0]
        found = codes.reshape(samples, *self.picture)
        for axis in (0, 1):
            found = self._along(found, axis)
        if not self.same:
            found = self.table.take(found.astype(np.intp) + 128)
        return found.reshape(samples, *self.out)

    def _along(self, codes: Array, axis: int) -> Array:
        size, along = self.size[axis], axis + 1
        shape = list(codes.shape)
        shape[along] = size
        result = np.full(shape, _LOWEST, np.int8)
        for outputs, pixels in self.geometry.along(axis, codes.shape[along], size):
            left, right = [slice(None)] * 4, [slice(None)] * 4
            left[along], right[along] = outputs, pixels
            np.maximum(result[tuple(left)], codes[tuple(right)], out=result[tuple(left)])
        return result
