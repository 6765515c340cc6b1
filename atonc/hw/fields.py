"""How a unit's `Config` is tied to its registers: each dataclass field names the register field that holds it.

That one declaration gives `encode` (config to register values) and `decode` (register values to config). Register
fields that no config declares are kept in `unmodelled` when they differ from reset, so that a program can always be
shown, while executing it raises a clear error instead of a guess.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from atonc.errors import NotModelledError
from atonc.hw import regs

_ACTIONS = {("CTRL", "EN"), ("CTRL", "CLR"), ("CTRL", "CONFCLR")}  # not configuration

C = TypeVar("C", bound="UnitConfig")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a config field lives."""

    register: str
    field: str
    signed: bool = False


def declare(kind: str) -> Callable[..., Any]:
    """Returns `bits`, which declares dataclass fields of a unit kind: `bits("KFORMAT.WIDTH")`."""

    def bits(where: str, *, signed: bool = False) -> Any:
        register, field = where.split(".")
        reset = _extract(regs.registers(kind)[register].reset, Place(register, field, signed), kind)
        return dataclasses.field(default=reset, metadata={"place": Place(register, field, signed)})

    return bits


@dataclasses.dataclass(frozen=True)
class UnitConfig:
    """Base of all unit configurations."""

    unmodelled: tuple[tuple[str, int], ...] = dataclasses.field(default=(), kw_only=True)

    KIND = ""

    def require_modelled(self, unit: str) -> None:
        """Raises when a register field is set whose effect nobody has observed."""
        if self.unmodelled:
            listed = ", ".join(f"{self.KIND}.{name} = {value:#x}" for name, value in self.unmodelled)
            raise NotModelledError(
                f"{listed}: the effect of this setting is not known, so the emulator does not guess it",
                where=unit,
                rule="only modes whose result is proven are emulated",
                remedy="report the network, or compile it without that mode",
            )


def not_modelled(unit: str, what: str, value: int) -> NotModelledError:
    return NotModelledError(
        f"{what} = {value:#x} is not modelled: its effect on silicon was never observed",
        where=unit,
        rule="only modes whose result is proven are emulated",
        remedy="report the network, or compile it without that mode",
    )


def encode(config: UnitConfig) -> dict[int, int]:
    """Register index -> value, for every register that the config declares."""
    words: dict[int, int] = {}
    table = regs.registers(config.KIND)
    for bits in _layout(cast(Hashable, type(config))):
        value = int(getattr(config, bits.name))
        word = words.get(bits.register, bits.reset)
        words[bits.register] = word & ~(bits.mask << bits.lsb) | (value & bits.mask) << bits.lsb
    for name, value in config.unmodelled:
        register_name, field = name.split(".")
        register = table[register_name]
        place = register.field(field)
        word = words.get(register.index, register.reset)
        words[register.index] = word & ~(place.mask << place.lsb) | (value & place.mask) << place.lsb
    return words


def decode(cls: type[C], words: Mapping[int, int], **extra: Any) -> C:
    """The config that these register values mean; registers that are absent have their reset value."""
    values: dict[str, Any] = {}
    for bits in _layout(cast(Hashable, cls)):
        value = words.get(bits.register, bits.reset) >> bits.lsb & bits.mask
        values[bits.name] = value - bits.mask - 1 if bits.signed and value > bits.mask >> 1 else value
    return cls(**values, unmodelled=_leftovers(cls, words), **extra)


def places(cls: type[UnitConfig]) -> tuple[tuple[str, Place], ...]:
    """Names of the config fields with the register fields that hold them."""
    return _places(cast(Hashable, cls))


@cache
def _places(cls: Any) -> tuple[tuple[str, Place], ...]:
    fields = dataclasses.fields(cls)
    return tuple((f.name, f.metadata["place"]) for f in fields if "place" in f.metadata)


class Bits(NamedTuple):
    """A config field and its place in numbers: looked up once, used for every unit of every epoch."""

    name: str
    register: int
    reset: int
    lsb: int
    mask: int
    signed: bool


@cache
def _layout(cls: Any) -> tuple[Bits, ...]:
    found = []
    for name, place in places(cls):
        register = regs.registers(cls.KIND)[place.register]
        bits = register.field(place.field)
        found.append(Bits(name, register.index, register.reset, bits.lsb, bits.mask, place.signed))
    return tuple(found)


@cache
def _undeclared(cls: Any) -> tuple[tuple[regs.Register, regs.Field], ...]:
    declared = {(place.register, place.field) for _, place in places(cls)}
    return tuple(
        (register, field)
        for register in regs.registers(cls.KIND).values()
        for field in register.fields
        if field.writable and (register.name, field.name) not in declared | _ACTIONS
    )


def _leftovers(cls: type[UnitConfig], words: Mapping[int, int]) -> tuple[tuple[str, int], ...]:
    out = []
    for register, field in _undeclared(cast(Hashable, cls)):
        word = words.get(register.index)
        if word is None:
            continue
        value = word >> field.lsb & field.mask
        if value != register.reset >> field.lsb & field.mask:
            out.append((f"{register.name}.{field.name}", value))
    return tuple(out)


def _extract(word: int, place: Place, kind: str) -> int:
    field = regs.registers(kind)[place.register].field(place.field)
    value = word >> field.lsb & field.mask
    if place.signed and value >> (field.width - 1):
        value -= 1 << field.width
    return value
