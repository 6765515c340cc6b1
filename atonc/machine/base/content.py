"""The digest of a value by its content: equal values in two runs have equal digests, whatever their addresses.

A function counts as its code and what it holds on to. What it looks up by name belongs to the package, whose
source is a part of every key of the cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

KEY = "content_key"  # an object that has it tells its content itself
_UNDER_WAY = b""  # of a value whose parts are being told


class NoContentError(TypeError):
    """A value whose content cannot be told: a generator, a file, one that holds itself."""


def digest(*values: object) -> str:
    """In hexadecimal digits."""
    return _Digests().of(values).hex()


class _Digests:
    """Each object once; they live as long as what holds them."""

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}

    def of(self, value: object) -> bytes:
        kind, number = type(value), id(value)
        if value is None or kind in (bool, int, float, str, Fraction, range):
            return f"{kind.__name__} {value!r}".encode()  # as it is: whoever holds it says how long it is
        if number not in self._known:
            self._known[number] = _UNDER_WAY
            self._known[number] = _hash(f"{kind.__module__}.{kind.__qualname__}", *self._parts(value))
        found = self._known[number]
        if found == _UNDER_WAY:
            raise NoContentError(f"a {kind.__name__} that holds itself")
        return found

    def _parts(self, value: Any) -> list[bytes]:
        """What tells it from others of its type."""
        if hasattr(value, KEY):
            return [str(getattr(value, KEY)).encode()]
        if isinstance(value, int | float | str):  # a type made of one
            return [repr(value).encode()]
        if isinstance(value, bytes | bytearray):
            return [bytes(value)]
        if type(value).__module__ == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject:
            return [f"{value.dtype.str} {value.shape}".encode(), value.tobytes()]
        if isinstance(value, Enum):
            return [value.name.encode()]
        if isinstance(value, type | BuiltinFunctionType):
            return [f"{value.__module__}.{value.__qualname__}".encode()]
        if isinstance(value, Path):
            return [str(value).encode()]
        if is_dataclass(value):
            return [self.of(getattr(value, f.name)) for f in fields(value) if f.init]
        if isinstance(value, Mapping):
            return [self.of(part) for pair in value.items() for part in pair]
        if isinstance(value, Set):
            return sorted(map(self.of, value))
        if isinstance(value, Sequence):
            return [self.of(part) for part in value]
        return [self.of(part) for part in _inside(value)]


def _inside(value: Any) -> tuple[object, ...]:
    if isinstance(value, partial):
        return value.func, value.args, value.keywords
    if isinstance(value, MethodType):
        return value.__self__, value.__func__
    if isinstance(value, FunctionType):
        held = tuple(cell.cell_contents for cell in value.__closure__ or ())
        return value.__module__, value.__qualname__, value.__code__, held, value.__defaults__, value.__kwdefaults__
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_consts
    raise NoContentError(f"a {type(value).__qualname__} has no content that can be told")


def _hash(kind: str, *parts: bytes) -> bytes:
    found = hashlib.sha256(f"{kind} {len(parts)}".encode())
    for part in parts:
        found.update(b"%d " % len(part))
        found.update(part)
    return found.digest()
