"""Writers of one epoch whose bytes interleave: how many they are, how long their runs are, and how far they stay from
each other.

Pixels of a tensor whose channels come from several chains look so. Published programs have two such writers in an
epoch, side by side in every pixel. Two that lie otherwise (other runs, a gap between them, two pairs in one epoch), and
three or more of one buffer, rest on argument S10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import combinations_with_replacement
from typing import TypeVar

from atonc.machine.hw.limits import MOST_WRITERS
from atonc.machine.hw.safety.evidence.grades import Feature, Grade, Graded
from atonc.machine.hw.safety.evidence.neighbours import Relation, distance, shorter_run
from atonc.machine.hw.units.stream_engine import StrengConfig

BETWEEN, RUN = "bytes between interleaved writers", "shorter run of interleaved writers"
TOGETHER = "interleaved writers of a buffer"  # as a word: how many there are in each set of them, `3`, `2 2`
INTERLEAVED = (Relation.OWN_WORDS, Relation.SHARED_WORDS)
# sets of three and more, of all that an epoch has: nobody has run them, so they are used only where they are asked for
MANY = frozenset(
    Feature(TOGETHER, "", " ".join(map(str, sizes)))
    for count in range(1, MOST_WRITERS // 2 + 1)
    for sizes in combinations_with_replacement(range(2, MOST_WRITERS + 1), count)
    if sum(sizes) <= MOST_WRITERS and sizes[-1] > 2
)
Name = TypeVar("Name")


class Writers(StrEnum):
    """What an epoch has of them."""

    PUBLISHED = "two as published"
    OTHERWISE = "two otherwise"
    MANY = "three or more"


def features(one: StrengConfig, other: StrengConfig, relation: Relation) -> Iterator[Feature]:
    """How two writers lie to each other, if they interleave."""
    if relation in INTERLEAVED:
        yield Feature(BETWEEN, str(relation), distance(one, other))
        yield Feature(RUN, "", shorter_run(one, other))


def together(relations: Mapping[tuple[Name, Name], Relation]) -> Iterator[Feature]:
    """How many writers of an epoch interleave. `features` say all there is to say of a single pair."""
    sizes = sorted(map(len, _sets(pair for pair, found in relations.items() if found in INTERLEAVED)))
    if sizes not in ([], [2]):
        yield Feature(TOGETHER, "", " ".join(map(str, sizes)))


def _sets(pairs: Iterable[tuple[Name, Name]]) -> list[frozenset[Name]]:
    """What hangs together by pairs."""
    found: list[frozenset[Name]] = []
    for pair in pairs:
        touched = [one for one in found if not one.isdisjoint(pair)]
        found = [one for one in found if one not in touched] + [frozenset(pair).union(*touched)]
    return found


def writers_of(forms: Collection[Graded]) -> Writers | None:
    """What an epoch with these forms has."""
    own = [form for form in forms if form.feature.name in (BETWEEN, RUN, TOGETHER)]
    if any(form.feature in MANY for form in own):
        return Writers.MANY
    if any(form.grade.rank > Grade.WITHIN.rank for form in own):
        return Writers.OTHERWISE
    return Writers.PUBLISHED if own else None
