"""Steps by operator: what each of those that share an epoch has of it."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.emit.program import ProgramStep
from atonc.compiler.plan.types import EpochPlan
from atonc.compiler.schedule.shares import Share
from atonc.machine.cost.network import StepCost
from atonc.machine.hw.epoch import Epoch

Row = tuple[ProgramStep, StepCost]


def own_steps(compiled: Compiled, costs: tuple[StepCost, ...]) -> dict[str, list[Row]]:
    """By operator. An epoch that several share appears with each, with the units and the part of the cycles that are
    its own: all parts together are the whole."""
    found: dict[str, list[Row]] = {}
    for step, cost, shares in zip(compiled.program.steps, costs, compiled.scheduled.shares, strict=True):
        parts = [(step, cost)] if len(shares) == 1 else _parts(step, cost, shares)
        for share, part in zip(shares, parts, strict=True):
            found.setdefault(share.op, []).append(part)
    return found


def _parts(step: ProgramStep, cost: StepCost, shares: tuple[Share, ...]) -> list[Row]:
    total = sum(share.elements for share in shares)
    rows, done, given = [], 0, 0
    for share in shares:
        done += share.elements
        cycles = cost.cycles * done // total - given
        given += cycles
        own = replace(cost, cycles=cycles, milliseconds=cost.milliseconds * cycles / max(1, cost.cycles))
        rows.append((_restricted(step, share), own))
    return rows


def _restricted(step: ProgramStep, share: Share) -> ProgramStep:
    """The step as if it had the tasks of one operator only."""
    epoch, plan, first = step.epoch, step.plan, share.tasks[0]
    assert epoch is not None and isinstance(plan, EpochPlan)
    own = Epoch(
        epoch.number,
        {name: config for name, config in epoch.units.items() if name in share.units},
        tuple(link for link in epoch.links if link.destination in share.units),
        tuple(name for name in epoch.waits if name in share.units),
    )
    named = replace(plan, origin=first.origin, title=first.title, purpose=first.purpose)
    return replace(step, epoch=own, plan=named)
