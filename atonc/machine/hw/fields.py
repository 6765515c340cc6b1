"""How a unit's `Config` is tied to its registers: each dataclass field names the register field that holds it.

That one declaration gives `encode` (config to register values) and `decode` (register values to config). Register
fields that no config declares are kept in `unmodelled` when they differ from reset, so that a program can always be
shown, while executing it raises a clear error instead of a guess.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from functools import cache, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar, cast

from atonc.machine.base.errors import NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import regs

PLACE = frozenset({"address", "address_limit"})  # fields that say where in memory an engine is
ALONE = frozenset({*PLACE, "in_shift", "out_shift"})  # from which no derived property follows
_ACTIONS = {("CTRL", "EN"), ("CTRL", "CLR"), ("CTRL", "CONFCLR")}  # not configuration

C = TypeVar("C", bound="UnitConfig")
R = TypeVar("R")


class derived(Generic[R]):
    """A property of a configuration that is worked out once: configurations never change, and cycle models ask for the
    same few numbers of each dozens of times. `changed` leaves it out of the copy, where more than `ALONE` changes:
    nothing derived may follow from that."""

    def __init__(self, work_out: Callable[[Any], R]) -> None:
        self.work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, config: Any, owner: type | None = None) -> R:
        found: R = self.work_out(config)
        vars(config)[self.name] = found  # which Python finds first from now on
        return found


@cache
def _derived(cls: Any) -> tuple[str, ...]:
    return tuple(name for kind in cls.__mro__ for name, value in vars(kind).items() if isinstance(value, derived))


@dataclass(frozen=True)
class FieldPlace:
    """Where a config field lives."""

    register: str
    field: str
    signed: bool = False


def declare(kind: str) -> Callable[..., Any]:
    """Returns `bits`, which declares dataclass fields of a unit kind: `bits("KFORMAT.WIDTH")`."""

    def bits(where: str, *, signed: bool = False) -> Any:
        register, field = where.split(".")
        reset = _extract(regs.registers(kind)[register].reset, FieldPlace(register, field, signed), kind)
        return dataclasses.field(default=reset, metadata={"place": FieldPlace(register, field, signed)})

    return bits


@dataclass(frozen=True)
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


def changed(config: C, **values: Any) -> C:
    """`dataclasses.replace` of a configuration. It has dozens of fields and derives nothing from them: a copy of them
    all is many times quicker than the constructor."""
    kind = type(config)
    copy: C = object.__new__(kind)
    own = vars(copy)
    own.update(vars(config))
    for name in () if ALONE.issuperset(values) else _derived(kind):  # type: ignore[arg-type]
        if name in own:
            del own[name]
    fields = len(own)
    own.update(values)
    if len(own) != fields:
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(values.keys() - vars(config).keys()))}")
    return copy


def not_modelled(unit: str, what: str, value: int) -> NotModelledError:
    return NotModelledError(
        f"{what} = {value:#x} is not modelled: its effect on silicon was never observed",
        where=unit,
        rule="only modes whose result is proven are emulated",
        remedy="report the network, or compile it without that mode",
    )


def encode(config: UnitConfig) -> dict[int, int]:
    """Register index -> value, for every register that the config declares."""
    layout = _layout(cast(Hashable, type(config)))
    words, own = dict(layout.resets), vars(config)
    for name, index, lsb, mask, _, default in layout.bits:
        if (value := own[name]) != default:  # most fields are as after reset
            words[index] = words[index] & ~(mask << lsb) | (int(value) & mask) << lsb
    for name, value in config.unmodelled:
        register_name, field = name.split(".")
        register = regs.registers(config.KIND)[register_name]
        place = register.field(field)
        word = words.get(register.index, register.reset)
        words[register.index] = word & ~(place.mask << place.lsb) | (value & place.mask) << place.lsb
    return words


def decode(cls: type[C], words: Mapping[int, int], **extra: Any) -> C:
    """The config that these register values mean; registers that are absent have their reset value."""
    found: C = _decoded(cast(Hashable, cls), tuple(words.items()))
    return changed(found, **extra) if extra else found


@lru_cache(maxsize=1 << 13)
def _decoded(cls: Any, words: tuple[tuple[int, int], ...]) -> Any:
    """The units of a program are often told the same."""
    layout, others = _layout(cls), _undeclared_bits(cls)
    values: dict[str, Any] = {}
    for register, word in words:
        if word != layout.resets.get(register, word):
            for name, _, lsb, mask, signed, _ in layout.by_register[register]:
                value = word >> lsb & mask
                values[name] = value - mask - 1 if signed and value > mask >> 1 else value
        if register in others and word & others[register][0] != others[register][1]:
            values["unmodelled"] = _leftovers(cls, dict(words))
    return changed(_after_reset(cls), **values)


def places(cls: type[UnitConfig]) -> tuple[tuple[str, FieldPlace], ...]:
    """Names of the config fields with the register fields that hold them."""
    return _places(cast(Hashable, cls))


@cache
def _places(cls: Any) -> tuple[tuple[str, FieldPlace], ...]:
    fields = dataclasses.fields(cls)
    return tuple((f.name, f.metadata["place"]) for f in fields if "place" in f.metadata)


class Bits(NamedTuple):
    """A config field and its place in numbers: looked up once, used for every unit of every epoch."""

    name: str
    register: int
    lsb: int
    mask: int
    signed: bool
    default: int  # after reset


class FieldLayout(NamedTuple):
    """All fields of a kind of config, and what its registers are after reset."""

    bits: tuple[Bits, ...]
    by_register: Mapping[int, tuple[Bits, ...]]
    resets: Mapping[int, int]


@cache
def _layout(cls: Any) -> FieldLayout:
    found, resets = [], {}
    for name, place in places(cls):
        register = regs.registers(cls.KIND)[place.register]
        lsb, mask = register.field(place.field).lsb, register.field(place.field).mask
        default = _extract(register.reset, place, cls.KIND)
        found.append(Bits(name, register.index, lsb, mask, place.signed, default))
        resets[register.index] = register.reset
    by_register = {index: tuple(bits for bits in found if bits.register == index) for index in resets}
    return FieldLayout(tuple(found), by_register, resets)


@cache
def _after_reset(cls: Any) -> Any:
    return cls()


@cache
def _undeclared(cls: Any) -> tuple[tuple[regs.Register, regs.Field], ...]:
    declared = {(place.register, place.field) for _, place in places(cls)}
    return tuple(
        (register, field)
        for register in regs.registers(cls.KIND).values()
        for field in register.fields
        if field.writable and (register.name, field.name) not in declared | _ACTIONS
    )


@cache
def _undeclared_bits(cls: Any) -> Mapping[int, tuple[int, int]]:
    """Register index -> mask of these fields, and what they are after reset."""
    found: dict[int, tuple[int, int]] = {}
    for register, field in _undeclared(cls):
        mask = found.get(register.index, (0, 0))[0] | field.mask << field.lsb
        found[register.index] = mask, register.reset & mask
    return found


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


def _extract(word: int, place: FieldPlace, kind: str) -> int:
    field = regs.registers(kind)[place.register].field(place.field)
    value = word >> field.lsb & field.mask
    if place.signed and value >> (field.width - 1):
        value -= 1 << field.width
    return value
