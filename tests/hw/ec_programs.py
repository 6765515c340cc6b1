"""Random legal epoch-controller programs for the tests of this folder."""

from __future__ import annotations

from hypothesis import strategies as st

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
)
from atonc.machine.hw.ec.text import SymbolOffset

units = st.integers(0, 63)
registers = st.integers(0, 1023)
words = st.integers(0, 0xFFFF_FFFF)
symbols = st.sampled_from(["_user_io_input_0", "_user_io_output_1", "xSPI2", "a.b-c"])
values = st.one_of(words, st.builds(SymbolOffset, words, symbols))


@st.composite
def _fields(draw: st.DrawFn, max_width: int) -> tuple[int, int, int]:
    """lsb, width and a value that fits."""
    width = draw(st.integers(1, max_width))
    lsb = draw(st.integers(0, 32 - width))
    return lsb, width, draw(st.integers(0, (1 << width) - 1))


@st.composite
def _short_fields(draw: st.DrawFn) -> Instruction:
    return WriteField(draw(units), draw(st.integers(0, 31)), *draw(_fields(8)))


@st.composite
def _long_fields(draw: st.DrawFn) -> Instruction:
    return WriteFieldLong(draw(units), draw(registers), *draw(_fields(31)))


@st.composite
def _polls(draw: st.DrawFn) -> Instruction:
    lsb, width, value = draw(_fields(32))
    return Poll(draw(units), draw(registers), lsb + width - 1, lsb, draw(words), value)


@st.composite
def _inc_bursts(draw: st.DrawFn, value: st.SearchStrategy[int]) -> Instruction:
    stored = draw(st.lists(value, min_size=1, max_size=12))
    return BurstWriteInc(draw(units), draw(st.integers(0, 1024 - len(stored))), tuple(stored))


def instructions(value: st.SearchStrategy[int] = words) -> st.SearchStrategy[Instruction]:
    """Any instruction; `value` says what is stored (plain words, or relocatable ones too)."""
    bursts = st.builds(BurstWrite, units, registers, st.lists(value, min_size=1, max_size=12).map(tuple))
    numbers = st.integers(0, (1 << 27) - 1)
    return st.one_of(
        st.builds(Write, units, registers, value),
        _short_fields(),
        _long_fields(),
        bursts,
        _inc_bursts(value),
        _polls(),
        st.builds(Irq, numbers),
        st.builds(Label, numbers),
    )


def programs(value: st.SearchStrategy[int] = words, max_size: int = 30) -> st.SearchStrategy[list[Instruction]]:
    return st.lists(instructions(value), max_size=max_size)


def sample_program(epochs: int = 3) -> list[Instruction]:
    """A program shaped like a compiled one: labels, clocks, configuration, links, waits, an interrupt at the end."""
    result: list[Instruction] = []
    for epoch in range(1, epochs + 1):
        result += [
            Label(epoch),
            WriteField(0, 4, 18, 1, 1),
            BurstWrite(23, 0, (0x800_0000, 0x960_00FC)),
            BurstWriteInc(23, 256, tuple(range(epoch, epoch + 40))),
            WriteField(0, 4, 3, 1, 1),
            Write(8, 0, 0x80100),
            BurstWriteInc(8, 2, (SymbolOffset(0x40 * epoch, "_user_io_input_0"), 0x900)),
            Write(8, 14, SymbolOffset(0x40 * epoch + 0x3F, "_user_io_input_0")),
            Write(7, 2, SymbolOffset(0, "_user_io_output_0")),
            Write(4, 30, 0x2B),
            WriteField(8, 0, 0, 1, 1),
            Poll(7, 0, 31, 31, 100, 0),
        ]
    return [*result, Irq(0)]
