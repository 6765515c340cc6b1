"""The grades of a program in a few lines: epochs by grade, what makes some of them less than seen, and how much stands
behind the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.four_bits import PROBABILITY
from atonc.machine.hw.safety.evidence import EpochGrade, Grade, Graded, counts
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.board import NO_ANSWERS, BoardEvidence
from atonc.machine.hw.safety.evidence.streng import NARROW


@dataclass(frozen=True)
class FormCount:
    """One form that is not simply seen, with how many units and epochs have it."""

    graded: Graded
    units: int
    epochs: int
    first: int  # number of the first epoch

    def as_dict(self) -> dict[str, Any]:
        feature, strength = self.graded.feature, self.graded.strength
        return {
            "grade": str(self.graded.grade),
            "argument": self.graded.argument,
            "form": feature.name,
            "role": feature.role,
            "value": feature.value,
            "seen": self.graded.seen,
            "programs": strength.programs,
            "owners": strength.owners,
            "shipped": strength.shipped,
            "units": self.units,
            "epochs": self.epochs,
            "first_epoch": self.first,
        }


@dataclass(frozen=True)
class Summary:
    epochs: Mapping[str, int]  # by grade
    by_argument: Mapping[str, int]  # epochs that need it
    forms: tuple[FormCount, ...]
    with_form: Mapping[Grade, int]  # epochs that have a form of this grade, whatever their own
    shipped: int  # epochs all of whose forms are in programs that ST ships
    answers: BoardEvidence = NO_ANSWERS  # of the board that the program is for

    def as_dict(self) -> dict[str, Any]:
        arguments = [
            {"id": a.id, "title": a.title, "allows": a.allows, "epochs": self.by_argument[a.id]}
            for a in ARGUMENTS
            if a.id in self.by_argument
        ]
        strength = {"with_a_form_seen_once": self.with_form.get(Grade.ONCE, 0), "all_forms_shipped": self.shipped}
        forms = [form.as_dict() for form in self.forms]
        board = {} if self.answers == NO_ANSWERS else {"board": self.answers.as_dict()}
        assumed = {"assumed": {"w4-stream": PROBABILITY}} if self.assumes_four_bits else {}
        return {**self.epochs, "strength": strength, "arguments": arguments, "forms": forms, **assumed, **board}

    @property
    def assumes_four_bits(self) -> bool:
        return any(form.graded.feature == NARROW and form.graded.grade == Grade.UNSEEN for form in self.forms)


def summarise(grades: Iterable[EpochGrade], answers: BoardEvidence = NO_ANSWERS) -> Summary:
    grades = tuple(grades)
    arguments = Counter(a for epoch in grades for a in {form.graded.argument for form in epoch.forms} if a)
    having = Counter(grade for epoch in grades for grade in {form.graded.grade for form in epoch.forms})
    units = Counter(form.graded for epoch in grades for form in epoch.forms)
    where: dict[Graded, list[int]] = {}
    for epoch in grades:
        for graded in dict.fromkeys(form.graded for form in epoch.forms):
            where.setdefault(graded, []).append(epoch.number)
    forms = [FormCount(graded, units[graded], len(numbers), numbers[0]) for graded, numbers in where.items()]
    forms.sort(key=lambda form: (-form.graded.grade.rank, form.graded.argument, -form.epochs, form.first))
    shipped = sum(epoch.weakest.shipped > 0 for epoch in grades)
    return Summary(counts(grades), dict(sorted(arguments.items())), tuple(forms), having, shipped, answers)
