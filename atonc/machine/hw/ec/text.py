"""The assembly text of epoch-controller programs, written and read.

One instruction per line: `write 25 0 0x5000160`, `writefield 0 4 [20] 0x1`, `poll 4 0 [1] 0x0 100`. A relocatable
value is `symbol(0xoffset)`. Comments start with `;`; one of them is a barrier for write merging.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from atonc.machine.base.errors import InputError
from atonc.machine.hw.ec.blob import Blob, Container, Relocation, build_container
from atonc.machine.hw.ec.instructions import (
    MAX_SHORT_REGISTER,
    MAX_SHORT_WIDTH,
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
    decode,
    encode,
)

# ----------------------------------------------------------------------------------------------------------------------
# Relocatable values inside instructions.
#
# A relocatable value is a plain int (its offset) that remembers its symbol. Passes such as write merging move it around
# without knowing, and the relocation table is collected from where it ends up.


class SymbolOffset(int):
    """An offset to which the base address of `symbol` will be added."""

    symbol: str

    def __new__(cls, offset: int, symbol: str) -> SymbolOffset:
        value = super().__new__(cls, offset)
        value.symbol = symbol
        return value

    def __repr__(self) -> str:
        return f"{self.symbol}({int(self):#x})"


def instructions_of(container: Container) -> list[Instruction]:
    """The container's instructions, with relocatable values marked."""
    return bind_symbols(decode(container.blob.program), container.relocations)


def container_of(instructions: Iterable[Instruction], version: int = 0x50) -> Container:
    """A bare blob if nothing needs relocation, else a container of that version."""
    program = list(instructions)
    relocations = collect_relocations(program)
    blob = Blob(tuple(map(int, encode(program))))
    return build_container(blob, version if relocations else 0, relocations)


def bind_symbols(instructions: Sequence[Instruction], relocations: Iterable[Relocation]) -> list[Instruction]:
    """The same instructions, their relocated words marked with their symbols."""
    symbols = {offset: relocation.symbol for relocation in relocations for offset in relocation.offsets}
    result: list[Instruction] = list(instructions)
    if not symbols:
        return result
    position = 0
    for index, instruction in enumerate(result):
        touched = [k for k in range(instruction.size) if position + k in symbols]
        if touched:
            result[index] = _marked(instruction, {k: symbols.pop(position + k) for k in touched}, position)
        position += instruction.size
    if symbols:
        raise InputError(f"relocation of word {min(symbols)}, past the program's end")
    return result


def _marked(instruction: Instruction, symbols: dict[int, str], position: int) -> Instruction:
    if 0 in symbols or not isinstance(instruction, (Write, BurstWrite, BurstWriteInc)):
        raise InputError(
            f"a relocation of {next(iter(symbols.values()))} points into {type(instruction).__name__}",
            where=f"program word {position}",
            rule="only stored values can be relocated",
        )
    if isinstance(instruction, Write):
        return replace(instruction, value=SymbolOffset(instruction.value, symbols[1]))
    values = list(instruction.values)
    for k, symbol in symbols.items():
        values[k - 1] = SymbolOffset(values[k - 1], symbol)
    return replace(instruction, values=tuple(values))


def collect_relocations(instructions: Iterable[Instruction]) -> tuple[Relocation, ...]:
    """The relocation table of a program; symbols sorted by name, as ST's assembler writes them."""
    offsets: dict[str, list[int]] = {}
    position = 0
    for instruction in instructions:
        for k, value in enumerate(_stored_values(instruction), start=1):
            if isinstance(value, SymbolOffset):
                offsets.setdefault(value.symbol, []).append(position + k)
        position += instruction.size
    return tuple(Relocation(symbol, tuple(found)) for symbol, found in sorted(offsets.items()))


def _stored_values(instruction: Instruction) -> tuple[int, ...]:
    if isinstance(instruction, Write):
        return (instruction.value,)
    if isinstance(instruction, (BurstWrite, BurstWriteInc)):
        return instruction.values
    return ()


MAX_TEXT_CHARACTERS = 1 << 26
BARRIER_COMMENT = "Block ECASM optimizations"

_NUMBER = r"0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10}"
_NUMBER_TOKEN = re.compile(_NUMBER)
_SYMBOL_TOKEN = re.compile(rf"([^\s();]+)\(({_NUMBER})\)")
_FIELD_TOKEN = re.compile(r"\[([0-9]{1,2})(?::([0-9]{1,2}))?\]")


def disassemble(container: Container) -> str:
    """The text of a stored program."""
    return format_program(instructions_of(container))


def assemble(text: str, version: int = 0x50, where: str = "text") -> Container:
    """The stored program of a text; a bare blob unless it has relocatable values."""
    return container_of(parse_program(text, where), version)


# ----------------------------------------------------------------------------------------------------------- writing


def format_program(instructions: Iterable[Instruction]) -> str:
    """The text of a program, one line per instruction."""
    return "".join(f"{_FORMATTERS[type(instruction)](instruction)}\n" for instruction in instructions)


def _show(value: int) -> str:
    return f"{value.symbol}({value:#x})" if isinstance(value, SymbolOffset) else hex(value)


def _show_field(msb: int, lsb: int) -> str:
    return f"[{lsb}]" if msb == lsb else f"[{msb}:{lsb}]"


