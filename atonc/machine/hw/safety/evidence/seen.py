"""What a recipe asks of the evidence while it chooses a form: faster than to grade whole units."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from sys import maxsize

from atonc.machine.hw.limits import LEAST_FRAME
from atonc.machine.hw.safety.evidence import modes
from atonc.machine.hw.safety.evidence.convacc import kernel
from atonc.machine.hw.safety.evidence.grades import Feature, Grade, Graded
from atonc.machine.hw.safety.evidence.table import SeenNumbers, evidence, words
from atonc.machine.hw.safety.evidence.trust import PUBLISHED, Trust
from atonc.machine.hw.safety.evidence.writers import RUN
from atonc.machine.hw.safety.mode_keys import Key
from atonc.machine.hw.units.convacc import ConvaccConfig

_SIDES = ("top", "left", "bottom", "right")


def chain_seen(text: str) -> bool:
    """Whether a published program has a chain of this canonical text."""
    return PUBLISHED.grade(Feature("chain", "", text)).grade != Grade.UNSEEN


def mode_seen(kind: str, key: Key) -> bool:
    """Whether a published program has a unit of this kind with these settings."""
    return ",".join(map(str, key)) in words(f"{kind} {modes.NAME}")


def multicast_seen(kind: str, ports: Iterable[str]) -> bool:
    """Whether a unit of this kind feeds these ports, each `KIND:number`, in a published program."""
    return PUBLISHED.grade(Feature("multicast", kind, " ".join(sorted(ports)))).grade != Grade.UNSEEN


def padding_seen(c: ConvaccConfig) -> bool:
    """Whether each side was seen, with whatever else on the other sides."""
    pads = (c.pad_top, c.pad_left, c.pad_bottom, c.pad_right)
    return all(low <= pad <= high for pad, (low, high) in zip(pads, _padding(kernel(c)), strict=True))


def frame_seen(c: ConvaccConfig) -> bool:
    """Whether frames as small as this one were seen with these windows, in whatever mode."""
    return min(c.width, c.height) >= _least_frame(kernel(c))


_OF_PICTURES = tuple(
    f"CONVACC {name}" for name in ("W", "H", "output width", "output height", "pads left right top bottom", "FSUB")
)


def picture_trusted(c: ConvaccConfig, trust: Trust) -> bool:
    """Whether units of these settings may be relied on with pictures and results of these sizes and this padding, and
    with this zero point, however they are cut: a single line of 3x3 windows, say, was seen with features of two bytes
    only."""
    return all(trust.allows(found) for found in trust.grade_unit(c).features if found.feature.name in _OF_PICTURES)


def units_trusted(units: Iterable[ConvaccConfig], trust: Trust) -> bool:
    return all(trust.allows_all(trust.grade_unit(unit)) for unit in units)


@lru_cache(maxsize=1 << 12)
def padding_grade(window: tuple[int, int], stride: int, sides: tuple[int, int, int, int], trust: Trust) -> Graded:
    """Grades a window of rows x columns with zeros at top, left, bottom and right."""
    (rows, columns), (top, left, bottom, right) = window, sides
    pads = f"{left} {right} {top} {bottom}"
    return trust.grade(Feature("CONVACC pads left right top bottom", f"{columns}x{rows}/{stride}", pads))


@lru_cache(maxsize=64)
def longest_run(trust: Trust) -> int:
    """Bytes in a row that each of two interleaved writers may have."""
    known = evidence()[RUN][""]
    most = known.values[-1] if isinstance(known, SeenNumbers) else 0
    return maxsize if trust.allows(trust.grade(Feature(RUN, "", most + 1))) else most


@lru_cache(maxsize=64)
def gaps_trusted(trust: Trust) -> bool:
    """Whether engines may leave out columns of the lines that they read: published ones read whole lines."""
    return trust.allows(trust.grade(Feature("STRENG lines", "read", "gaps")))


def operands(name: str, role: str, formatted: tuple[int, int], trust: Trust) -> tuple[int, int]:
    """Least and most value: all of its number format, or what was seen where nothing else is relied on."""
    if all(trust.allows(trust.grade(Feature(name, role, end))) for end in formatted):
        return formatted
    table = evidence()[name][role]
    assert isinstance(table, SeenNumbers)
    return table.values[0], table.values[-1]


@cache
def _padding(role: str) -> tuple[tuple[int, int], ...]:
    """Least and most of each side; anything for windows that were never seen, which another rule complains about."""
    tables = [evidence()[f"CONVACC pad {side}"].get(role) for side in _SIDES]
    return tuple((t.values[0], t.values[-1]) if isinstance(t, SeenNumbers) else (0, 1 << 16) for t in tables)


@cache
def _least_frame(role: str) -> int:
    """Lines and columns."""
    rows = (row for size in "WH" for row in evidence()[f"CONVACC {size}"].items())
    least = [table.values[0] for name, table in rows if name.split()[0] == role and isinstance(table, SeenNumbers)]
    return min(least, default=LEAST_FRAME)
