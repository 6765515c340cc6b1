"""Addresses that are known only at run time: programs with symbols, and the containers that the loader patches.

Inputs and outputs that the application supplies (`Program.user_io`) stand at addresses where the chip has no memory,
pools of relative mode (`Program.relative`) at the base of the pool file. Every start and limit of an engine there
becomes a symbol plus an offset, and the blob a container whose relocation table names these words: the loader adds the
base of each symbol before it starts the epoch controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.emit.program import Movable, Program, ProgramStep
from atonc.compiler.place.types import USER_BASE, USER_BYTES
from atonc.machine.base.errors import ToolError
from atonc.machine.hw import regs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.blob import Blob, Container, Relocation
from atonc.machine.hw.ec.instructions import BurstWrite, BurstWriteInc, Instruction, Write
from atonc.machine.hw.ec.text import SymbolOffset, collect_relocations, container_of

VERSION = 0x20  # of containers that the oldest published loader takes; later loaders take 0x30 or 0x50 only
_ENGINES = {unit.id for unit in regs.UNIT_BY_NAME.values() if unit.kind == "STRENG"}
_ADDRESSES = {regs.registers("STRENG")[name].index for name in ("ADDR", "LIMITADDR")}


def instructions(program: Program, steps: Iterable[ProgramStep]) -> list[Instruction]:
    """A run of NPU steps for the epoch controller; what moves is a symbol plus an offset.

    The same as `ec_program.program` where nothing moves. `format_program` writes the symbols.
    """
    plain = ec_program.program(step.epoch for step in steps if step.epoch is not None)
    return [_symbolic(i, program.movable) for i in plain] if program.movable else plain


def relocations(program: Program, steps: Iterable[ProgramStep]) -> tuple[Relocation, ...]:
    """For one run of NPU steps: by symbol, the program words (counted without magic and length) to add its base to.

    Sorted by symbol, which is the order of the indices in the container; empty when the run touches nothing that moves.
    """
    return collect_relocations(instructions(program, steps))


def container(program: Program, steps: Iterable[ProgramStep], version: int = VERSION) -> Container:
    """The run as it is stored: a bare blob if nothing is relocated, else a container (`.words()`, `.relocations`)."""
    if program.movable:
        return container_of(instructions(program, steps), version)
    return Container(Blob(tuple(ec_program.words(step.epoch for step in steps if step.epoch is not None))))


def bases(program: Program, addresses: Mapping[str, int] | None = None) -> dict[str, int]:
    """Symbol -> base, for `hw.ec.relocate`: where what moves is, by default where the compiler saw it."""
    return {part.symbol: (addresses or {}).get(part.symbol, part.address) for part in program.movable}


def _symbolic(instruction: Instruction, parts: Sequence[Movable]) -> Instruction:
    if not isinstance(instruction, (Write, BurstWrite, BurstWriteInc)) or instruction.unit not in _ENGINES:
        return instruction
    if isinstance(instruction, Write):
        return replace(instruction, value=_value(instruction.reg, instruction.value, parts))
    step = 1 if isinstance(instruction, BurstWriteInc) else 0
    values = (_value(instruction.reg + step * k, value, parts) for k, value in enumerate(instruction.values))
    return replace(instruction, values=tuple(values))


def _value(register: int, value: int, parts: Sequence[Movable]) -> int:
    if register not in _ADDRESSES:
        return value
    owner = next((part for part in parts if part.address <= value < part.limit), None)
    if owner is not None:
        return SymbolOffset(value - owner.address, owner.symbol)
    if USER_BASE <= value < USER_BASE + USER_BYTES:
        raise ToolError(f"an engine is told {value:#x}, which belongs to no buffer of the application")
    return value
