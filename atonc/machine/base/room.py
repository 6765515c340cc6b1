"""RAM as options say it: so many bytes, or all that is free."""

from __future__ import annotations

import re

from atonc.machine.base.errors import InputError

ALL_FREE = "all"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(|k|m|g)(i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Room(int):
    """Bytes, a number as any other; as text it is what an option takes."""

    def __str__(self) -> str:
        return ALL_FREE if self >= ALL_RAM else str(int(self)) if self else ""


NO_ROOM = Room(0)
ALL_RAM = Room(1 << 40)  # more than any board has


def size(text: str) -> int:
    """Bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{text[:60]!r} is not a size", remedy="write bytes, or 640k, or 1.5M")
    return round(float(match[1]) * _UNITS[match[2].lower()])


def room(text: str) -> Room:
    """Nothing, `ALL_FREE`, or a size."""
    return ALL_RAM if text.strip() == ALL_FREE else Room(size(text or "0"))
