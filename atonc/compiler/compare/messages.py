"""Arrays between two processes: a list of their names, types and shapes, and their bytes one behind the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atonc.compiler.ir import Array

Listed = list[list[Any]]  # name, type, shape


def pack(arrays: Mapping[str, Array]) -> tuple[Listed, list[bytes]]:
    listed = [[name, value.dtype.str, value.shape] for name, value in arrays.items()]
    return listed, [np.ascontiguousarray(value).tobytes() for value in arrays.values()]


def unpack(listed: Listed, content: bytes) -> dict[str, Array]:
    arrays, at = {}, 0
    for name, code, shape in listed:
        dtype, count = np.dtype(code), int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(content, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return arrays
