"""The gate of `--silicon`: operators whose epochs have a form without enough evidence leave the NPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from atonc.emit.program import Program
from atonc.errors import ToolError
from atonc.hw.safety.evidence import EpochGrade, Feature, Form, Grade
from atonc.hw.safety.evidence.epochs import KEPT, TABLE
from atonc.lower import rules
from atonc.options import Options
from atonc.schedule import TABLES
from atonc.schedule.shares import Share
from atonc.select.form import Refused

SEEN, COMPOSED = "seen", "composed"


def refused(
    grades: Iterable[EpochGrade], program: Program, shares: Sequence[Sequence[Share]], options: Options
) -> dict[str, Refused]:
    """By operator, the first form of its epochs that the options do not allow."""
    least = Grade.COMPOSED if options.silicon == SEEN else Grade.UNSEEN
    own = {step.number: some for step, some in zip(program.steps, shares, strict=True)}
    found: dict[str, Refused] = {}
    for epoch in grades:
        for form in epoch.forms if not options.allow_unproven else ():
            if form.graded.grade.rank >= least.rank and str(form.graded.feature) not in asked_for(options):
                found.setdefault(_owner(form, own[epoch.number]), _refusal(form))
    return found


def asked_for(options: Options) -> frozenset[str]:
    """Features that no published program has, and that `--schedule-with` allows."""
    return frozenset({str(Feature(TABLE, "ARITH", KEPT))} if TABLES in options.schedule_with else ())


def _owner(form: Form, shares: Sequence[Share]) -> str:
    """The operator whose unit has the form; the first of those that share the epoch, if it is about all of it."""
    return next((share.op for share in shares if form.unit in share.units), shares[0].op)


def no_end(refused: Mapping[str, Refused]) -> ToolError:
    """Operators went to the CPU round by round, and there was always another one."""
    name, first = next(iter(refused.items()))
    return ToolError(
        f"after every attempt some epochs have a form without evidence, first {first.seen} ({first.limit})",
        where=name,
        rule=rules.NO_EVIDENCE.sentence,
        remedy="report the model; --allow-unproven compiles it anyway",
    )


def _refusal(form: Form) -> Refused:
    graded, rule = form.graded, rules.NO_EVIDENCE
    by = f" (argument {graded.argument})" if graded.argument else ""
    return Refused(rule.id, f"{graded.grade}: {graded.feature}{by}", f"seen: {graded.seen}", rule.remedy)
