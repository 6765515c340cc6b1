"""A call of a CPU kernel as plain data: what network.c says and what the emulator reads back."""

from __future__ import annotations

from collections.abc import Iterable

from atonc.machine.base.frozen import dataclass

C_BYTES = {
    **dict.fromkeys(("int8_t", "uint8_t"), 1),
    **dict.fromkeys(("int16_t", "uint16_t"), 2),
    **dict.fromkeys(("int32_t", "uint32_t", "float"), 4),
    **dict.fromkeys(("int64_t", "uint64_t", "double"), 8),
}


@dataclass(frozen=True)
class Pointer:
    """The address of a placed buffer, cast to a pointer."""

    buffer: str
    ctype: str  # "int8_t", "float", ...
    constant: bool = False
    offset_bytes: int = 0


@dataclass(frozen=True)
class ConstantTable:
    """Numbers that live in the code as a `static const` array."""

    ctype: str
    values: tuple[int | float, ...]

    @property
    def size_bytes(self) -> int:
        return C_BYTES[self.ctype] * len(self.values)


@dataclass(frozen=True)
class Struct:
    """A parameter block, `&(const type){.member = value, ...}`."""

    ctype: str
    members: tuple[tuple[str, int | float | ConstantTable | Pointer], ...]


@dataclass(frozen=True)
class Word:
    """A name of the C program."""

    name: str


Argument = Pointer | ConstantTable | Struct | Word | int | float


@dataclass(frozen=True)
class CpuCall:
    function: str
    arguments: tuple[Argument, ...]


def tables_of(calls: Iterable[CpuCall]) -> tuple[ConstantTable, ...]:
    """All tables of a function that makes these calls, equal ones once, in the order of their first use."""
    found: dict[ConstantTable, None] = {}
    for call in calls:
        for argument in call.arguments:
            members = [value for _, value in argument.members] if isinstance(argument, Struct) else [argument]
            found |= dict.fromkeys(value for value in members if isinstance(value, ConstantTable))
    return tuple(found)
