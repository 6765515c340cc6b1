"""Looks at every form of a program: how near is it to what published programs do?

`grade_unit` answers for one unit in its role and is what the lowering asks; `grade_epoch` adds links, chains and
neighbours in memory; `grade_program` sums up. Data: table.py; arguments for what is composed: arguments.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from atonc.hw.epoch import Epoch
from atonc.hw.fields import UnitConfig
from atonc.hw.safety.context import Context
from atonc.hw.safety.evidence import arith, streng
from atonc.hw.safety.evidence.arguments import argument_for
from atonc.hw.safety.evidence.epochs import epoch_features, memory_kind, named
from atonc.hw.safety.evidence.grades import Feature, Grade, Graded, Strength, Value, weakest, worst
from atonc.hw.safety.evidence.table import grade as by_data
from atonc.hw.safety.view import EpochView
from atonc.hw.units.arith import ArithConfig
from atonc.hw.units.stream_engine import StrengConfig

__all__ = [
    "EpochGrade",
    "Feature",
    "Form",
    "Grade",
    "Graded",
    "Strength",
    "UnitGrade",
    "counts",
    "grade_epoch",
    "grade_feature",
    "grade_program",
    "grade_unit",
    "grade_view",
    "unit_grade",
]

ON_CHIP = "on-chip"
REMARKABLE = frozenset(Grade) - {Grade.SEEN, Grade.WITHIN}  # what reports list
_MOST_UNITS = 1 << 14  # that are remembered
_UNITS: dict[Hashable, UnitGrade] = {}


@dataclass(frozen=True, slots=True)
class Form:
    """A feature that is not simply seen or within, and the unit that has it (empty: the epoch)."""

    unit: str
    graded: Graded


@dataclass(frozen=True, slots=True)
class UnitGrade:
    grade: Grade
    features: tuple[Graded, ...]
    remarkable: tuple[Graded, ...]
    weakest: Strength

    @staticmethod
    def of(features: tuple[Graded, ...]) -> UnitGrade:
        remarkable = tuple([graded for graded in features if graded.grade in REMARKABLE])
        return UnitGrade(worst(g.grade for g in features), features, remarkable, weakest(g.strength for g in features))


@dataclass(frozen=True, slots=True)
class EpochGrade:
    number: int
    grade: Grade
    forms: tuple[Form, ...]
    weakest: Strength = Strength()  # the least of each over all its forms


@lru_cache(maxsize=1 << 16)
def grade_feature(feature: Feature) -> Graded:
    """By the data; where that says unseen, by the arguments."""
    found = by_data(feature)
    if found.grade != Grade.UNSEEN:
        return found
    argument = argument_for(feature)
    return found if argument is None else Graded(feature, Grade.COMPOSED, found.seen, argument.id)


@lru_cache(maxsize=1 << 16)
def _graded(kind: str, name: str, role: str, value: Value) -> Graded:
    return grade_feature(Feature(f"{kind} {name}", role, value))


def grade_unit(config: UnitConfig, port: str = "", memory: str = ON_CHIP) -> UnitGrade:
    """Every feature of a unit; `port` is what a stream engine is for: `to CONVACC:0`, `from ARITH`."""
    key = _likeness(config, port, memory)
    found = _UNITS.get(key)
    if found is None:
        graded = tuple([_graded(config.KIND, *one) for one in named(config, port, memory)])
        found = _UNITS[key] = UnitGrade.of(graded)
        if len(_UNITS) > _MOST_UNITS:
            _UNITS.pop(next(iter(_UNITS)))
    return found


def _likeness(config: UnitConfig, port: str, memory: str) -> Hashable:
    if isinstance(config, StrengConfig):
        return "STRENG", streng.likeness(config), port, memory
    return ("ARITH", arith.likeness(config)) if isinstance(config, ArithConfig) else config


def unit_grade(config: UnitConfig, port: str = "", memory: str = ON_CHIP, but: tuple[str, ...] = ()) -> Grade:
    """The worst of them; `but` names features that are not settled yet, by the end of their name."""
    found = grade_unit(config, port, memory)
    return worst([g.grade for g in found.features if not g.feature.name.endswith(but)]) if but else found.grade


def grade_epoch(epoch: Epoch, context: Context | None = None) -> EpochGrade:
    return grade_view(EpochView(epoch, context or Context()))


def grade_view(view: EpochView) -> EpochGrade:
    grades, strengths, forms = [], [], []
    for unit, config in view.units.items():
        engine = unit in view.engines
        found = grade_unit(config, view.role(unit), memory_kind(view, unit)) if engine else grade_unit(config)
        grades.append(found.grade)
        strengths.append(found.weakest)
        forms += [Form(unit, graded) for graded in found.remarkable]
    for unit, feature in epoch_features(view):
        graded = grade_feature(feature)
        grades.append(graded.grade)
        strengths.append(graded.strength)
        if graded.grade in REMARKABLE:
            forms.append(Form(unit, graded))
    return EpochGrade(view.epoch.number, worst(grades), tuple(forms), weakest(strengths))


def grade_program(
    epochs: Iterable[Epoch], context: Context | Mapping[int, Context] | None = None
) -> tuple[EpochGrade, ...]:
    return tuple(
        grade_epoch(epoch, context.get(epoch.number) if isinstance(context, Mapping) else context)
        for epoch in epochs
        if not epoch.empty
    )


def counts(grades: Iterable[EpochGrade]) -> dict[str, int]:
    """Epochs by grade, every grade named."""
    found = Counter(grade.grade for grade in grades)
    return {str(grade): found[grade] for grade in Grade}
