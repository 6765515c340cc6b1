"""Instruction words: exact layouts, round trips, and everything that must be refused."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError
from atonc.machine.hw.ec.instructions import (
    BurstWrite,
    BurstWriteInc,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    WriteFieldLong,
    decode,
    encode,
)
from tests.hw.ec_programs import programs, sample_program, words
from tests.patience import growth

KNOWN_WORDS: list[tuple[Instruction, list[int]]] = [
    (Label(30), [0x3DD]),
    (Irq(0), [0xC]),
    (Write(4, 0, 2), [0x10007C00, 2]),
    (WriteField(0, 4, 20, 1, 1), [0x00802281]),
    (WriteField(63, 31, 24, 8, 0xA5), [63 << 26 | 31 << 21 | 0xA5 << 13 | 7 << 10 | 24 << 5 | 1]),
    (WriteFieldLong(5, 40, 4, 3, 6), [5 << 26 | 40 << 16 | 6 << 10 | 4 << 5, 6]),
    (BurstWrite(25, 0, (0x8000000, 0x5000160)), [0x64000042, 0x8000000, 0x5000160]),
    (BurstWriteInc(25, 7, (1, 2, 3)), [25 << 26 | 7 << 16 | 3 << 5 | 3, 1, 2, 3]),
    (Poll(4, 0, 1, 1, 100, 0), [0x10000424, 100, 0]),
]


@pytest.mark.parametrize(("instruction", "expected"), KNOWN_WORDS)
def test_known_words(instruction: Instruction, expected: list[int]) -> None:
    assert encode([instruction]) == expected
    assert decode(expected) == [instruction]
    assert instruction.size == len(expected)


@given(programs())
def test_encode_then_decode(program: list[Instruction]) -> None:
    encoded = encode(program)
    assert decode(encoded) == program
    assert len(encoded) == sum(instruction.size for instruction in program)


@given(st.lists(words, max_size=20))
def test_any_words_are_exact_or_refused(raw: list[int]) -> None:
    try:
        program = decode(raw)
    except InputError:
        return
    assert encode(program) == raw


def test_every_bit_of_every_first_word_counts() -> None:
    """No bit may be dropped: random words, operands given, either come back or are refused."""
    source = random.Random(1)
    decoded = 0
    for _ in range(3000):
        raw = [source.getrandbits(32) & ~0xFFC0 | source.choice([0, 0x20, 0x7C00, 0x40])] + [0] * 2
        try:
            program = decode(raw)
        except InputError:
            continue
        decoded += 1
        assert encode(program) == raw
    assert decoded > 100


def test_arrays_decode_like_lists() -> None:
    raw = encode(sample_program())
    assert decode(np.array(raw, dtype="<u4")) == decode(raw)


@pytest.mark.parametrize("opcode", sorted(set(range(32)) - {0, 1, 2, 3, 4, 0x0C, 0x1D}))
def test_unknown_opcodes_name_word_and_value(opcode: int) -> None:
    with pytest.raises(InputError, match=rf"program word 2: unknown opcode {opcode:#x} \(word value {opcode:#010x}\)"):
        decode([*encode([Write(1, 1, 1)]), opcode])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([0x10007C00], "2 words, but the program ends after 1"),
        ([0x64000042, 1], "3 words, but the program ends after 2"),
        ([0x10000424, 100], "3 words, but the program ends after 2"),
        ([25 << 26 | 2], "burst without values"),
        ([25 << 26 | 1023 << 16 | 2 << 5 | 3, 0, 0], "past the unit's last register"),
        ([1 << 15 | 31 << 10, 0], "reserved bit 15"),
        ([1 << 15 | 1 << 10 | 4, 0, 0], "reserved bit 15"),
        ([2 << 10 | 3 << 5, 0], "upside down"),
        ([2 << 10 | 4, 0, 8], "does not fit a field of 3 bits"),
        ([2 << 10, 8], "does not fit a field of 3 bits"),
        ([2 << 13 | 1], "does not fit a field of 1 bits"),
        ([31 << 5 | 1 << 10 | 1], "past bit 31"),
    ],
)
def test_refused_words(raw: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode(raw)


@pytest.mark.parametrize("raw", [[-1], [1 << 32]])
def test_numbers_that_are_no_words(raw: list[int]) -> None:
    with pytest.raises(InputError, match="not 32-bit words"):
        decode(raw)


@pytest.mark.parametrize(
    "instruction",
    [
        Write(64, 0, 0),
        Write(0, 1024, 0),
        Write(0, 0, 1 << 32),
        Write(0, 0, -1),
        WriteField(0, 32, 0, 1, 0),
        WriteField(0, 0, 0, 9, 0),
        WriteField(0, 0, 0, 0, 0),
        WriteField(0, 0, 31, 2, 0),
        WriteField(0, 0, 0, 1, 2),
        WriteFieldLong(0, 0, 0, 32, 0),
        WriteFieldLong(0, 0, -1, 4, 0),
        BurstWrite(0, 0, ()),
        BurstWrite(0, 0, (0,) * 2048),
        BurstWriteInc(0, 1020, (0,) * 5),
        BurstWriteInc(0, 0, (0, -1)),
        Poll(0, 0, 3, 4, 0, 0),
        Poll(0, 0, 0, 0, 1 << 32, 0),
        Irq(1 << 27),
        Label(-1),
    ],
)
def test_operands_that_do_not_fit(instruction: Instruction) -> None:
    with pytest.raises(InputError, match="instruction 1"):
        encode([Label(0), instruction])


def test_large_programs_are_decoded_in_one_walk() -> None:
    def decoding(epochs: int) -> Callable[[], object]:
        raw = encode(sample_program(epochs))
        return lambda: decode(raw)

    assert growth(decoding, 20) < 2.2
