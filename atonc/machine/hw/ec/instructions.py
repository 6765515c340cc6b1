"""Instructions of the epoch controller: words to dataclasses and back, word for word.

Units and registers are plain numbers here: unit = bus offset >> 12, register = byte offset in the unit >> 2.
A word that we could not write back exactly as it was read is refused, so nothing is ever dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

WORD_MASK = 0xFFFF_FFFF
REGISTERS_PER_UNIT = 1024
MAX_BURST = 2047
MAX_SHORT_REGISTER = 31
MAX_SHORT_WIDTH = 8

OP_WRITE, OP_WRITE_FIELD, OP_BURST, OP_BURST_INC, OP_POLL, OP_IRQ, OP_LABEL = 0x00, 0x01, 0x02, 0x03, 0x04, 0x0C, 0x1D
_RESERVED_BIT = 1 << 15
_WHOLE_WORD = 31 << 10

Words = Sequence[int] | NDArray[Any]


@dataclass(frozen=True)
class Write:
    """Store a whole register."""

    unit: int
    reg: int
    value: int
    size: ClassVar[int] = 2


@dataclass(frozen=True)
class _Bits:
    """Some bits of a register, and what they become."""

    unit: int
    reg: int
    lsb: int
    width: int
    value: int


@dataclass(frozen=True)
class WriteField(_Bits):
    """Change up to 8 bits of a register 0..31; one word."""

    size: ClassVar[int] = 1


@dataclass(frozen=True)
class WriteFieldLong(_Bits):
    """Change any bits of any register; two words."""

    size: ClassVar[int] = 2


@dataclass(frozen=True)
class _Burst:
    """Several values, from one register on."""

    unit: int
    reg: int
    values: tuple[int, ...]

    @property
    def size(self) -> int:
        return 1 + len(self.values)


@dataclass(frozen=True)
class BurstWrite(_Burst):
    """Store several values to one register, in order."""


@dataclass(frozen=True)
class BurstWriteInc(_Burst):
    """Store values to neighbouring registers, upwards."""


@dataclass(frozen=True)
class Poll:
    """Wait until the field has the value."""

    unit: int
    reg: int
    msb: int
    lsb: int
    timeout: int
    value: int
    size: ClassVar[int] = 3


@dataclass(frozen=True)
class Irq:
    """Raise the interrupt of the epoch controller; always last."""

    value: int
    size: ClassVar[int] = 1


@dataclass(frozen=True)
class Label:
    """Copy a number (of the epoch) to the LABEL register."""

    value: int
    size: ClassVar[int] = 1


Instruction = Write | WriteField | WriteFieldLong | BurstWrite | BurstWriteInc | Poll | Irq | Label


def word_list(words: Words, where: str = "program") -> list[int]:
    """Plain ints, each checked to be an unsigned 32-bit word."""
    result: list[int] = words.tolist() if isinstance(words, np.ndarray) else list(words)
    if result and not (min(result) >= 0 and max(result) <= WORD_MASK):
        raise InputError("values outside 0..0xffffffff are not 32-bit words", where=where)
    return result


# ---------------------------------------------------------------------------------------------------------- decoding


def decode(words: Words) -> list[Instruction]:
    """The instructions of a program (without magic and length); `InputError` names the offending word."""
    program = word_list(words)
    result: list[Instruction] = []
    position, end = 0, len(program)
    while position < end:
        reader = _READERS.get(program[position] & 0x1F)
        if reader is None:
            raise InputError(
                f"unknown opcode {program[position] & 0x1F:#x} (word value {program[position]:#010x})",
                where=f"program word {position}",
                rule="known opcodes are 0, 1, 2, 3, 4, 0xc and 0x1d",
                remedy="check that the file is a complete, unencrypted epoch-controller blob",
            )
        instruction = reader(program, position)
        result.append(instruction)
        position += instruction.size
    return result


def _read_write(program: list[int], at: int) -> Instruction:
    _need(program, at, 2)
    first, value = program[at : at + 2]
    if first & 0xFFE0 == _WHOLE_WORD:
        return _write(first, value)
    msb, lsb = _read_field(program, at)
    _fits(value, msb - lsb + 1, program, at)
    return WriteFieldLong(first >> 26, first >> 16 & 0x3FF, lsb, msb - lsb + 1, value)


@lru_cache(maxsize=1 << 13)
def _write(first: int, value: int) -> Write:
    """Most end an epoch, always in the same way."""
    return Write(first >> 26, first >> 16 & 0x3FF, value)


def _read_write_field(program: list[int], at: int) -> Instruction:
    found = _short_field(program[at])
    if found.lsb + found.width > 32:
        raise _bad(program, at, f"field of {found.width} bits at bit {found.lsb} runs past bit 31")
    _fits(found.value, found.width, program, at)
    return found


@lru_cache(maxsize=1 << 12)
def _short_field(word: int) -> WriteField:
    """Programs have few different ones: clocks and starts of units."""
    return WriteField(word >> 26, word >> 21 & 0x1F, word >> 5 & 0x1F, (word >> 10 & 7) + 1, word >> 13 & 0xFF)


def _read_burst_inc(program: list[int], at: int) -> Instruction:
    unit, reg, values = program[at] >> 26, program[at] >> 16 & 0x3FF, _burst_values(program, at)
    if reg + len(values) > REGISTERS_PER_UNIT:
        raise _bad(program, at, f"burst of {len(values)} from register {reg} runs past the unit's last register")
    return BurstWriteInc(unit, reg, values)


def _read_poll(program: list[int], at: int) -> Instruction:
    _need(program, at, 3)
    msb, lsb = _read_field(program, at)
    _fits(program[at + 2], msb - lsb + 1, program, at)
    return _poll(*program[at : at + 3])


@lru_cache(maxsize=1 << 12)
def _poll(first: int, timeout: int, value: int) -> Poll:
    """Few as well: units that clear themselves, and writers at their end."""
    return Poll(first >> 26, first >> 16 & 0x3FF, first >> 10 & 0x1F, first >> 5 & 0x1F, timeout, value)


_READERS: dict[int, Callable[[list[int], int], Instruction]] = {
    OP_WRITE: _read_write,
    OP_WRITE_FIELD: _read_write_field,
    OP_BURST: lambda words, at: BurstWrite(words[at] >> 26, words[at] >> 16 & 0x3FF, _burst_values(words, at)),
    OP_BURST_INC: _read_burst_inc,
    OP_POLL: _read_poll,
    OP_IRQ: lambda words, at: Irq(words[at] >> 5),
    OP_LABEL: lambda words, at: Label(words[at] >> 5),
}


def _burst_values(program: list[int], at: int) -> tuple[int, ...]:
    count = program[at] >> 5 & 0x7FF
    if count == 0:
        raise _bad(program, at, "burst without values")
    _need(program, at, 1 + count)
    return tuple(program[at + 1 : at + 1 + count])


def _read_field(program: list[int], at: int) -> tuple[int, int]:
    first = program[at]
    msb, lsb = first >> 10 & 0x1F, first >> 5 & 0x1F
    if first & _RESERVED_BIT:
        raise _bad(program, at, "reserved bit 15 is set")
    if msb < lsb:
        raise _bad(program, at, f"field [{msb}:{lsb}] is upside down")
    return msb, lsb


def _fits(value: int, width: int, program: list[int], at: int) -> None:
    if value >> width:
        raise _bad(program, at, f"value {value:#x} does not fit a field of {width} bits")


def _need(program: list[int], at: int, count: int) -> None:
    if at + count > len(program):
        raise _bad(program, at, f"instruction of {count} words, but the program ends after {len(program) - at}")


def _bad(program: list[int], at: int, what: str) -> InputError:
    return InputError(f"{what} (word value {program[at]:#010x})", where=f"program word {at}")


# ---------------------------------------------------------------------------------------------------------- encoding


def encode(instructions: Iterable[Instruction]) -> list[int]:
    """The program words of the instructions; operands that do not fit are an `InputError`."""
    words: list[int] = []
    for index, instruction in enumerate(instructions):
        try:
            _WRITERS[type(instruction)](instruction, words)
        except InputError as error:
            raise InputError(error.what, where=f"instruction {index}, {instruction}") from None
    return words


def _check(name: str, value: int, limit: int) -> int:
    if not 0 <= value <= limit:
        raise InputError(f"{name} {value} is outside 0..{limit}")
    return value


def _place(unit: int, reg: int) -> int:
    return _check("unit", unit, 63) << 26 | _check("register", reg, REGISTERS_PER_UNIT - 1) << 16


def _field(msb: int, lsb: int, value: int) -> int:
    if not 0 <= lsb <= msb <= 31:
        raise InputError(f"field [{msb}:{lsb}] is not inside a register")
    _check("value", value, (1 << msb - lsb + 1) - 1)
    return msb << 10 | lsb << 5


def _emit_write(i: Write, words: list[int]) -> None:
    words += (write_head(i.unit, i.reg), _check("value", i.value, WORD_MASK))


def write_head(unit: int, reg: int) -> int:
    """The first word of a `Write`."""
    return _place(unit, reg) | _WHOLE_WORD | OP_WRITE


def burst_head(unit: int, reg: int, count: int) -> int:
    """The first word of a `BurstWriteInc`."""
    _check("last register of the burst", reg + count - 1, REGISTERS_PER_UNIT - 1)
    return _place(unit, reg) | _check("burst length", count, MAX_BURST) << 5 | OP_BURST_INC


def _emit_write_field(i: WriteField, words: list[int]) -> None:
    _field(i.lsb + i.width - 1, i.lsb, i.value)
    place = _check("unit", i.unit, 63) << 26 | _check("register", i.reg, MAX_SHORT_REGISTER) << 21
    width = _check("width - 1", i.width - 1, MAX_SHORT_WIDTH - 1)
    words.append(place | i.value << 13 | width << 10 | i.lsb << 5 | OP_WRITE_FIELD)


def _emit_write_field_long(i: WriteFieldLong, words: list[int]) -> None:
    if i.width == 32:
        raise InputError("a field of 32 bits is a plain write")
    words += (_place(i.unit, i.reg) | _field(i.lsb + i.width - 1, i.lsb, i.value) | OP_WRITE, i.value)


def _emit_burst(i: BurstWrite | BurstWriteInc, words: list[int]) -> None:
    if not i.values:
        raise InputError("burst without values")
    if type(i) is BurstWrite:
        words.append(_place(i.unit, i.reg) | _check("burst length", len(i.values), MAX_BURST) << 5 | OP_BURST)
    else:
        words.append(burst_head(i.unit, i.reg, len(i.values)))
    words += word_list(i.values)


def _emit_poll(i: Poll, words: list[int]) -> None:
    first = _place(i.unit, i.reg) | _field(i.msb, i.lsb, i.value) | OP_POLL
    words += (first, _check("timeout", i.timeout, WORD_MASK), i.value)


_WRITERS: dict[type, Callable[[Any, list[int]], None]] = {
    Write: _emit_write,
    WriteField: _emit_write_field,
    WriteFieldLong: _emit_write_field_long,
    BurstWrite: _emit_burst,
    BurstWriteInc: _emit_burst,
    Poll: _emit_poll,
    Irq: lambda i, words: words.append(_check("irq operand", i.value, WORD_MASK >> 5) << 5 | OP_IRQ),
    Label: lambda i, words: words.append(_check("label", i.value, WORD_MASK >> 5) << 5 | OP_LABEL),
}


# ----------------------------------------------------------------------------------------------------------------------
# Write merging: a plain trace of single stores becomes bursts, as ST's assembler does it.
#
# Inside a run of stores to one unit the order between different registers does not matter to the hardware, except where
# a barrier says so; the order of stores to the same register is always kept, and no store is dropped.


@dataclass(frozen=True)
class Barrier:
    """Stores must not move across this point; no instruction of its own."""


def merge_writes(trace: Iterable[Instruction | Barrier]) -> list[Instruction]:
    """The program in which each run of stores to one unit is sorted by register and joined to bursts."""
    result: list[Instruction] = []
    for unit, items in groupby(trace, key=_run_of):
        if unit is None:
            result += [item for item in items if not isinstance(item, Barrier)]
        else:
            result += _merged_run([item for item in items if isinstance(item, Write)])
    return result


def stored_words(unit: int, stores: Mapping[int, int]) -> list[int]:
    """Stores to different registers of one unit as words: what encoding `merge_writes` of them gives, without an
    object for each."""
    registers = tuple(sorted(stores))
    values = [stores[register] for register in registers]
    words: list[int] = []
    for head, start, end in _bursts(unit, registers):
        words.append(head)
        words += values[start:end]
    return word_list(words)


@lru_cache(maxsize=1 << 12)
def _bursts(unit: int, registers: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """First word of each store or burst, and which of the registers it goes to: units are told the same ones often."""
    found: list[tuple[int, int, int]] = []
    start = 0
    for end, register in enumerate(registers, start=1):
        if end == len(registers) or registers[end] != register + 1:
            count, first = end - start, registers[start]
            head = burst_head(unit, first, count) if count > 1 else write_head(unit, first)
            found.append((head, start, end))
            start = end
    return tuple(found)


def _run_of(item: Instruction | Barrier) -> int | None:
    """The unit for a plain store; everything else ends a run."""
    return item.unit if isinstance(item, Write) else None


def _merged_run(run: list[Write]) -> Iterator[Instruction]:
    unit = run[0].unit
    stores: dict[int, list[int]] = {}
    for write in run:
        stores.setdefault(write.reg, []).append(write.value)
    for group in _neighbours([(reg, tuple(stores[reg])) for reg in sorted(stores)]):
        reg, values = group[0]
        if len(values) > 1:
            yield from _repeated(unit, reg, values)
        elif len(group) == 1:
            yield Write(unit, reg, values[0])
        else:
            yield BurstWriteInc(unit, reg, tuple(single for _, (single,) in group))


def _neighbours(stores: list[tuple[int, tuple[int, ...]]]) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """Cut where registers are not adjacent, and around every register that is stored more than once."""
    start = 0
    for index, ((reg, values), (next_reg, next_values)) in enumerate(pairwise(stores), start=1):
        if next_reg != reg + 1 or len(values) > 1 or len(next_values) > 1:
            yield stores[start:index]
            start = index
    yield stores[start:]


def _repeated(unit: int, reg: int, values: tuple[int, ...]) -> Iterator[Instruction]:
    """One burst to one register; more stores than a burst can count need several."""
    for start in range(0, len(values), MAX_BURST):
        part = values[start : start + MAX_BURST]
        yield BurstWrite(unit, reg, part) if len(part) > 1 else Write(unit, reg, part[0])
