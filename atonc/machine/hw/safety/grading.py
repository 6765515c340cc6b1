"""Evidence: every form of an epoch has a grade (package `evidence`); what no program comes near is reported."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.base.reasons import Evidence, Severity
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety import evidence
from atonc.machine.hw.safety.evidence import EpochGrade, Grade
from atonc.machine.hw.safety.evidence.table import behind
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, rule

FAMILY = "evidence"


@memoise
def grade_of(view: EpochView) -> EpochGrade:
    return evidence.grade_view(view)


@rule(
    "E01",
    FAMILY,
    "every value of a unit in its role, and every combination of units, is in a published program or between such",
    Evidence(report=behind()),
    severity=Severity.UNPROVEN,
    remedy="choose a form that occurs, or test it on a board; docs/silicon.md says what was seen",
)
def unseen_forms(view: EpochView) -> Iterator[SafetyFinding]:
    yield from _forms(view, Grade.UNSEEN)


@rule(
    "E02",
    FAMILY,
    "a form was seen as a whole, not only its parts",
    Evidence(report="each combination of seen parts is allowed by one of the arguments in docs/silicon.md"),
    severity=Severity.NOTE,
    remedy="nothing, unless results differ; --silicon seen avoids these forms",
)
def composed_forms(view: EpochView) -> Iterator[SafetyFinding]:
    yield from _forms(view, Grade.COMPOSED)


def _forms(view: EpochView, grade: Grade) -> Iterator[SafetyFinding]:
    for form in grade_of(view).forms:
        found = form.graded
        if found.grade == grade:
            by = f" ({found.argument})" if found.argument else ""
            yield SafetyFinding(form.unit, f"{found.feature}{by}", found.seen)
