"""Steps by operator: what each of those that share an epoch has of it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.emit.program import ProgramStep
from atonc.compiler.plan.types import EpochPlan
from atonc.compiler.schedule.shares import Share
from atonc.insight.explain.epoch_share import restricted
from atonc.insight.explain.types import EpochShare
from atonc.machine.cost.network import StepCost


class OwnStep(NamedTuple):
    """A step as one operator has it."""

    step: ProgramStep
    cost: StepCost
    part: EpochShare | None = None  # of the epoch, where others share it


def own_steps(compiled: Compiled, costs: tuple[StepCost, ...]) -> dict[str, list[OwnStep]]:
    """By operator. An epoch that several share appears with each, with the units and the part of the cycles that are
    its own: all parts together are the whole."""
    found: dict[str, list[OwnStep]] = {}
    for step, cost, shares in zip(compiled.program.steps, costs, compiled.scheduled.shares, strict=True):
        parts = [OwnStep(step, cost)] if len(shares) == 1 else _parts(step, cost, shares)
        for share, part in zip(shares, parts, strict=True):
            found.setdefault(share.op, []).append(part)
    return found


def _parts(step: ProgramStep, cost: StepCost, shares: tuple[Share, ...]) -> list[OwnStep]:
    total = sum(share.elements for share in shares)
    rows, before = [], 0
    for share in shares:
        part = EpochShare(step.number, before, share.elements, total, tuple(sorted(share.units)))
        before += share.elements
        cycles = part.cycles(cost.cycles)
        own = replace(cost, cycles=cycles, milliseconds=cost.milliseconds * cycles / max(1, cost.cycles))
        rows.append(OwnStep(_restricted(step, share, part), own, part))
    return rows


def _restricted(step: ProgramStep, share: Share, part: EpochShare) -> ProgramStep:
    """The step as if it had the tasks of one operator only."""
    epoch, plan, first = step.epoch, step.plan, share.tasks[0]
    assert epoch is not None and isinstance(plan, EpochPlan)
    named = replace(plan, origin=first.origin, title=first.title, purpose=first.purpose)
    return replace(step, epoch=restricted(epoch, part), plan=named)
