"""Reading the evaluated C arguments of a call: structures, arrays and numbers, with errors that name the field; and the
functions that generated code may call, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.files.types import CValue, Symbol

MAX_RANK = 8


def fail(what: str, where: str) -> InputError:
    return InputError(
        what,
        where=where,
        rule="a library call gets the structures that ST's code generator writes",
        remedy="check that the C file is complete and comes from ST's compiler",
    )


def as_int(value: CValue, where: str) -> int:
    if isinstance(value, int):
        return value
    raise fail("an integer is expected here", where)


def as_number(value: CValue, where: str) -> float:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    raise fail("a finite number is expected here", where)


def as_ints(value: CValue, where: str, count: int | None = None) -> tuple[int, ...]:
    """An array of integers, cut to `count` where C code only uses so many."""
    if not isinstance(value, list) or len(value) > 4096:
        raise fail("an array of integers is expected here", where)
    numbers = tuple(as_int(item, where) for item in value)
    if count is not None and len(numbers) < count:
        raise fail(f"an array of at least {count} integers is expected here", where)
    return numbers if count is None else numbers[:count]


def as_address(value: CValue, where: str) -> int:
    """A pointer; unions of pointer types may still have their braces."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    address = as_int(value, where)
    if not 0 <= address < 1 << 32:
        raise fail(f"{address:#x} is not a 32-bit address", where)
    return address


class StructView:
    """A C structure. Members that the initialiser leaves out are zero, as in C."""

    def __init__(self, members: Mapping[str, CValue], where: str) -> None:
        self.members, self.where = members, where

    @classmethod
    def of(cls, value: CValue, where: str) -> StructView:
        """A structure, or a pointer to the first of an array of them."""
        if isinstance(value, list) and value:
            value = value[0]
        if not isinstance(value, dict):
            raise fail("a structure is expected here", where)
        return cls(value, where)

    def _place(self, path: str) -> str:
        return f"{self.where}.{path}"

    def value(self, path: str) -> CValue:
        """The member at a dotted path, None where it is NULL or missing."""
        found: CValue = dict(self.members)
        for key in path.split("."):
            if not isinstance(found, dict):
                raise fail(f"{key} is not a member of a structure", self._place(path))
            found = found.get(key)
            if found is None:
                return None
        return found

    def sub(self, path: str) -> StructView:
        found = self.value(path)
        if found is not None and not isinstance(found, dict):
            raise fail("a structure is expected here", self._place(path))
        return StructView(found or {}, self._place(path))

    def has(self, path: str) -> bool:
        return self.value(path) is not None

    def integer(self, path: str, default: int = 0) -> int:
        found = self.value(path)
        return default if found is None else as_int(found, self._place(path))

    def number(self, path: str, default: float = 0.0) -> float:
        found = self.value(path)
        return default if found is None else as_number(found, self._place(path))

    def integers(self, path: str, count: int) -> tuple[int, ...]:
        return as_ints(self.value(path), self._place(path), count)

    def numbers(self, path: str) -> tuple[float, ...]:
        found = self.value(path)
        if found is None:
            return ()
        if not isinstance(found, list):
            raise fail("an array of numbers is expected here", self._place(path))
        return tuple(as_number(item, self._place(path)) for item in found)

    def address(self, path: str) -> int:
        return as_address(self.value(path), self._place(path))

    def enum(self, path: str) -> str:
        """The name of an enumeration constant, empty where the member is left out."""
        found = self.value(path)
        if found is None:
            return ""
        if not isinstance(found, Symbol):
            raise fail("the name of an enumeration constant is expected here", self._place(path))
        return found.name


def struct_list(value: CValue, count: int, where: str) -> list[StructView]:
    """The first `count` structures of an array."""
    if not isinstance(value, list) or not 0 < count <= len(value):
        raise fail(f"an array of {count} structures is expected here", where)
    return [StructView.of(item, f"{where}[{k}]") for k, item in enumerate(value[:count])]


def argument(args: Sequence[CValue], index: int, where: str) -> CValue:
    if index >= len(args):
        raise fail(f"argument {index + 1} is missing", where)
    return args[index]


Kernel = Callable[[Sequence[CValue], AddressSpace], None]
Layer = Callable[[StructView, AddressSpace], None]

KERNELS: dict[str, Kernel] = {}


def layer(kind: str) -> Callable[[Layer], Layer]:
    """Registers a `ll_sw_forward_*` function, whose only meaningful argument is a structure."""
    name = f"ll_sw_forward_{kind}"

    def register(function: Layer) -> Layer:
        def kernel(args: Sequence[CValue], memory: AddressSpace) -> None:
            function(StructView.of(argument(args, 0, name), kind), memory)

        KERNELS[name] = kernel
        return function

    return register


def not_modelled(what: str, info: StructView, why: str = "its arithmetic is not published") -> NotModelledError:
    return NotModelledError(what, where=info.where, rule=f"the emulator never guesses: {why}")
