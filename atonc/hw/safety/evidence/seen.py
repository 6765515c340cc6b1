"""What a recipe asks of the evidence while it chooses a form, as ranges: faster than to grade whole units."""

from __future__ import annotations

from functools import cache

from atonc.hw.limits import LEAST_FRAME
from atonc.hw.safety.evidence import Feature, Grade, grade_feature
from atonc.hw.safety.evidence.convacc import kernel, machine
from atonc.hw.safety.evidence.table import Numbers, evidence
from atonc.hw.safety.evidence.trust import Trust
from atonc.hw.units.convacc import ConvaccConfig

_SIDES = ("top", "left", "bottom", "right")


def padding_seen(c: ConvaccConfig) -> bool:
    """Whether each side was seen, with whatever else on the other sides."""
    pads = (c.pad_top, c.pad_left, c.pad_bottom, c.pad_right)
    return all(low <= pad <= high for pad, (low, high) in zip(pads, _padding(kernel(c)), strict=True))


def frame_seen(c: ConvaccConfig) -> bool:
    """Whether frames as small as this one were seen with these windows, in whatever mode."""
    return min(c.width, c.height) >= _least_frame(kernel(c))


def results_seen(c: ConvaccConfig, height: int, width: int) -> bool:
    """Whether so many lines and columns leave units of these settings: a single line of 3x3 windows, say, was seen with
    features of two bytes only."""
    sizes = (("height", height), ("width", width))
    graded = (grade_feature(Feature(f"CONVACC output {side}", machine(c), size)) for side, size in sizes)
    return all(found.grade != Grade.UNSEEN for found in graded)


def operands(name: str, role: str, formatted: tuple[int, int], trust: Trust) -> tuple[int, int]:
    """Least and most value: all of its number format, or what was seen where nothing else is relied on."""
    if all(trust.allows(trust.grade(Feature(name, role, end))) for end in formatted):
        return formatted
    table = evidence()[name][role]
    assert isinstance(table, Numbers)
    return table.values[0], table.values[-1]


@cache
def _padding(role: str) -> tuple[tuple[int, int], ...]:
    """Least and most of each side; anything for windows that were never seen, which another rule complains about."""
    tables = [evidence()[f"CONVACC pad {side}"].get(role) for side in _SIDES]
    return tuple((t.values[0], t.values[-1]) if isinstance(t, Numbers) else (0, 1 << 16) for t in tables)


@cache
def _least_frame(role: str) -> int:
    """Lines and columns."""
    rows = (row for size in "WH" for row in evidence()[f"CONVACC {size}"].items())
    least = [table.values[0] for name, table in rows if name.split()[0] == role and isinstance(table, Numbers)]
    return min(least, default=LEAST_FRAME)
