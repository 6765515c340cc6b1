"""The evidence: values of every feature in published programs. `data/evidence.json`, written by tools/gen_evidence.py.

A word is stored with its strength: [times, programs, owners, programs shipped by ST]; numbers as [times, programs,
owners, shipped, values], the values ascending as first value and differences.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import Any

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.safety.evidence.epochs import BUSIER, COPY, SIDE_BY_SIDE, larger_set
from atonc.machine.hw.safety.evidence.grades import NOTHING, Feature, Grade, Graded, Strength
from atonc.machine.hw.safety.evidence.unit_features import MODE, difference

_SHOWN = 8  # words that a message lists
# lengths of programs and fills of buffers: less than the least seen is no other form
ONLY_UPWARDS = ("words of an epoch", "words of a blob", "CONVACC NR x B x KW x KH", "CONVACC W x B", "POOL W x B")


@dataclass(frozen=True)
class SeenWords:
    """Words seen in one role."""

    seen: Mapping[str, Strength]

    def grade(self, value: int | str) -> Grade:
        found = self.seen.get(str(value))
        return Grade.UNSEEN if found is None else Grade.ONCE if found.single else Grade.SEEN

    def strength(self, value: int | str) -> Strength:
        return self.seen.get(str(value), NOTHING)

    @property
    def count(self) -> int:
        return sum(strength.times for strength in self.seen.values())

    def __str__(self) -> str:
        common = sorted(self.seen, key=lambda word: (-self.seen[word].times, word))
        return " | ".join(common) if len(common) <= _SHOWN else f"{len(common)} others"


@dataclass(frozen=True)
class SeenNumbers:
    """Numbers seen in one role."""

    known: Strength
    values: tuple[int, ...]

    def grade(self, value: int | str) -> Grade:
        number = int(value)
        place = bisect_left(self.values, number)
        if place < len(self.values) and self.values[place] == number:
            return Grade.ONCE if self.known.single else Grade.SEEN
        return Grade.WITHIN if 0 < place < len(self.values) else Grade.UNSEEN

    def strength(self, value: int | str) -> Strength:
        """The strength of the whole role: which programs had which number is not kept."""
        return self.known

    @property
    def count(self) -> int:
        return self.known.times

    def __str__(self) -> str:
        return f"{self.values[0]}..{self.values[-1]}"


Table = SeenWords | SeenNumbers


@dataclass(frozen=True)
class EvidenceProgram:
    """One of the programs behind the evidence."""

    name: str
    compiler: str
    driven_by: str  # EC or CPU
    epochs: int
    shipped: int  # 1: by ST, as a working demo
    digest: str = ""  # of its content; those counted before digests were kept have none

    @property
    def owner(self) -> str:
        """The owner of the repository."""
        return self.name.partition("+")[0]


@cache
def _data() -> dict[str, Any]:
    text = resources.files("atonc.machine.hw").joinpath("safety", "data", "evidence.json").read_text(encoding="ascii")
    data: dict[str, Any] = json.loads(text)
    return data


def programs() -> tuple[EvidenceProgram, ...]:
    return tuple(EvidenceProgram(*row) for row in _data()["programs"])


def behind() -> str:
    """How much the evidence is, in words."""
    known = programs()
    shipped, owners = sum(p.shipped for p in known), len({p.owner for p in known})
    epochs = sum(p.epochs for p in known)
    return f"{epochs:,} epochs in {len(known)} programs of {owners} owners; ST ships {shipped} of these programs"


@cache
def evidence() -> Mapping[str, Mapping[str, Table]]:
    """The evidence by name and role of the feature."""
    features: dict[str, dict[str, Any]] = _data()["features"]
    return {name: {role: _table(row) for role, row in roles.items()} for name, roles in features.items()}


def words(name: str, role: str = "") -> Mapping[str, Strength]:
    """Lists the words seen for a feature that is judged by equality."""
    table = evidence()[name][role]
    return table.seen if isinstance(table, SeenWords) else {}


def _table(row: Any) -> Table:
    if isinstance(row, dict):
        return SeenWords({word: Strength(*counts) for word, counts in row.items()})
    *known, steps = row
    return SeenNumbers(Strength(*known), tuple(accumulate(steps)))


def grade(feature: Feature) -> Graded:
    """Grades a feature by the data alone, without arguments."""
    table = evidence().get(feature.name, {}).get(feature.role)
    if table is None:
        return Graded(feature, Grade.UNSEEN, "never in this role")
    found = table.grade(feature.value)
    if found != Grade.UNSEEN:
        seen = str(table) if found == Grade.WITHIN else ""
        return Graded(feature, found, seen, strength=table.strength(feature.value))
    return _of_a_word(feature, table) if isinstance(table, SeenWords) else _outside(feature, table)


def _of_a_word(feature: Feature, table: SeenWords) -> Graded:
    if feature.name.endswith(f" {MODE}"):
        return Graded(feature, Grade.UNSEEN, difference(feature.name, str(feature.value), table.seen))
    larger = larger_set(str(feature.value), table.seen) if feature.name == SIDE_BY_SIDE else None
    if larger is not None:
        return Graded(feature, Grade.PART, larger, strength=table.seen[larger])
    for busier in BUSIER.get(feature.role, ()) if feature.name == COPY else ():
        known = words(feature.name, busier).get(str(feature.value))
        if known is not None:
            return Graded(feature, Grade.WITHIN, busier, strength=known)
    return Graded(feature, Grade.UNSEEN, str(table))


def _outside(feature: Feature, table: SeenNumbers) -> Graded:
    """A number below or above those seen."""
    if feature.name in ONLY_UPWARDS and int(feature.value) < table.values[0]:
        return Graded(feature, Grade.WITHIN, str(table), strength=table.known)
    return Graded(feature, Grade.UNSEEN, str(table))
