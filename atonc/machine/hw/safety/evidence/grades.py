"""Grades: how near a form of ours is to what published programs do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

Value = int | str
Named = tuple[str, str, Value]  # a quantity of a unit (`B`), its role, its value


class Grade(StrEnum):
    """How near a feature is to what was seen, from best to worst."""

    SEEN = "seen"  # this value, in this role, is in published programs
    ONCE = "once"  # in a single one: a word of one program, or a number in a role of one program
    WITHIN = "within"  # between values seen in the same role
    PART = "part"  # chains side by side that are part of a larger set of an epoch that was seen
    COMPOSED = "composed"  # every part was seen, the combination was not: allowed by an argument
    UNSEEN = "unseen"

    rank: int

    def __new__(cls, value: str) -> Grade:
        grade = str.__new__(cls, value)
        grade._value_ = value
        grade.rank = len(cls.__members__)
        return grade


REMARKABLE = frozenset(Grade) - {Grade.SEEN, Grade.WITHIN}  # what reports list


class Feature(NamedTuple):
    """One fact about a unit or an epoch: a number (judged by range) or a word (judged by equality), in a role."""

    name: str  # kind and quantity: `CONVACC B`
    role: str  # the settings that make it another machine: `3x3/1 simd1 F1`
    value: Value

    def __str__(self) -> str:
        return f"{self.name}{f' of {self.role}' if self.role else ''} = {self.value}"


class Strength(NamedTuple):
    """How much stands behind a form: how often it was seen, in how many programs, of how many owners of repositories,
    and how many of the programs ST ships as working demos. Nothing, where it was not seen."""

    times: int = 0
    programs: int = 0
    owners: int = 0
    shipped: int = 0

    @property
    def single(self) -> bool:
        return self.programs == 1

    def __str__(self) -> str:
        if self.single:
            return "one program, shipped by ST" if self.shipped else "one program, not of ST"
        owners = f"{self.owners} owner{'s' * (self.owners != 1)}"
        return f"{count(self.programs, 'program')} of {owners}, {self.shipped} shipped by ST"


NOTHING = Strength()


def weakest(found: Iterable[Strength]) -> Strength:
    """The least of each; without any form there is no weak one."""
    return Strength(*map(min, zip(*set(found), strict=True)))


@dataclass(frozen=True)
class Graded:
    """A feature with its grade, what was seen instead and, where it is composed, the argument that allows it.

    The strength is that of the word, or of all numbers in the role; of a part it is that of the larger set."""

    feature: Feature
    grade: Grade
    seen: str = ""
    argument: str = ""
    strength: Strength = NOTHING

    def __str__(self) -> str:
        return f"{self.feature}{f' (seen: {self.seen})' if self.seen else ''}"


@dataclass(frozen=True)
class UnitGrade:
    """Choices ask for the grade alone, reports for the rest."""

    features: tuple[Graded, ...]

    @cached_property
    def grade(self) -> Grade:
        return worst([graded.grade for graded in self.features])

    @cached_property
    def remarkable(self) -> tuple[Graded, ...]:
        return tuple(graded for graded in self.features if graded.grade in REMARKABLE)

    @cached_property
    def weakest(self) -> Strength:
        return weakest(graded.strength for graded in self.features)


def worst(grades: Iterable[Grade]) -> Grade:
    return max(set(grades), key=lambda grade: grade.rank, default=Grade.SEEN)
