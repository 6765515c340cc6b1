"""Several registers of the processor in one call: a call for each would take longer than a handler of the firmware."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from atonc.machine.base.errors import ToolError


class RegisterBank:
    def __init__(self, uc: Any, numbers: Sequence[int]) -> None:
        if not hasattr(uc, "_do_reg_read_batch"):
            raise ToolError("this release of unicorn is too old", remedy="pip install 'unicorn>=2.1.4'")
        count = len(numbers)
        self._uc, self._count = uc, ctypes.c_int(count)
        self._values = np.zeros(count, np.uint64)  # of narrower ones unicorn writes the lower half only
        self._numbers = (ctypes.c_int * count)(*numbers)
        first = self._values.ctypes.data
        self._places = (ctypes.c_void_p * count)(*(first + 8 * k for k in range(count)))

    def read(self) -> list[int]:
        self._check(self._uc._do_reg_read_batch(self._numbers, self._places, self._count))
        values: list[int] = self._values.tolist()
        return values

    def write(self, values: Iterable[int]) -> None:
        self._values[:] = np.fromiter(values, np.uint64)
        self._check(self._uc._do_reg_write_batch(self._numbers, self._places, self._count))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"unicorn: error {status} of a register")
