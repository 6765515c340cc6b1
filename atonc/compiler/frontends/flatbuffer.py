"""A reader of flatbuffers that believes nothing: every offset is checked against the file before it is followed."""

from __future__ import annotations

import struct

import numpy as np

from atonc.compiler.ir import Array
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass

MAX_VECTOR = 1 << 28


def root(data: bytes, identifier: bytes) -> FlatTable:
    """The root table of a file with this 4-byte identifier."""
    if len(data) < 8 or data[4:8] != identifier:
        raise ModelError(
            f"not a {identifier.decode()} file: the identifier at offset 4 is missing",
            remedy="the file may be cut, damaged or of another format: export or fetch it again",
        )
    return FlatTable(data, _number(data, "<I", 0))


def _number(data: bytes, form: str, position: int) -> int:
    if position < 0 or position + struct.calcsize(form) > len(data):
        raise ModelError(
            "the file ends inside a value", where=f"offset {position}", remedy="the file is cut or damaged"
        )
    return int(struct.unpack_from(form, data, position)[0])


@dataclass(frozen=True)
class FlatTable:
    """A table at a position; fields are addressed by their number in the schema."""

    data: bytes
    position: int

    def position_of(self, number: int) -> int:
        """Absolute position of a field, 0 if it is absent."""
        vtable = self.position - _number(self.data, "<i", self.position)
        size = _number(self.data, "<H", vtable)
        slot = 4 + 2 * number
        if slot + 2 > size:
            return 0
        offset = _number(self.data, "<H", vtable + slot)
        return self.position + offset if offset else 0

    def _scalar(self, number: int, form: str, default: int) -> int:
        position = self.position_of(number)
        return _number(self.data, form, position) if position else default

    def int8(self, number: int, default: int = 0) -> int:
        return self._scalar(number, "<b", default)

    def uint8(self, number: int, default: int = 0) -> int:
        return self._scalar(number, "<B", default)

    def int32(self, number: int, default: int = 0) -> int:
        return self._scalar(number, "<i", default)

    def uint32(self, number: int, default: int = 0) -> int:
        return self._scalar(number, "<I", default)

    def uint64(self, number: int, default: int = 0) -> int:
        return self._scalar(number, "<Q", default)

    def float32(self, number: int, default: float = 0.0) -> float:
        position = self.position_of(number)
        if not position:
            return default
        _number(self.data, "<I", position)
        return float(struct.unpack_from("<f", self.data, position)[0])

    def table(self, number: int) -> FlatTable | None:
        position = self.position_of(number)
        return FlatTable(self.data, self._follow(position)) if position else None

    def tables(self, number: int) -> list[FlatTable]:
        start, length = self._vector(number, 4)
        return [FlatTable(self.data, self._follow(start + 4 * i)) for i in range(length)]

    def array(self, number: int, dtype: str) -> Array:
        """A vector of numbers as a read-only view of the file."""
        kind = np.dtype(dtype)
        start, length = self._vector(number, kind.itemsize)
        return np.frombuffer(self.data, kind, length, start)

    def text(self, number: int) -> str:
        start, length = self._vector(number, 1)
        return self.data[start : start + length].decode("utf-8", "replace")

    def _follow(self, position: int) -> int:
        target = position + _number(self.data, "<I", position)
        _number(self.data, "<i", target)
        return target

    def _vector(self, number: int, item_bytes: int) -> tuple[int, int]:
        """Start and length of a vector that lies inside the file."""
        position = self.position_of(number)
        if not position:
            return 0, 0
        start = self._follow(position)
        length = _number(self.data, "<I", start)
        if length > MAX_VECTOR or start + 4 + length * item_bytes > len(self.data):
            raise ModelError("a vector reaches beyond the end of the file", where=f"offset {start}")
        return start + 4, length
