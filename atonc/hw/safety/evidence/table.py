"""The evidence: values of every feature in published programs. `data/evidence.json`, written by tools/gen_evidence.py.

A word is stored with [times, programs, of these shipped by ST]; numbers as [times, programs, shipped, values], the
values ascending as first value and differences.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import Any

from atonc.hw.proven import Sighting
from atonc.hw.safety.evidence import modes
from atonc.hw.safety.evidence.grades import Feature, Grade, Graded

_SHOWN = 8  # words that a message lists
# lengths of programs and fills of buffers: less than the least seen is no other form
ONLY_UPWARDS = ("words of an epoch", "words of a blob", "CONVACC NR x B x KW x KH", "CONVACC W x B", "POOL W x B")


@dataclass(frozen=True)
class Words:
    """Words seen in one role."""

    seen: Mapping[str, Sighting]

    def grade(self, value: int | str) -> Grade:
        return Grade.SEEN if str(value) in self.seen else Grade.UNSEEN

    @property
    def count(self) -> int:
        return sum(sighting.count for sighting in self.seen.values())

    def __str__(self) -> str:
        common = sorted(self.seen, key=lambda word: (-self.seen[word].count, word))
        return " | ".join(common) if len(common) <= _SHOWN else f"{len(common)} others"


@dataclass(frozen=True)
class Numbers:
    """Numbers seen in one role."""

    sighting: Sighting
    values: tuple[int, ...]

    def grade(self, value: int | str) -> Grade:
        number = int(value)
        place = bisect_left(self.values, number)
        if place < len(self.values) and self.values[place] == number:
            return Grade.SEEN
        return Grade.WITHIN if 0 < place < len(self.values) else Grade.UNSEEN

    @property
    def count(self) -> int:
        return self.sighting.count

    def __str__(self) -> str:
        return f"{self.values[0]}..{self.values[-1]}"


Table = Words | Numbers


@dataclass(frozen=True, slots=True)
class Program:
    """One of the programs behind the evidence."""

    name: str
    compiler: str
    driven_by: str  # EC or CPU
    epochs: int
    shipped: int  # 1: by ST, as a working demo


@cache
def _data() -> dict[str, Any]:
    text = resources.files("atonc.hw").joinpath("safety", "data", "evidence.json").read_text(encoding="ascii")
    data: dict[str, Any] = json.loads(text)
    return data


def programs() -> tuple[Program, ...]:
    return tuple(Program(*row) for row in _data()["programs"])


@cache
def evidence() -> Mapping[str, Mapping[str, Table]]:
    """By name and role of the feature."""
    features: dict[str, dict[str, Any]] = _data()["features"]
    return {name: {role: _table(row) for role, row in roles.items()} for name, roles in features.items()}


def _table(row: Any) -> Table:
    if isinstance(row, dict):
        return Words({word: Sighting(*counts) for word, counts in row.items()})
    count, programs, shipped, steps = row
    return Numbers(Sighting(count, programs, shipped), tuple(accumulate(steps)))


def grade(feature: Feature) -> Graded:
    """By the data alone, without arguments."""
    table = evidence().get(feature.name, {}).get(feature.role)
    if table is None:
        return Graded(feature, Grade.UNSEEN, "never in this role")
    found = table.grade(feature.value)
    if found == Grade.UNSEEN and feature.name.endswith(f" {modes.NAME}") and isinstance(table, Words):
        return Graded(feature, found, modes.difference(feature.name, str(feature.value), table.seen))
    if found == Grade.UNSEEN and feature.name in ONLY_UPWARDS and isinstance(table, Numbers):
        found = Grade.WITHIN if int(feature.value) < table.values[0] else found
    return Graded(feature, found, "" if found == Grade.SEEN else str(table))
