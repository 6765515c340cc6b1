"""In which order operators run: that of the graph, which is a topological one. Operators that share a stripe compute
their rows in turn: the first band of all of them, then the second, so that no more than a band of what lies between
them lives at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from atonc.compiler.schedule.types import LoweredOperator


def order(works: Iterable[LoweredOperator]) -> tuple[LoweredOperator, ...]:
    found: list[LoweredOperator] = []
    for stripe, group in groupby(works, key=lambda work: work.stripe):
        some = list(group)
        found += _in_turn(some) if stripe else some
    return tuple(found)


def _in_turn(works: Sequence[LoweredOperator]) -> Iterator[LoweredOperator]:
    for band in sorted({group.band for work in works for group in work.groups}):
        for work in works:
            if groups := tuple(group for group in work.groups if group.band == band):
                yield replace(work, groups=groups)
