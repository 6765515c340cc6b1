"""A call of a CPU kernel as plain data: what network.c says and what the emulator reads back."""

from __future__ import annotations

from atonc.machine.base.frozen import dataclass


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


@dataclass(frozen=True)
class Struct:
    """A parameter block, `&(const type){.member = value, ...}`."""

    ctype: str
    members: tuple[tuple[str, int | float | ConstantTable], ...]


Argument = Pointer | ConstantTable | Struct | int | float


@dataclass(frozen=True)
class CpuCall:
    function: str
    arguments: tuple[Argument, ...]
