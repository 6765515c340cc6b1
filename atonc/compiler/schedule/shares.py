"""Operators that share an epoch: which units of it are whose."""

from __future__ import annotations

from itertools import islice

from atonc.compiler.plan.task import Task
from atonc.compiler.plan.types import CpuPlan, StepPlan
from atonc.compiler.schedule.types import Step
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Share:
    """One operator's share of a step: its tasks, and the units and engines that they got. A CPU call has none."""

    op: str
    tasks: tuple[Task, ...] = ()
    units: frozenset[str] = frozenset()

    @property
    def elements(self) -> int:
        """Elements of the longest stream of every task: by them operators share what an epoch takes."""
        return sum(max(use.config.elements for use in task.engines.values()) for task in self.tasks)


def shares(step: Step, plan: StepPlan) -> tuple[Share, ...]:
    """One of each operator, in the order of their first tasks. Units of a plan come in the order of the tasks."""
    if isinstance(step, CpuPlan):
        return (Share(step.op),)
    assert not isinstance(plan, CpuPlan)
    units, engines = iter(plan.units), iter(plan.engines)
    found: dict[str, Share] = {}
    for task, op in zip(step.tasks, step.ops, strict=True):
        names = {*islice(units, len(task.units)), *islice(engines, len(task.engines))}
        own = found.get(op, Share(op))
        found[op] = Share(op, (*own.tasks, task), own.units | names)
    return tuple(found.values())
