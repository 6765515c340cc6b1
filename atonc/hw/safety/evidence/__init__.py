"""The look at every form of a program: how near is it to what published programs do?

`grade_unit` answers for one unit in its role and is what the lowering asks; `grade_epoch` adds links, pipelines and
neighbours in memory; `grade_program` sums up. Data: table.py; arguments for what is composed: arguments.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from atonc.hw.epoch import Epoch
from atonc.hw.fields import UnitConfig
from atonc.hw.safety.context import Context
from atonc.hw.safety.evidence.arguments import argument_for
from atonc.hw.safety.evidence.epochs import epoch_features, memory_kind, unit_features
from atonc.hw.safety.evidence.grades import Feature, Grade, Graded, worst
from atonc.hw.safety.evidence.table import grade as by_data
from atonc.hw.safety.view import EpochView

__all__ = ["EpochGrade", "Feature", "Form", "Grade", "Graded", "grade_epoch", "grade_program", "grade_unit", "unit_grade"]

ON_CHIP = "on-chip"


@dataclass(frozen=True, slots=True)
class Form:
    """A feature of one unit (empty: of the epoch) that is not simply seen."""

    unit: str
    graded: Graded


@dataclass(frozen=True, slots=True)
class EpochGrade:
    number: int
    grade: Grade
    forms: tuple[Form, ...]  # composed and unseen ones


def grade(feature: Feature) -> Graded:
    found = by_data(feature)
    if found.grade != Grade.UNSEEN:
        return found
    argument = argument_for(feature)
    return found if argument is None else Graded(feature, Grade.COMPOSED, found.seen, argument.id)


@lru_cache(maxsize=1 << 16)
def _graded(feature: Feature) -> Graded:
    return grade(feature)


@lru_cache(maxsize=1 << 14)
def grade_unit(config: UnitConfig, port: str = "", memory: str = ON_CHIP) -> tuple[Graded, ...]:
    """Every feature of a unit; `port` is what a stream engine is for: `to CONVACC:0`, `from ARITH`."""
    return tuple(_graded(feature) for feature in unit_features(config, port, memory))


def unit_grade(config: UnitConfig, port: str = "", memory: str = ON_CHIP, but: tuple[str, ...] = ()) -> Grade:
    """The worst of them; `but` leaves out features (by the end of their name) that are not settled yet."""
    return worst([g.grade for g in grade_unit(config, port, memory) if not (but and g.feature.name.endswith(but))])


def grade_epoch(epoch: Epoch, context: Context | None = None) -> EpochGrade:
    view = EpochView(epoch, context or Context())
    found: list[Form] = []
    grades = set()
    for unit, config in view.units.items():
        engine = unit in view.engines
        port, memory = (view.role(unit), memory_kind(view, unit)) if engine else ("", "")
        for graded in grade_unit(config, port, memory):
            grades.add(graded.grade)
            if graded.grade.rank >= Grade.COMPOSED.rank:
                found.append(Form(unit, graded))
    for unit, feature in epoch_features(view):
        graded = _graded(feature)
        grades.add(graded.grade)
        if graded.grade.rank >= Grade.COMPOSED.rank:
            found.append(Form(unit, graded))
    return EpochGrade(epoch.number, worst(list(grades)), tuple(found))


def grade_program(
    epochs: Iterable[Epoch], context: Context | Mapping[int, Context] | None = None
) -> tuple[EpochGrade, ...]:
    return tuple(
        grade_epoch(epoch, context.get(epoch.number) if isinstance(context, Mapping) else context)
        for epoch in epochs
        if not epoch.empty
    )


def counts(grades: Iterable[EpochGrade]) -> dict[str, int]:
    """Epochs by grade, all four named."""
    found = Counter(grade.grade for grade in grades)
    return {str(grade): found[grade] for grade in Grade}
