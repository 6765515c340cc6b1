"""Numbers inside what was seen: several that compute the same, the best first, and the first that may be relied on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from atonc.compiler.lower.units.affine import AffinePair
from atonc.compiler.lower.units.arith import pair_unit
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.safety.evidence import Trust

Numbers = TypeVar("Numbers")


def first_trusted(
    candidates: Iterable[Numbers], units: Callable[[Numbers], Iterable[UnitConfig]], trust: Trust
) -> Numbers:
    """The first of these whose units may all be relied on. If there is none, the first of all: whoever judges the chain
    then names what is wrong with the numbers that one would like best."""
    best: Numbers | None = None
    for one in candidates:
        best = one if best is None else best
        if not any(untrusted_unit(unit, "", trust) for unit in units(one)):
            return one
    assert best is not None, "there is at least one candidate"
    return best


def add_streams(builder: TaskBuilder, pair: AffinePair, streams: tuple[str, str], trust: Trust) -> str:
    """Adds two streams of bytes, which change places where no unit was seen with that sign of the first gain."""
    found = first_trusted((pair, pair.turned), lambda one: [pair_unit(one)], trust)
    return builder.unit(pair_unit(found), *(streams if found is pair else reversed(streams)))