def _format_field(i: WriteField | WriteFieldLong) -> str:
    # The plain mnemonic means the short form where it fits; a long form that need not be long must say so.
    stretched = isinstance(i, WriteFieldLong) and _fits_short(i.reg, i.width)
    mnemonic = "writefieldlong" if stretched else "writefield"
    return f"{mnemonic} {i.unit} {i.reg} {_show_field(i.lsb + i.width - 1, i.lsb)} {_show(i.value)}"


def _format_burst(i: BurstWrite | BurstWriteInc) -> str:
    mnemonic = "burstwrite" if isinstance(i, BurstWrite) else "burstwriteinc"
    show = hex if set(map(type, i.values)) == {int} else _show
    return f"{mnemonic} {i.unit} {i.reg} {' '.join(map(show, i.values))}"


@lru_cache(maxsize=1 << 12)
def _format_poll(i: Poll) -> str:
    return f"poll {i.unit} {i.reg} {_show_field(i.msb, i.lsb)} {_show(i.value)} {i.timeout}"


_FORMATTERS: dict[type, Callable[[Any], str]] = {
    Write: lambda i: f"write {i.unit} {i.reg} {_show(i.value)}",
    WriteField: _format_field,
    WriteFieldLong: _format_field,
    BurstWrite: _format_burst,
    BurstWriteInc: _format_burst,
    Poll: _format_poll,
    Irq: lambda i: f"irq {_show(i.value)}",
    Label: lambda i: f"label {_show(i.value)}",
}


# ----------------------------------------------------------------------------------------------------------- reading


def parse_program(text: str, where: str = "text") -> list[Instruction]:
    """The instructions of a text; errors name the line."""
    return [item for item in parse_trace(text, where) if not isinstance(item, Barrier)]


def parse_trace(text: str, where: str = "text") -> list[Instruction | Barrier]:
    """Instructions and barriers: what write merging starts from."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InputError("the text is larger than any program", where=where)
    result: list[Instruction | Barrier] = []
    for number, line in enumerate(text.split("\n"), start=1):
        code, _, comment = line.partition(";")
        tokens = code.split()
        if tokens:
            result.append(_parse_line(tokens, f"{where}, line {number}"))
        if BARRIER_COMMENT in comment:
            result.append(Barrier())
    return result


def _parse_line(tokens: list[str], where: str) -> Instruction:
    parser = _PARSERS.get(tokens[0])
    if parser is None:
        known = ", ".join(_PARSERS)
        raise InputError(f"unknown instruction {_shown(tokens[0])}", where=where, rule=f"instructions are {known}")
    try:
        instruction = parser(tokens[0], tokens[1:])
        encode([instruction])
    except InputError as error:
        raise InputError(error.what, where=where) from None
    return instruction


def _parse_write(_: str, operands: list[str]) -> Instruction:
    unit, reg, value = _exactly(operands, "unit, register and value", 3)
    return Write(_number(unit), _number(reg), _value(value))


def _parse_field(mnemonic: str, operands: list[str]) -> Instruction:
    unit, reg, bits, text = _exactly(operands, "unit, register, [bits] and value", 4)
    (msb, lsb), register, value = _field(bits), _number(reg), _number(text)
    width = msb - lsb + 1
    form = WriteField if mnemonic == "writefield" and _fits_short(register, width) else WriteFieldLong
    return form(_number(unit), register, lsb, width, value)


def _parse_burst(mnemonic: str, operands: list[str]) -> Instruction:
    if len(operands) < 3:
        raise InputError("expected unit, register and values")
    form = BurstWrite if mnemonic == "burstwrite" else BurstWriteInc
    return form(_number(operands[0]), _number(operands[1]), tuple(map(_value, operands[2:])))


def _parse_poll(_: str, operands: list[str]) -> Instruction:
    unit, reg, bits, value, timeout = _exactly(operands, "unit, register, [bits], value and timeout", 5)
    msb, lsb = _field(bits)
    return Poll(_number(unit), _number(reg), msb, lsb, _number(timeout), _number(value))


_PARSERS: dict[str, Callable[[str, list[str]], Instruction]] = {
    "write": _parse_write,
    "writefield": _parse_field,
    "writefieldlong": _parse_field,
    "burstwrite": _parse_burst,
    "burstwriteinc": _parse_burst,
    "poll": _parse_poll,
    "irq": lambda _, operands: Irq(_number(_exactly(operands, "one number", 1)[0])),
    "label": lambda _, operands: Label(_number(_exactly(operands, "one number", 1)[0])),
}


def _fits_short(reg: int, width: int) -> bool:
    return reg <= MAX_SHORT_REGISTER and width <= MAX_SHORT_WIDTH


def _exactly(operands: list[str], meaning: str, count: int) -> list[str]:
    if len(operands) != count:
        raise InputError(f"expected {meaning}, found {len(operands)} operands")
    return operands


def _number(token: str) -> int:
    if not _NUMBER_TOKEN.fullmatch(token):
        raise InputError(f"{_shown(token)} is not a number")
    return int(token, 16) if token[:2] in ("0x", "0X") else int(token)


def _value(token: str) -> int:
    match = _SYMBOL_TOKEN.fullmatch(token)
    return SymbolOffset(_number(match[2]), match[1]) if match else _number(token)


def _field(token: str) -> tuple[int, int]:
    match = _FIELD_TOKEN.fullmatch(token)
    if not match:
        raise InputError(f"{_shown(token)} is not a field such as [3] or [7:4]")
    msb = int(match[1])
    return msb, int(match[2]) if match[2] else msb


def _shown(token: str) -> str:
    return repr(token[:40])
