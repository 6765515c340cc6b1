"""Assembly text: exact lines, round trips, and errors with a line number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError
from atonc.machine.hw.ec.instructions import (
    Barrier,
    BurstWrite,
    BurstWriteInc,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    WriteFieldLong,
    encode,
)
from atonc.machine.hw.ec.text import (
    SymbolOffset,
    assemble,
    collect_relocations,
    container_of,
    disassemble,
    format_program,
    parse_program,
    parse_trace,
)
from tests.hw.ec_programs import programs, sample_program, values

LINES: list[tuple[str, Instruction]] = [
    ("label 0x1e", Label(30)),
    ("irq 0x0", Irq(0)),
    ("write 4 30 0x2b", Write(4, 30, 0x2B)),
    ("write 8 2 _user_io_input_0(0x40)", Write(8, 2, SymbolOffset(0x40, "_user_io_input_0"))),
    ("writefield 0 4 [20] 0x1", WriteField(0, 4, 20, 1, 1)),
    ("writefield 0 4 [7:4] 0xf", WriteField(0, 4, 4, 4, 15)),
    ("writefield 0 32 [20] 0x1", WriteFieldLong(0, 32, 20, 1, 1)),
    ("writefield 0 4 [19:8] 0xfff", WriteFieldLong(0, 4, 8, 12, 0xFFF)),
    ("writefieldlong 0 4 [20] 0x1", WriteFieldLong(0, 4, 20, 1, 1)),
    ("burstwrite 25 0 0x8000000 0x5000160", BurstWrite(25, 0, (0x8000000, 0x5000160))),
    ("burstwriteinc 8 2 xSPI2(0x10) 0x900", BurstWriteInc(8, 2, (SymbolOffset(16, "xSPI2"), 0x900))),
    ("poll 4 0 [1] 0x0 100", Poll(4, 0, 1, 1, 100, 0)),
    ("poll 4 0 [31:2] 0x3 7", Poll(4, 0, 31, 2, 7, 3)),
]


@pytest.mark.parametrize(("line", "instruction"), LINES)
def test_lines(line: str, instruction: Instruction) -> None:
    assert format_program([instruction]) == f"{line}\n"
    assert parse_program(line) == [instruction]
    assert collect_relocations(parse_program(line)) == collect_relocations([instruction])


@given(programs(values))
def test_text_round_trip(program: list[Instruction]) -> None:
    text = format_program(program)
    again = parse_program(text)
    assert again == program
    assert format_program(again) == text
    assert collect_relocations(again) == collect_relocations(program)


@given(programs(values), st.sampled_from([0x20, 0x30, 0x50]))
def test_stored_programs_round_trip_through_text(program: list[Instruction], version: int) -> None:
    stored = container_of(program, version)
    assert assemble(disassemble(stored), version) == stored


def test_layout_of_the_text_does_not_matter() -> None:
    text = ";; Start\r\n\n  WRITE\n".replace("WRITE", "write   4\t0 2 ; comment (with) [signs]\r\n label 10;x")
    assert parse_program(text) == [Write(4, 0, 2), Label(10)]


def test_barriers_are_kept_for_merging_only() -> None:
    text = "write 4 0 1\n;; Block ECASM optimizations here\nwrite 4 0 2\n"
    assert parse_trace(text) == [Write(4, 0, 1), Barrier(), Write(4, 0, 2)]
    assert parse_program(text) == [Write(4, 0, 1), Write(4, 0, 2)]


def test_assembling_equals_encoding() -> None:
    program = sample_program()
    assert list(assemble(format_program(program)).blob.program) == [int(word) for word in encode(program)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jump 1", "unknown instruction 'jump'"),
        ("write 1 2", "expected unit, register and value, found 2"),
        ("write 1 2 3 4", "found 4 operands"),
        ("write 1 2 0x", "'0x' is not a number"),
        ("write 1 2 -1", "'-1' is not a number"),
        ("write 1 2 1_0", "'1_0' is not a number"),
        ("write 1 2 0x100000000", "is not a number"),
        ("write 1 2 4294967296", "outside"),
        ("write 64 2 1", "unit 64 is outside"),
        ("write 1 2 a(b)", "is not a number"),
        ("writefield 1 2 3 1", "is not a field"),
        ("writefield 1 2 [3:4] 1", "not inside a register"),
        ("writefield 1 2 [40] 1", "not inside a register"),
        ("writefield 1 2 [3] 2", "value 2 is outside"),
        ("writefield 1 2 [3] a(0x1)", "is not a number"),
        ("writefield 1 2 [31:0] 1", "is a plain write"),
        ("burstwrite 1 2", "expected unit, register and values"),
        ("burstwriteinc 1 1023 1 2", "last register"),
        ("burstwrite 1 2" + " 0" * 2048, "burst length 2048"),
        ("poll 1 2 [0] 0", "expected"),
        ("irq", "expected one number"),
        ("label 0x8000000", "label 134217728 is outside"),
        ("x" * 100_000, "unknown instruction"),
    ],
)
def test_errors_name_the_line(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_program(f"label 1\n; comment\n{line}\n", where="a.s")
    assert str(caught.value).startswith("a.s, line 3: ")
    assert len(str(caught.value)) < 400


@given(st.text(alphabet="write fieldburstpoll[]():;0x19a\n", max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        program = parse_program(text)
    except InputError:
        return
    assert parse_program(format_program(program)) == program
