"""The grades of a program in a few lines: epochs by grade, what makes some of them less than seen, and how much stands
behind the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.four_bits import PROBABILITY
from atonc.machine.hw.safety.evidence import EpochGrade, Grade, Graded, counts
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.board_file import NO_ANSWERS, BoardEvidence
from atonc.machine.hw.safety.evidence.epochs import Writers
from atonc.machine.hw.safety.evidence.unit_features import NARROW


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
class TimeShare:
    """Epochs, and how much of the predicted time of the whole network they take; None where nothing is predicted."""

    epochs: int
    of_time: float | None

    def as_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "share_of_time": None if self.of_time is None else round(self.of_time, 4)}


@dataclass(frozen=True)
class Summary:
    epochs: Mapping[str, int]  # by grade
    by_argument: Mapping[str, TimeShare]  # that need it
    forms: tuple[FormCount, ...]
    with_form: Mapping[Grade, int]  # epochs that have a form of this grade, whatever their own
    shipped: int  # epochs all of whose forms are in programs that ST ships
    answers: BoardEvidence = NO_ANSWERS  # of the board that the program is for
    interleaved: Mapping[Writers, TimeShare] = field(default_factory=dict)  # epochs with such writers

    def as_dict(self) -> dict[str, Any]:
        arguments = [
            {"id": a.id, "title": a.title, "allows": a.allows, **self.by_argument[a.id].as_dict()}
            for a in ARGUMENTS
            if a.id in self.by_argument
        ]
        interleaved = [{"writers": str(kind), **found.as_dict()} for kind, found in self.interleaved.items()]
        strength = {"with_a_form_seen_once": self.with_form.get(Grade.ONCE, 0), "all_forms_shipped": self.shipped}
        forms = [form.as_dict() for form in self.forms]
        board = {} if self.answers == NO_ANSWERS else {"board": self.answers.as_dict()}
        assumed = {"assumed": {"w4-stream": PROBABILITY}} if self.assumes_four_bits else {}
        listed = {"arguments": arguments, "interleaved_writers": interleaved, "forms": forms}
        return {**self.epochs, "strength": strength, **listed, **assumed, **board}

    @property
    def assumes_four_bits(self) -> bool:
        return any(form.graded.feature == NARROW and form.graded.grade == Grade.UNSEEN for form in self.forms)


def summarise(
    grades: Iterable[EpochGrade], answers: BoardEvidence = NO_ANSWERS, cycles: Mapping[int, int] | None = None
) -> Summary:
    """`cycles`: what every step is predicted to take, by its number; those of the CPU too."""
    grades = tuple(grades)
    having = Counter(grade for epoch in grades for grade in {form.graded.grade for form in epoch.forms})
    units = Counter(form.graded for epoch in grades for form in epoch.forms)
    where: dict[Graded, list[int]] = {}
    for epoch in grades:
        for graded in dict.fromkeys(form.graded for form in epoch.forms):
            where.setdefault(graded, []).append(epoch.number)
    forms = [FormCount(graded, units[graded], len(numbers), numbers[0]) for graded, numbers in where.items()]
    forms.sort(key=lambda form: (-form.graded.grade.rank, form.graded.argument, -form.epochs, form.first))
    shipped = sum(epoch.weakest.shipped > 0 for epoch in grades)
    arguments = {a.id: [e for e in grades if a.id in {form.graded.argument for form in e.forms}] for a in ARGUMENTS}
    writers = {kind: [epoch for epoch in grades if epoch.writers == kind] for kind in Writers}
    return Summary(
        counts(grades),
        {name: _share(some, cycles) for name, some in arguments.items() if some},
        tuple(forms),
        having,
        shipped,
        answers,
        {kind: _share(some, cycles) for kind, some in writers.items() if some},
    )


def _share(epochs: Sequence[EpochGrade], cycles: Mapping[int, int] | None) -> TimeShare:
    if not cycles:
        return TimeShare(len(epochs), None)
    return TimeShare(len(epochs), sum(cycles[epoch.number] for epoch in epochs) / max(1, sum(cycles.values())))
