"""What follows from an object that never changes is worked out once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

_NOTHING = object()


def memoise(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Remembers the result for every object, equal ones apart, for as long as the object lives.

    Further arguments are hashed: the result is remembered for each of their values.
    """
    known: dict[int, tuple[weakref.ref[T], dict[object, Any]]] = {}

    @wraps(function)
    def remembered(item: T, /, *more: P.args, **named: P.kwargs) -> R:
        key, asked = id(item), (_NOTHING, more, *named.items()) if named else more
        entry = known.get(key)
        if entry is None:
            entry = known[key] = weakref.ref(item, lambda _: known.pop(key, None)), {}
        results = entry[1]
        found = results.get(asked, _NOTHING)
        if found is _NOTHING:
            found = results[asked] = function(item, *more, **named)
        return found  # type: ignore[no-any-return]

    return remembered
