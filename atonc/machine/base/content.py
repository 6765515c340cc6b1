"""The content of a value: its digest, and its bytes, from which another run makes it again.

Equal values in two runs have equal digests, whatever their addresses. Functions have neither digest nor bytes.

Bytes are those of `pickle`, which reads tens of thousands of small objects in milliseconds, without what makes it a way
to run code: they name types only, of dataclasses, named tuples, enums and numbers of this package and the few below.
What an object worked out of its fields is no part of it.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
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
            if not getattr(value, KEY):
                raise NoContentError(f"a {type(value).__qualname__} of unknown origin")
            return [getattr(value, KEY).encode()]
        if isinstance(value, int | float | str):  # a type made of one
            return [repr(value).encode()]
        if isinstance(value, bytes | bytearray):
            return [bytes(value)]
        if type(value).__module__ == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject:
            return [f"{value.dtype.str} {value.shape}".encode(), value.tobytes()]
        if isinstance(value, Enum):
            return [value.name.encode()]
        if isinstance(value, type):
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
        raise NoContentError(f"a {type(value).__qualname__} has no content that can be told")


def _hash(kind: str, *parts: bytes) -> bytes:
    found = hashlib.sha256(f"{kind} {len(parts)}".encode())
    for part in parts:
        found.update(b"%d " % len(part))
        found.update(part)
    return found.digest()


_PACKAGE = "atonc."
# what data needs; BUILD is not among them, which sets attributes of whatever is there, of classes too
_OPCODES = """
    PROTO FRAME STOP MARK MEMOIZE BINGET LONG_BINGET BINPERSID NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1
    BINFLOAT SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8 BYTEARRAY8 EMPTY_TUPLE TUPLE1
    TUPLE2 TUPLE3 TUPLE EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET
    STACK_GLOBAL NEWOBJ REDUCE
"""
_PLAIN = {
    (kind.__module__, kind.__qualname__)
    for kind in (bytearray, complex, Counter, Fraction, frozenset, OrderedDict, range, set, slice)
}


class BadValueError(ValueError):
    """Bytes that no value gave."""


def packed(value: object, known: tuple[object, ...] = ()) -> bytes:
    """`known`: objects that are referred to by their place."""
    file = io.BytesIO()
    try:
        _DataWriter(file, known).dump(value)
    except (pickle.PicklingError, RecursionError) as error:
        raise NoContentError(str(error)) from None
    if strange := _strange(file.getvalue()):
        raise NoContentError(f"{strange} is not data")
    return file.getvalue()


def unpacked(content: bytes | memoryview, known: tuple[object, ...] = ()) -> Any:
    """BadValueError for anything but what `packed` gave: hostile bytes are refused in many ways."""
    try:
        if strange := _strange(content):
            raise BadValueError(f"{strange} is not data")
        return _DataReader(io.BytesIO(content), known).load()
    except Exception as error:
        raise BadValueError(f"{type(error).__name__}: {str(error)[:80]}") from None


def _strange(content: bytes | memoryview) -> str:
    """The first operation that no data needs."""
    allowed = frozenset(_OPCODES.split())
    return next((code.name for code, _, _ in pickletools.genops(bytes(content)) if code.name not in allowed), "")


class _DataWriter(pickle.Pickler):
    def __init__(self, file: io.BytesIO, known: tuple[object, ...]) -> None:
        super().__init__(file, protocol=5)
        self._places = {id(one): place for place, one in enumerate(known)}

    def persistent_id(self, value: object) -> int | None:
        return self._places.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        kind: Any = type(value)
        if _is_data(kind):
            if isinstance(value, Enum):
                return kind, (value.value,)
            names = _fields(kind)
            return NotImplemented if names is None else (_made, (kind, *(getattr(value, name) for name in names)))
        if kind.__module__ == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject:
            return _array, (value.dtype.str, value.shape, value.tobytes(), kind.__name__ == "ndarray")
        if value is _array or value is _made or (isinstance(value, type) and _is_data(value)):
            return NotImplemented
        raise NoContentError(f"a {kind.__qualname__} has no bytes")


class _DataReader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, known: tuple[object, ...]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, place: Any) -> object:
        return self._known[place]

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if module == __name__ and name in (_array.__name__, _made.__name__):
            return _array if name == _array.__name__ else _made
        is_ours = module.startswith(_PACKAGE) or (module, name) in _PLAIN
        found = super().find_class(module, name) if is_ours else None
        if isinstance(found, type) and _is_data(found):
            return found
        raise BadValueError(f"{module}.{name} is no type of a value")


@lru_cache(maxsize=1 << 10)
def _fields(kind: Any) -> tuple[str, ...] | None:
    """Their names, of a dataclass: what follows from them is worked out again."""
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else None


@lru_cache(maxsize=1 << 10)
def _is_data(kind: type) -> bool:
    if not kind.__module__.startswith(_PACKAGE):
        return (kind.__module__, kind.__qualname__) in _PLAIN
    return is_dataclass(kind) or issubclass(kind, Enum | tuple | int | str)


def _made(kind: Any, *values: object) -> Any:
    """A dataclass of these fields, whose constructor is not called."""
    names, made = _fields(kind), object.__new__(kind)
    for name, value in zip(names or (), values, strict=True):
        object.__setattr__(made, name, value)
    return made


def _array(kind: str, shape: tuple[int, ...], content: bytes, is_array: bool) -> Any:
    """An array of numpy, or one number of it."""
    import numpy

    found = numpy.frombuffer(content, numpy.dtype(kind)).reshape(shape)
    return found if is_array else found[()]
