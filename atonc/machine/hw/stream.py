"""What flows through the stream switch: the elements of all frames of one source, as one array.

Words on a link carry up to 24 bits. Elements are kept in the smallest array type that holds them; a consumer takes the
low bytes that it is configured for. 24-bit memory reads exist only as transport of packed bytes, so they are kept as
bytes (`packed`) and turned into numbers only when somebody asks for numbers.

Engines often read the same frames again (features once per group of output channels). `index` then says which stored
frame each frame of the stream is, so that consumers can work on the distinct ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]


@dataclass(frozen=True)
class Stream:
    """Frames of equal size. `data` is [stored frames, elements] ([stored frames, bytes] when packed)."""

    data: Array
    index: NDArray[np.int64] | None = None  # stored frame of every frame in the stream; None: one to one, in order
    word_bytes: int = 0  # above 0: data are uint8 lanes of words that long

    @property
    def frames(self) -> int:
        return int(self.data.shape[0] if self.index is None else self.index.size)

    @property
    def frame_elements(self) -> int:
        return int(self.data.shape[1]) // max(1, self.word_bytes)

    @property
    def elements(self) -> int:
        return self.frames * self.frame_elements

    def flat(self) -> Array:
        """All elements in order, in the array type they are stored in."""
        return self._numbers(self.data if self.index is None else self.data[self.index]).reshape(-1)

    def bytes(self) -> NDArray[np.uint8]:
        """All bytes of the stream in order."""
        data = self.data if self.index is None else self.data[self.index]
        return np.ascontiguousarray(data).view(np.uint8).reshape(-1)

    def rechunk(self, frame_elements: int, frames: int) -> Stream:
        """The first `frames` frames of another size; keeps the repeat structure where the sizes agree."""
        if frame_elements == self.frame_elements and not self.word_bytes:
            index = None if self.index is None else self.index[:frames]
            return Stream(self.data[:frames] if index is None else self.data, index)
        flat = self.flat()[: frame_elements * frames]
        return Stream(flat.reshape(-1, frame_elements))

    def keep(self, frames: Array) -> Stream:
        """Only the listed frames."""
        if self.index is None:
            return Stream(self.data[frames], None, self.word_bytes)
        return Stream(self.data, self.index[frames], self.word_bytes)

    def _numbers(self, data: Array) -> Array:
        if not self.word_bytes:
            return data
        lanes = data.reshape(-1, self.word_bytes).astype(np.int32)
        shifts = 8 * np.arange(self.word_bytes)
        words: Array = (lanes << shifts).sum(axis=1, dtype=np.int32)
        return words


def low_bytes(data: Array, nbytes: int, unsigned: bool) -> Array:
    """What a consumer sees that takes the low bytes of each word, as an array of the natural type."""
    size = data.dtype.itemsize
    if nbytes == 1:
        wanted: Any = np.uint8 if unsigned else np.int8
        return data.view(wanted) if size == 1 else data.astype(wanted)
    if nbytes == 2:
        wanted = np.uint16 if unsigned else np.int16
        return data.view(wanted) if size == 2 else data.astype(wanted)
    wide = data.astype(np.int32) if size < 4 else data
    if unsigned:
        return wide & 0xFFFFFF
    return wide


Ints = NDArray[Any]  # an integer array wide enough for what is in it


def shift_right_rounded(values: Ints, shift: int) -> Ints:
    """Right shift, round half away from zero (ROUND=1, RNDMODE=1: the only mode that compilers emit)."""
    if shift == 0:
        return values
    if shift >= values.dtype.itemsize * 8 - 1:
        values = values.astype(np.int64)
        shift = min(shift, 62)  # nothing that fits 62 bits survives more
    # for negative numbers "half away" is floor(v + half - 1): subtract one where the sign bit is set
    result: Ints = values >> (values.dtype.itemsize * 8 - 1)
    result += 1 << (shift - 1)
    result += values
    result >>= shift
    return result


def shift_right(values: Ints, shift: int, rounded: bool) -> Ints:
    return shift_right_rounded(values, shift) if rounded else values >> min(shift, values.dtype.itemsize * 8 - 1)


def saturate(values: Ints, nbytes: int, unsigned: bool = False, out: Ints | None = None) -> Ints:
    low, high = limits(nbytes, unsigned)
    return clipped(values, low, high, out)


def clipped(values: Ints, low: int, high: int, out: Ints | None = None) -> Ints:
    """`np.clip`, which takes a multiple of the time to look at Python's numbers; where the type of the values ends
    before a limit, nothing is beyond it."""
    ends, kind = limits_of(values), values.dtype.type
    return values.clip(kind(max(low, ends[0])), kind(min(high, ends[1])), out=out)


def limits(nbytes: int, unsigned: bool = False) -> tuple[int, int]:
    bits = 8 * nbytes
    return (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def wrap(values: Ints, nbytes: int) -> Ints:
    """Keeps the low bytes, read as signed."""
    bits = 8 * nbytes
    if bits == 8:
        return values.astype(np.int8).astype(values.dtype)
    if bits == 16:
        return values.astype(np.int16).astype(values.dtype)
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    result: Ints = ((values & mask) ^ sign) - sign
    return result


def finish(values: Ints, shift: int, nbytes: int, rounded: bool, saturated: bool) -> Ints:
    """The output stage of a unit: shift, round, then saturate or wrap to the output bytes."""
    shifted = shift_right(values, shift, rounded)
    own = None if shifted is values else shifted  # which nobody else sees
    return saturate(shifted, nbytes, out=own) if saturated else wrap(shifted, nbytes)


def ends_of(values: Ints) -> tuple[int, int]:
    """The lowest and the highest of the values and zero."""
    return int(values.min(initial=0)), int(values.max(initial=0))


def limits_of(values: Ints) -> tuple[int, int]:
    """What an array of this type may hold: no bound is cheaper."""
    return limits(values.dtype.itemsize, values.dtype.kind == "u")


def largest_of(values: Ints, ends: Callable[[Ints], tuple[int, int]] = ends_of) -> int:
    return max(map(abs, ends(values)))


def signed(value: int, bits: int) -> int:
    """Reads the low bits of a Python int as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
