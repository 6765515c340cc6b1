"""As much of protocol buffers as the messages need: numbers, floats, strings, nested messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_LONGEST_VARINT = 10

Value = int | bytes
Field = tuple[int, Value]  # number of the field; floats come as their bytes


class DecodeError(ValueError):
    """Not a message."""


def varint(number: int) -> bytes:
    """Negative numbers as 64 bits, as protocol buffers have them."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | _VARINT) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def real(field: int, value: float) -> bytes:
    return varint(field << 3 | _FOUR) + struct.pack("<f", value)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number and where it ends."""
    value = 0
    for length in range(_LONGEST_VARINT):
        if at + length >= len(data):
            break
        byte = data[at + length]
        value |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            return value & (1 << 64) - 1, at + length + 1
    raise DecodeError("a number does not end")


def fields(data: bytes) -> Iterator[Field]:
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind, field = tag & 7, tag >> 3
        if field == 0:
            raise DecodeError("field 0")
        if kind == _VARINT:
            value, at = read_varint(data, at)
            yield field, value
            continue
        if kind == _BYTES:
            length, at = read_varint(data, at)
        elif kind in (_FOUR, _EIGHT):
            length = 4 if kind == _FOUR else 8
        else:
            raise DecodeError(f"wire type {kind}")
        if at + length > len(data):
            raise DecodeError(f"{length} bytes where {len(data) - at} are left")
        yield field, data[at : at + length]
        at += length


def signed(value: int) -> int:
    """A 32-bit number with sign, however long it was written."""
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value
