"""What follows from an object that never changes is worked out once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def once_per_object(function: Callable[[T], R]) -> Callable[[T], R]:
    """Remembers the result for every object, equal ones apart, for as long as the object lives."""
    known: dict[int, tuple[weakref.ref[T], R]] = {}

    @wraps(function)
    def remembered(item: T) -> R:
        key = id(item)
        if key not in known:
            result = function(item)
            known[key] = weakref.ref(item, lambda _: known.pop(key, None)), result
        return known[key][1]

    return remembered
