"""The gate of `--silicon`: operators whose epochs have a form without enough evidence leave the NPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from atonc.emit.program import Program
from atonc.errors import ToolError
from atonc.hw.safety.evidence import EpochGrade, Form, Trust
from atonc.lower import rules
from atonc.schedule.shares import Share
from atonc.select.form import Refused


def refused(
    grades: Iterable[EpochGrade], program: Program, shares: Sequence[Sequence[Share]], trust: Trust
) -> dict[str, Refused]:
    """By operator, the first form of its epochs that the user does not trust."""
    own = {step.number: some for step, some in zip(program.steps, shares, strict=True)}
    found: dict[str, Refused] = {}
    for epoch in grades:
        for form in epoch.forms if not trust.unproven else ():
            if not trust.allows(form.graded):
                found.setdefault(_owner(form, own[epoch.number]), rules.without_evidence(form.graded))
    return found


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
