"""Numbers and names in sentences: singular and plural, lists, sizes, names that are too long for their place; and sizes
that options say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from atonc.machine.base.errors import InputError

_KIB = 1024
_NEAR, _NAMED, _LONG = 3, 8, 200  # names that are suggested, that are listed, and their characters


def count(number: float, noun: str, plural: str = "") -> str:
    """`1 layer`, `1,024 layers`, `0.5 codes`; `plural` where it is not the noun with an s."""
    digits = "," if isinstance(number, int) else "g"
    return f"{number:{digits}} {noun if number == 1 else plural or f'{noun}s'}"


def times(number: int, noun: str) -> str:
    """`softmax`, `3 x softmax`."""
    return noun if number == 1 else f"{number:,} x {noun}"


def is_are(number: int) -> str:
    return "is" if number == 1 else "are"


def listed(names: Sequence[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {joint} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def shell(*words: object) -> str:
    """A command of ours that can be pasted."""
    return shlex.join(["atonc", *map(str, words)])


def elided(name: str, most: int) -> str:
    """A name of at most so many characters: its beginning and its end tell it from others."""
    if len(name) <= most:
        return name
    start = (most - 3) // 2
    return f"{name[:start]}...{name[len(name) - (most - 3 - start) :]}"


def size_text(size_bytes: int) -> str:
    """`512 bytes`, `7.2 KiB`, `906 KiB`, `12.4 MiB`."""
    if size_bytes < _KIB:
        return count(size_bytes, "byte")
    value, unit = (size_bytes / _KIB, "KiB") if size_bytes < 10 * _KIB * _KIB else (size_bytes / _KIB**2, "MiB")
    return f"{value:,.{0 if value >= 100 else 1}f} {unit}"


def ms_digits(milliseconds: float) -> int:
    """Behind the point of a time, and of the bounds that stand beside it."""
    return next((digits for least, digits in ((100, 1), (1, 2), (0.01, 3)) if milliseconds >= least), 4)


def ms_text(milliseconds: float, digits: int = 0) -> str:
    """Milliseconds with digits that mean something, or at least so many; what is not zero is not shown as zero."""
    if 0 < milliseconds < 0.00005:
        return "<0.0001 ms"
    digits = max(digits, ms_digits(milliseconds)) if milliseconds else 3
    return f"{milliseconds:,.{digits}f} ms"


def difference_text(largest: float, span: float) -> str:
    """A difference of real values beside its scale, the range that they have: `61.99 (0.8 % of the output's range
    7,700)`."""
    if not span or not largest:
        return f"{largest:.4g} in real values" if largest else "0"
    share, whole = 100 * largest / span, f"{span:,.0f}" if span >= 1000 else f"{span:.4g}"
    return f"{largest:.4g} ({share:.{1 if share >= 0.1 else 4}f} % of the output's range {whole})"


def instead(name: str, known: Iterable[str]) -> str:
    """A remedy for a name that there is not: the nearest ones, or else which there are."""
    names = list(dict.fromkeys(one for one in known if one and one != name))
    near = get_close_matches(name, names, n=_NEAR, cutoff=0.5)
    near += [one for one in names if name.lower() in one.lower() and one not in near][: _NEAR - len(near)]
    if near:
        return f"did you mean {listed([repr(elided(one, _LONG)) for one in near], 'or')}?"
    shown = ", ".join(repr(elided(one, _LONG)) for one in names[:_NAMED])
    return f"there {is_are(len(names))} {shown}" + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


# ----------------------------------------------------------------------------------------------------------------------
# RAM as options say it: so many bytes, or all that is free.

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


def port(text: str) -> int:
    """A number of a port on this machine; 0 takes a free one."""
    if not text.isdecimal() or int(text[:9]) >= 1 << 16:
        raise InputError(f"{text[:60]!r} is no port", remedy="write a number from 0 to 65535")
    return int(text)


def room(text: str) -> Room:
    """Nothing, `ALL_FREE`, or a size."""
    return ALL_RAM if text.strip() == ALL_FREE else Room(size(text or "0"))
