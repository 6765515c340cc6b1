"""Looks at every form of a program: how near is it to what published programs do?

`grade_unit` answers for one unit in its role and is what the lowering asks; `grade_epoch` adds links, chains and
neighbours in memory; `grade_program` sums up. Data: table.py; arguments for what is composed: arguments.py; what of
both a compilation relies on: trust.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.safety.evidence.epochs import Writers, epoch_features, memory_kind, reader_features, writers_of
from atonc.machine.hw.safety.evidence.grades import (
    NOTHING,
    REMARKABLE,
    Feature,
    Grade,
    Graded,
    Strength,
    UnitGrade,
    weakest,
    worst,
)
from atonc.machine.hw.safety.evidence.trust import ON_CHIP, PUBLISHED, Trust
from atonc.machine.hw.safety.view import EpochView, SafetyContext

__all__ = [
    "PUBLISHED",
    "EpochGrade",
    "Feature",
    "Grade",
    "Graded",
    "GradedForm",
    "Strength",
    "Trust",
    "UnitGrade",
    "counts",
    "grade_epoch",
    "grade_feature",
    "grade_program",
    "grade_unit",
    "grade_view",
    "reader_forms",
    "unit_grade",
]


@dataclass(frozen=True)
class GradedForm:
    """A feature that is not simply seen or within, and the unit that has it (empty: the epoch)."""

    unit: str
    graded: Graded


@dataclass(frozen=True)
class EpochGrade:
    number: int
    grade: Grade
    forms: tuple[GradedForm, ...]
    weakest: Strength = NOTHING  # the least of each over all its forms
    writers: Writers | None = None  # that interleave, if there are any


def grade_feature(feature: Feature) -> Graded:
    return PUBLISHED.grade(feature)


def grade_unit(config: UnitConfig, port: str = "", memory: str = ON_CHIP) -> UnitGrade:
    return PUBLISHED.grade_unit(config, port, memory)


def unit_grade(config: UnitConfig, port: str = "", but: tuple[str, ...] = (), trust: Trust = PUBLISHED) -> Grade:
    """The worst of them; `but` names features that are not settled yet, by the end of their name."""
    found = trust.grade_unit(config, port)
    return worst([g.grade for g in found.features if not g.feature.name.endswith(but)]) if but else found.grade


def grade_epoch(epoch: Epoch, context: SafetyContext | None = None) -> EpochGrade:
    return grade_view(EpochView(epoch, context or SafetyContext()))


def grade_view(view: EpochView) -> EpochGrade:
    trust = view.context.trust or PUBLISHED
    grades, strengths, forms = [], [], []
    for unit, config in view.units.items():
        engine = unit in view.engines
        found = (
            trust.grade_unit(config, view.role(unit), memory_kind(view, unit)) if engine else trust.grade_unit(config)
        )
        grades.append(found.grade)
        strengths.append(found.weakest)
        forms += [GradedForm(unit, graded) for graded in found.remarkable]
    whole = [GradedForm(unit, trust.grade(feature)) for unit, feature in epoch_features(view)]
    grades += [form.graded.grade for form in whole]
    strengths += [form.graded.strength for form in whole]
    forms += [form for form in whole if form.graded.grade in REMARKABLE]
    writers = writers_of([form.graded for form in whole])
    return EpochGrade(view.epoch.number, worst(grades), tuple(forms), weakest(strengths), writers)


def reader_forms(view: EpochView, readers: Collection[str]) -> Iterator[GradedForm]:
    """Those of the forms of an epoch that may change when these readers, and nothing else, move to other addresses."""
    trust = view.context.trust or PUBLISHED
    for reader in readers:
        unit = trust.grade_unit(view.units[reader], view.role(reader), memory_kind(view, reader))
        yield from (GradedForm(reader, graded) for graded in unit.remarkable)
    for reader, feature in reader_features(view, readers):
        graded = trust.grade(feature)
        if graded.grade in REMARKABLE:
            yield GradedForm(reader, graded)


def grade_program(
    epochs: Iterable[Epoch], context: SafetyContext | Mapping[int, SafetyContext] | None = None
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
