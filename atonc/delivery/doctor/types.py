"""What was looked for, what was found, and what each step needs of it."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Any

from atonc.machine.base.frozen import dataclass


class DoctorState(StrEnum):
    FOUND = "found"
    OLD = "too old"
    NEW = "too new"
    BARRED = "no permission"
    BROKEN = "does not answer"
    MISSING = "missing"


@dataclass(frozen=True)
class DoctorItem:
    name: str
    state: DoctorState
    version: str = ""
    wanted: str = ""  # which versions will do
    where: str = ""
    remedy: str = ""  # how to get it, or to get it right

    @property
    def good(self) -> bool:
        return self.state == DoctorState.FOUND


@dataclass(frozen=True)
class DoctorGoal:
    """Something that the user may want to do; `one_of`: any good one of them is enough."""

    key: str
    title: str
    needs: tuple[DoctorItem, ...]
    one_of: tuple[DoctorItem, ...] = ()

    @property
    def lacks(self) -> tuple[DoctorItem, ...]:
        missing = tuple(item for item in self.needs if not item.good)
        return missing if not self.one_of or any(item.good for item in self.one_of) else (*missing, *self.one_of)

    @property
    def ready(self) -> bool:
        return not self.lacks


@dataclass(frozen=True)
class Diagnosis:
    steps: tuple[DoctorGoal, ...]
    boards: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "boards": list(self.boards),
            "steps": [
                {"key": s.key, "title": s.title, "ready": s.ready, "items": [asdict(i) for i in (*s.needs, *s.one_of)]}
                for s in self.steps
            ],
        }


def numbers(version: str) -> tuple[int, ...]:
    """`12.2.1` as numbers that compare; what follows the first part that is none is left out."""
    found: list[int] = []
    for part in version.split("."):
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        if not digits or len(digits) > 9:
            break
        found.append(int(digits))
        if digits != part:
            break
    return tuple(found)


def below(version: str, limit: str) -> bool:
    """Whether a version comes before another; 2.21 and 2.21.0 are the same."""
    one, other = numbers(version), numbers(limit)
    width = max(len(one), len(other))
    return one + (0,) * (width - len(one)) < other + (0,) * (width - len(other))
