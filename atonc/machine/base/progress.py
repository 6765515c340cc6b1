"""Who works says how far it is; who watches shows it. Nothing is printed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Watcher = Callable[[str, int, int], None]  # stage, steps done, steps in all (0: nobody knows)
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)

_PART: ContextVar[str] = ContextVar("part", default="")


def stage(title: str, done: int = 0, total: int = 0) -> None:
    """What is being done now, and how much of it is done."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(_PART.get() + title, done, total)


@contextmanager
def part(title: str) -> Iterator[None]:
    """Stages meanwhile belong to something larger, which is named before them."""
    before = _PART.set(f"{_PART.get()}{title}: ")
    try:
        yield
    finally:
        _PART.reset(before)


def is_watched() -> bool:
    return _WATCHER.get() is not None


@contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    before = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(before)
