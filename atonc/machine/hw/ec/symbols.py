"""Relocatable values inside instructions.

A relocatable value is a plain int (its offset) that remembers its symbol. Passes such as write merging move it around
without knowing, and the relocation table is collected from where it ends up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from atonc.machine.base.errors import InputError
from atonc.machine.hw.ec.blob import Blob, Container, build_container
from atonc.machine.hw.ec.instructions import BurstWrite, BurstWriteInc, Instruction, Write, decode, encode
from atonc.machine.hw.ec.tables import Relocation


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
