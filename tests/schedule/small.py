"""A small network as tasks: two slices side by side, a convolution whose sums come back, a table, a sum, the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from atonc.compiler.lower.move.copies import SAME
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.findings import Finding
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.plan.types import CpuPlan, EpochPlan, StepPlan
from atonc.compiler.schedule import schedule
from atonc.compiler.schedule.assign import assign
from atonc.compiler.schedule.check import check
from atonc.compiler.schedule.types import EpochOfTasks, LoweredOperator, Schedule, Step
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig

PIXELS = Area.whole(2, 2, 16)
WHOLE = contiguous(64)
SUMS = engine(Area(1, 1, 8, 16, 16, 0, 2), Frames(4, 0), signed=True)


def move(source: str, target: str, first: int = 0, channels: int = 16, title: str = "") -> Task:
    """Some channels of a picture of 2 x 2 pixels."""
    b = TaskBuilder((target,), title or f"{target} from {source}")
    area = PIXELS.channels_from(first, channels)
    b.write(b.unit(SAME[0], b.read(source, engine(area))), target, engine(area, write=True))
    return b.done()


def convolution(source: str, target: str) -> Task:
    """In four passes through a buffer of sums."""
    b = TaskBuilder((target,), f"conv {target}")
    kernels = b.read("kernels", contiguous(16))
    unit = b.unit(ConvaccConfig(), b.read(source, WHOLE), kernels)
    writer = b.write(unit, "sums", replace(SUMS, to_memory=1))
    b.link(b.read("sums", SUMS, follows=writer), unit, 2)
    b.write(b.unit(ArithConfig(), unit, drop=3, keep=1), target, contiguous(64, write=True))
    return b.done()


def table(source: str, target: str) -> Task:
    b = TaskBuilder((target,), f"table {target}")
    b.write(b.unit(ActivConfig(), b.read(source, WHOLE)), target, contiguous(64, write=True))
    return b.done()


def total(one: str, other: str, target: str) -> Task:
    b = TaskBuilder((target,), f"sum {target}")
    both = b.read(one, WHOLE), b.read(other, WHOLE)
    b.write(b.unit(ArithConfig(dual_input=1), *both), target, contiguous(64, write=True))
    return b.done()


@dataclass
class Case:
    """Works, their schedule and its steps with numbers; faults are planted by changing one of them."""

    works: list[LoweredOperator] = field(default_factory=list)
    schedule: Schedule = field(default_factory=lambda: Schedule(()))
    plans: list[StepPlan] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def sound() -> Case:
        slices = TaskGroup.of(move("x", "a", 0, 8), move("x", "a", 8, 8))
        works = [
            LoweredOperator("slices", (slices,)),
            LoweredOperator("conv", (TaskGroup.of(convolution("a", "b")),)),
            LoweredOperator("table", (TaskGroup.of(table("a", "c")), TaskGroup.of(move("c", "d")))),
            LoweredOperator("sum", (TaskGroup.of(total("b", "d", "e")),)),
            LoweredOperator("cpu", call=CpuPlan(("cpu",), "softmax", "cpu", ("e",), ("y",))),
        ]
        case = Case(works)
        case.planned(schedule(works).steps)
        return case

    def planned(self, steps: Sequence[Step]) -> Case:
        """Another schedule, with the numbers that it gets."""
        self.schedule = Schedule(tuple(steps))
        self.plans = list(assign(self.schedule))
        return self

    @property
    def steps(self) -> list[Step]:
        return list(self.schedule.steps)

    def epoch(self, number: int) -> EpochOfTasks:
        step = self.schedule.steps[number]
        assert isinstance(step, EpochOfTasks)
        return step

    def plan(self, number: int) -> EpochPlan:
        plan = self.plans[number]
        assert isinstance(plan, EpochPlan)
        return plan

    def with_task(self, work: int, group: int, task: Task) -> Case:
        """The only task of a group replaced in the works too: the schedule is as one would make it."""
        old = self.works[work]
        groups = [*old.groups]
        groups[group] = TaskGroup.of(task)
        self.works[work] = replace(old, groups=tuple(groups))
        return self.planned(schedule(self.works).steps)

    def findings(self) -> list[Finding]:
        return check(self.works, self.schedule, self.plans, self.aliases)
