"""What the scheduling stage takes and gives: tasks of operators in, epochs of tasks out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from atonc.plan.task import Task, TaskGroup
from atonc.plan.types import CpuPlan


@dataclass(frozen=True)
class Work:
    """What one operator became: groups of tasks, one after the other, or a call for the CPU."""

    op: str
    groups: tuple[TaskGroup, ...] = ()
    call: CpuPlan | None = None


@dataclass(frozen=True)
class EpochOfTasks:
    """Tasks side by side, and the operator that each of them serves."""

    tasks: tuple[Task, ...]
    ops: tuple[str, ...]


Step = EpochOfTasks | CpuPlan


@dataclass(frozen=True)
class Schedule:
    """Steps in the order in which they run."""

    steps: tuple[Step, ...]

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """The operator behind each step."""
        return tuple(step.op if isinstance(step, CpuPlan) else step.ops[0] for step in self.steps)
