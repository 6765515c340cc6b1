"""What a cycle model says about an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class EpochCycles:
    """`compute` is what the units alone would take; `detail` gives every candidate and part, in cycles."""

    cycles: int
    compute: int
    bound_by: str  # feature, weights, output, compute, bus, the name of a memory, programming, cpu or nothing ("")
    detail: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bound:
    """One thing that an epoch cannot be faster than."""

    cycles: float
    label: str


def slowest(bounds: list[Bound]) -> Bound:
    """The first of the largest ones, so that a tie goes to the unit and not to its memory."""
    return max(bounds, key=lambda bound: bound.cycles, default=Bound(0.0, ""))
