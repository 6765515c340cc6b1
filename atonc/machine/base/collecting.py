"""Python's search for cycles, which finds hardly any in a compilation."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS_BETWEEN_COLLECTIONS = 500_000


@contextmanager
def few_collections() -> Iterator[None]:
    """Looking for cycles among the many small objects of a program took 6 % of a compilation, 10 % of an estimate."""
    before = gc.get_threshold()
    gc.set_threshold(max(OBJECTS_BETWEEN_COLLECTIONS, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
