"""`dataclass` as in the standard library, for classes that are read in every start of the program.

The library writes the text of six functions for every frozen class and lets Python compile them: 350 classes took two
fifths of the time of a small model, and constructors that set one field after the other a twentieth of a large one's.
Here only the constructor is compiled, when it is called for the first time (most classes have no object in a run), and
it sets all fields at once. Classes with `slots`, `order` or anything else that is rare are the library's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

from atonc.machine.base.errors import plain

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, **rare):
        def made(cls):
            if not frozen or rare or _has_other_base(cls):
                return dataclasses.dataclass(cls, frozen=frozen, eq=eq, repr=repr, **rare)
            return _made(cls, eq, repr)

        return made if cls is None else made(cls)

    def replace(thing, /, **changes):
        """As in the library. Where a constructor only sets fields, they are copied: many times quicker."""
        names = _COPIED.get(thing.__class__)
        if names is None:
            return dataclasses.replace(thing, **changes)
        own = vars(thing)
        values = {**own, **changes} if len(own) == len(names) else {name: own[name] for name in names} | changes
        if len(values) != len(names):
            raise TypeError(f"{thing.__class__.__name__} has no field {', '.join(sorted(values.keys() - set(names)))}")
        copy = object.__new__(thing.__class__)
        object.__setattr__(copy, "__dict__", values)
        return copy


def _has_other_base(cls: type) -> bool:
    """One that the library has made frozen: it checks what follows."""
    return any(getattr(getattr(base, "__dataclass_params__", None), "frozen", False) for base in cls.__mro__[1:])


def _made(cls: Any, eq: bool, repr: bool) -> Any:
    own = dict(vars(cls))
    if not own.get("__doc__"):
        cls.__doc__ = cls.__name__  # else the library works out the signature
    if not _plain_fields(cls, own.get("__annotations__", {})):
        cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False)
    methods: dict[str, Any] = {
        "__init__": _constructor(cls),
        "__setattr__": _no_assignment,
        "__delattr__": _no_deletion,
    }
    if repr:
        methods["__repr__"] = _shown
    if eq:
        fields = dataclasses.fields(cls)
        methods["__eq__"] = _equality(_values([f.name for f in fields if f.compare]))
        methods["__hash__"] = _hash(_values([f.name for f in fields if (f.compare if f.hash is None else f.hash)]))
    for name, method in methods.items():
        if own.get(name) is None:
            setattr(cls, name, method)
    return cls


class _Sample:
    """What the library writes down of a class of one field: the same for all."""

    field: int


_SAMPLE = dataclasses.dataclass(_Sample, init=False, repr=False, eq=False)
_OF_FIELDS, _PARAMETERS = "__dataclass_fields__", "__dataclass_params__"
_RARE = ("ClassVar", "InitVar", "KW_ONLY")  # what an annotation may say that makes it no field


def _plain_fields(cls: Any, annotations: dict[str, Any]) -> bool:
    """Writes down the fields as the library does, without its checks of what our classes do not have; False, and
    nothing done, where they have."""
    if any(word in str(kind) for kind in annotations.values() for word in _RARE) or hasattr(cls, "__abstractmethods__"):
        return False
    found: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        found |= base.__dict__.get(_OF_FIELDS, {})
    usual = getattr(_SAMPLE, _OF_FIELDS)["field"]._field_type
    for name, kind in annotations.items():
        default = cls.__dict__.get(name, dataclasses.MISSING)
        known = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        if known.default.__class__.__hash__ is None:
            raise ValueError(f"the default of {cls.__name__}.{name} can be changed: use a default_factory")
        vars_of: Any = known  # names of the library's own
        vars_of.name, vars_of.type, vars_of._field_type = name, kind, usual
        known.kw_only = False if known.kw_only is dataclasses.MISSING else known.kw_only
        found[name] = known
        if isinstance(default, dataclasses.Field):
            if known.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, known.default)
    setattr(cls, _OF_FIELDS, found)
    setattr(cls, _PARAMETERS, getattr(_SAMPLE, _PARAMETERS))
    if "__match_args__" not in cls.__dict__:
        positional = tuple(name for name, known in found.items() if known.init and not known.kw_only)
        type.__setattr__(cls, "__match_args__", positional)
    return True


def _constructor(cls: Any) -> Callable[..., None]:
    """One that is written when it is called, and takes this one's place then."""

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        cls.__init__ = written = _written(cls)
        written(self, *given, **named)

    return __init__


_COPIED: dict[type, tuple[str, ...]] = {}  # fields of classes whose constructor does nothing else


def _written(cls: Any) -> Callable[..., None]:
    """Every field is a name in the text, its default a name in what the text sees."""
    seen: dict[str, Any] = {"_set": object.__setattr__, "_absent": dataclasses.MISSING}
    fields = dataclasses.fields(cls)
    for f in fields:
        seen |= {f"_default_{f.name}": f.default, f"_make_{f.name}": f.default_factory}
    given = [f for f in fields if f.init]
    named = [_parameter(f) for f in given if f.kw_only]
    parameters = ["self", *(_parameter(f) for f in given if not f.kw_only), *(["*", *named] if named else [])]
    values = ", ".join(f"{f.name!r}: {_value(f)}" for f in fields if f.init or _is_made(f))
    more = "; self.__post_init__()" if hasattr(cls, "__post_init__") else ""
    if not more and len(given) == len(fields):
        _COPIED[cls] = tuple(f.name for f in fields)
    exec(f"def __init__({', '.join(parameters)}): _set(self, '__dict__', {{{values}}}){more}", seen)
    constructor: Callable[..., None] = seen["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def _parameter(field: Any) -> str:
    if _is_made(field):
        return f"{field.name}=_absent"
    return field.name if field.default is dataclasses.MISSING else f"{field.name}=_default_{field.name}"


def _value(field: Any) -> str:
    if not _is_made(field):
        return str(field.name)
    return f"_make_{field.name}()" + (f" if {field.name} is _absent else {field.name}" if field.init else "")


def _is_made(field: Any) -> bool:
    return field.default_factory is not dataclasses.MISSING


def _values(names: list[str]) -> Callable[[Any], Any]:
    """Makes a function that reads these fields; a single one, or none, as a tuple too."""
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda self: (getattr(self, names[0]),)) if names else lambda self: ()


def _hash(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    return lambda self: hash(values(self))


def _equality(values: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _shown(self: Any) -> str:
    fields = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({fields})"


_BRIEF, _VALUE = 200, 40  # characters of a line, and of one value in it


def brief(self: Any) -> str:
    """The `__repr__` of objects that users meet: one line; of what holds many things it says how many."""
    fields = ", ".join(f"{f.name}={_in_short(getattr(self, f.name))}" for f in dataclasses.fields(self) if f.repr)
    text = plain(f"{type(self).__qualname__}({fields})")
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 4]}...)"


def _in_short(value: Any) -> str:
    parts = value if isinstance(value, tuple) else (value,)
    if all(part is None or isinstance(part, str | int | float) for part in parts):
        text = f"{value:.6g}" if isinstance(value, float) else repr(value)
        return text if len(text) <= _VALUE else f"{text[: _VALUE - 3]}..."
    return f"<{len(value)}>" if hasattr(value, "__len__") else f"<{type(value).__name__}>"


def _no_assignment(self: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _no_deletion(self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
