"""One file per operator family; every module in this folder registers its recipes when it is imported."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def load() -> None:
    for module in sorted(m.name for m in iter_modules(__path__)):
        import_module(f"{__name__}.{module}")
