"""What a layer reads of its input: the codes, all moved by the same number, or a copy of them with a border."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]

_APART = 1 << 20  # between the marks of neighbouring codes


@dataclass(frozen=True, eq=False)
class StoredCodes:
    """`offset` + what is here."""

    offset: int
    sources: NDArray[np.intp] | None = None  # None: the codes themselves
    targets: NDArray[np.intp] | None = None
    fill: NDArray[np.int16] | None = None  # the copy, with its border

    def __call__(self, codes: Array) -> Array:
        """[samples, elements]"""
        if self.fill is None:
            return codes
        copy = np.repeat(self.fill[None], codes.shape[0], axis=0)
        copy[:, self.targets] = codes[:, self.sources]
        return copy

    def farthest(self, subtracted: int) -> int:
        """The largest magnitude of (what is stored - subtracted)."""
        zero = subtracted - self.offset
        ends = [-128 - zero, 127 - zero]
        if self.fill is not None:
            ends += [int(self.fill.min()) - zero, int(self.fill.max()) - zero]
        return max(map(abs, ends))


def stored_of(function: Callable[[Any], Any], elements: int) -> StoredCodes:
    """Read off the function: where it puts marks, it puts codes."""
    marks = (np.arange(elements, dtype=np.int64) + 1) * _APART
    found = np.asarray(function(marks)).reshape(-1)
    sources = (found + _APART // 2) // _APART - 1
    moved = sources >= 0
    offsets = np.unique(found[moved] - marks[sources[moved]])
    assert offsets.size == 1
    offset = int(offsets[0])
    if moved.all() and np.array_equal(sources, np.arange(elements)):
        return StoredCodes(offset)
    fill = np.where(moved, 0, found - offset).astype(np.int16)
    return StoredCodes(offset, sources[moved], np.flatnonzero(moved), fill)
