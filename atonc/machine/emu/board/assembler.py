"""The few Thumb instructions that replacements are made of. None of them changes a flag."""

from __future__ import annotations

import struct

LSL, LSR, ASR = 0, 1, 2
LR, SP = 14, 13
NOP = b"\x00\xbf"
NOP_WIDE = b"\xaf\xf3\x00\x80"
UNDEFINED = b"\x00\xde"  # UDF: what no core will ever execute
UNDEFINED_WIDE = b"\xf0\xf7\x00\xa0"
_REACH = 1 << 24


def wide(first: int, second: int) -> bytes:
    return struct.pack("<HH", first, second)


def branch(source: int, target: int) -> bytes:
    offset = target - source - 4
    if not -_REACH <= offset < _REACH:
        raise ValueError(f"{source:#010x} does not reach {target:#010x}")
    sign, i1, i2 = offset >> 24 & 1, offset >> 23 & 1, offset >> 22 & 1
    j1, j2 = i1 ^ sign ^ 1, i2 ^ sign ^ 1
    return wide(0xF000 | sign << 10 | offset >> 12 & 0x3FF, 0x9000 | j1 << 13 | j2 << 11 | offset >> 1 & 0x7FF)


def push(register: int) -> bytes:
    return struct.pack("<H", 0xB400 | 1 << register)


def pop(register: int) -> bytes:
    return struct.pack("<H", 0xBC00 | 1 << register)


def move(to: int, source: int) -> bytes:
    return struct.pack("<H", 0x4600 | (to & 8) << 4 | source << 3 | to & 7)


def move_shifted(to: int, source: int, kind: int, by: int) -> bytes:
    """by 32 for LSR and ASR is encoded as 0."""
    by &= 31
    return wide(0xEA4F, by >> 2 << 12 | to << 8 | (by & 3) << 6 | kind << 4 | source)


def or_shifted(to: int, source: int, kind: int, by: int) -> bytes:
    return wide(0xEA40 | to, by >> 2 << 12 | to << 8 | (by & 3) << 6 | kind << 4 | source)


def move_number(to: int, number: int) -> bytes:
    """MOVW and MOVT."""
    parts = ((0xF240, number & 0xFFFF), (0xF2C0, number >> 16))
    return b"".join(
        wide(op | half >> 12 | (half >> 11 & 1) << 10, (half >> 8 & 7) << 12 | to << 8 | half & 0xFF)
        for op, half in parts
    )


def move_small(to: int, number: int) -> bytes:
    return wide(0xF04F, to << 8 | number)


def move_minus_one(to: int) -> bytes:
    return wide(0xF06F, to << 8)


def move_inverted(to: int, source: int) -> bytes:
    return wide(0xEA6F, to << 8 | source)


def add_small(to: int, source: int, number: int) -> bytes:
    return wide(0xF100 | source, to << 8 | number)


def subtract_small(to: int, source: int, number: int) -> bytes:
    return wide(0xF1A0 | source, to << 8 | number)


def negate(to: int, source: int) -> bytes:
    return wide(0xF1C0 | source, to << 8)


def skip_if_zero(register: int, halfwords: int) -> bytes:
    """CBZ over so many halfwords that follow it."""
    offset = 2 * halfwords - 2
    return struct.pack("<H", 0xB100 | (offset >> 6 & 1) << 9 | (offset >> 1 & 31) << 3 | register)


def load(to: int, base: int, offset: int) -> bytes:
    return wide(0xF8D0 | base, to << 12 | offset)


def store(source: int, base: int, offset: int) -> bytes:
    return wide(0xF8C0 | base, source << 12 | offset)


def if_else(condition: int) -> bytes:
    """ITE: the next instruction when the condition holds, the one behind it when not."""
    return struct.pack("<H", 0xBF00 | condition << 4 | (condition & 1 ^ 1) << 3 | 4)
