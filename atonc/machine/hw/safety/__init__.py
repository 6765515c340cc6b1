"""The safety checker: does an epoch stay inside what is known to run on the chip?

The stream switch lets a program wire units in ways that never finish, without a fault or a timeout. The rules here
are true of every public network compiled by ST's tool, or follow from reports of hangs; each carries its evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Rule, Severity, Violation
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.safety import accumulators, balance, forms, hazards, memory, modes, order, values, wiring
from atonc.machine.hw.safety.evidence import EpochGrade
from atonc.machine.hw.safety.view import (
    CheckedBuffer,
    CheckedPool,
    EpochView,
    PoolKind,
    SafetyContext,
    pool,
    registered,
)

__all__ = [
    "CheckedBuffer",
    "CheckedPool",
    "Inspection",
    "PoolKind",
    "SafetyContext",
    "all_rules",
    "check_epoch",
    "check_program",
    "inspect",
    "pool",
    "worst",
]

FAMILIES = (wiring, balance, order, memory, modes, values, accumulators, forms, hazards)


@dataclass(frozen=True)
class Inspection:
    """What the rules say of a program, and how near each of its epochs is to published ones."""

    violations: tuple[Violation, ...]
    grades: tuple[EpochGrade, ...]


def check_epoch(epoch: Epoch, context: SafetyContext | None = None) -> list[Violation]:
    """Everything that the rules say about one epoch; an epoch without units (a CPU epoch's label) is fine."""
    if epoch.empty and not epoch.links:
        return []
    return list(_check(EpochView(epoch, context or SafetyContext())))


def _check(view: EpochView) -> Iterator[Violation]:
    for checked in registered():
        for found in checked.check(view):
            severity = found.severity or checked.rule.severity
            yield Violation(checked.rule, found.seen, found.limit, view.epoch.number, found.unit, severity)


def inspect(epochs: Iterable[Epoch], context: SafetyContext | Mapping[int, SafetyContext] | None = None) -> Inspection:
    """All epochs, then the rules that compare epochs with each other. Contexts may be given by number of the epoch."""
    found: list[Violation] = []
    grades: list[EpochGrade] = []
    epochs = list(epochs)
    for epoch in epochs:
        if epoch.empty and not epoch.links:
            continue
        known = context.get(epoch.number) if isinstance(context, Mapping) else context
        view = EpochView(epoch, known or SafetyContext())
        found += _check(view)
        grades.append(forms.grade_of(view))
    return Inspection((*found, *order.check_one_style(epochs)), tuple(grades))


def check_program(
    epochs: Iterable[Epoch], context: SafetyContext | Mapping[int, SafetyContext] | None = None
) -> list[Violation]:
    return list(inspect(epochs, context).violations)


def all_rules() -> tuple[Rule, ...]:
    """Lists all rules, for the reference documentation."""
    return tuple(sorted((*(checked.rule for checked in registered()), order.ONE_STYLE), key=lambda rule: rule.id))


def worst(violations: Iterable[Violation]) -> Severity | None:
    """The gravest severity among them."""
    present = {violation.severity for violation in violations}
    return next((severity for severity in Severity if severity in present), None)
