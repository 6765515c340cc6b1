"""What the scheduling stage takes and gives: tasks of operators in, epochs of tasks out."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class LoweredOperator:
    """What one operator became: groups of tasks, one after the other, or a call for the CPU."""

    op: str
    groups: tuple[TaskGroup, ...] = ()
    call: CpuPlan | None = None
    stripe: int = 0  # from 1 on: operators with the same number compute their bands of rows in turn


@dataclass(frozen=True)
class Merge:
    """A group of tasks that other tasks do on the way: what they write flows on instead of being read again."""

    producer: str  # operator
    consumer: str  # operator whose group is gone
    through: str  # the buffer between them
    kept: bool  # it is written all the same, since others read it
    group: TaskGroup  # of the consumer
    pairs: tuple[tuple[Task, Task], ...]  # tasks of the producer, and what they became
    saved_cycles: int  # by the calibrated model, in assumed memories


@dataclass(frozen=True)
class Apart:
    """Why a consumer stays a step of its own behind a producer that it could have followed."""

    producer: str
    consumer: str
    rule: str
    seen: str


@dataclass(frozen=True)
class CoScheduled:
    """An epoch that became part of an earlier one, which works for other operators or for another part of the same."""

    ops: tuple[str, ...]  # that moved
    others: tuple[str, ...]
    saved_cycles: int  # by the calibrated model, in assumed memories


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
    merges: tuple[Merge, ...] = ()  # in the order in which they were made
    apart: tuple[Apart, ...] = ()
    co_scheduled: tuple[CoScheduled, ...] = ()

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """The operator behind each step."""
        return tuple(step.op if isinstance(step, CpuPlan) else step.ops[0] for step in self.steps)

    @property
    def ops(self) -> tuple[tuple[str, ...], ...]:
        """All operators behind each step."""
        return tuple((step.op,) if isinstance(step, CpuPlan) else step.ops for step in self.steps)

    def chained(self, ops: Collection[str]) -> set[str]:
        """Those of some operators that share a chain with another one, and the others of these chains."""
        found: set[str] = set()
        for merge in self.merges:
            pair = {merge.producer, merge.consumer}
            found |= pair if not pair.isdisjoint(ops) else set()
        return found

    def crowded(self, ops: Collection[str]) -> set[str]:
        """Those of some operators that have an epoch in which another task stands beside theirs."""
        shared = (step.ops for step in self.steps if isinstance(step, EpochOfTasks) and len(step.tasks) > 1)
        return {op for names in shared for op in names if op in ops}
