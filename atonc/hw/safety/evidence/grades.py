"""Grades: how near a form of ours is to what published programs do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

Value = int | str
Named = tuple[str, str, Value]  # a quantity of a unit (`B`), its role, its value


class Grade(StrEnum):
    """From best to worst."""

    SEEN = "seen"  # this value, in this role, is in a published program
    WITHIN = "within"  # between values seen in the same role
    COMPOSED = "composed"  # every part was seen, the combination was not: allowed by an argument
    UNSEEN = "unseen"

    rank: int

    def __new__(cls, value: str) -> Grade:
        grade = str.__new__(cls, value)
        grade._value_ = value
        grade.rank = len(cls.__members__)
        return grade


class Feature(NamedTuple):
    """One fact about a unit or an epoch: a number (judged by range) or a word (judged by equality), in a role."""

    name: str  # kind and quantity: `CONVACC B`
    role: str  # the settings that make it another machine: `3x3/1 simd1 F1`
    value: Value

    def __str__(self) -> str:
        return f"{self.name}{f' of {self.role}' if self.role else ''} = {self.value}"


@dataclass(frozen=True, slots=True)
class Graded:
    """A feature with its grade, what was seen instead and, where it is composed, the argument that allows it."""

    feature: Feature
    grade: Grade
    seen: str = ""
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.feature}{f' (seen: {self.seen})' if self.seen else ''}"


@dataclass(frozen=True, slots=True)
class UnitGrade:
    grade: Grade
    features: tuple[Graded, ...]

    @property
    def remarkable(self) -> tuple[Graded, ...]:
        return tuple(g for g in self.features if g.grade.rank >= Grade.COMPOSED.rank)


def worst(grades: Iterable[Grade]) -> Grade:
    return max(set(grades), key=lambda grade: grade.rank, default=Grade.SEEN)
