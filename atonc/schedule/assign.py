"""Unit and engine numbers for the tasks of an epoch: of every kind the next free one, task by task.

No published program shows a unit number to have a role, so any numbers would do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from atonc.hw import regs
from atonc.hw.fields import changed
from atonc.hw.units.switch import Link
from atonc.plan.task import ENGINE, EngineUse, Task, Wire
from atonc.plan.types import CpuPlan, EpochPlan, StepPlan
from atonc.schedule.types import Schedule

Names = dict[str, str]  # of a unit inside its task -> on the chip


def assign(schedule: Schedule) -> tuple[StepPlan, ...]:
    return tuple(step if isinstance(step, CpuPlan) else assign_epoch(step.tasks) for step in schedule.steps)


def assign_epoch(tasks: Sequence[Task]) -> EpochPlan:
    used: Counter[str] = Counter()
    names = [_names(task, used) for task in tasks]
    pairs = list(zip(tasks, names, strict=True))
    first = tasks[0]
    return EpochPlan(
        tuple(dict.fromkeys(node for task in tasks for node in task.origin)),
        " | ".join(dict.fromkeys(task.title for task in tasks)),
        {own[name]: config for task, own in pairs for name, config in task.units.items()},
        {own[name]: _engine(use, own) for task, own in pairs for name, use in task.engines.items()},
        tuple(_link(wire, own) for task, own in pairs for wire in task.wires),
        purpose=first.purpose,
    )


def _names(task: Task, used: Counter[str]) -> Names:
    """Of the next free units; counts them as used."""
    found = {}
    for name, kind in [*((name, unit.KIND) for name, unit in task.units.items()), *((e, ENGINE) for e in task.engines)]:
        found[name] = f"{kind}{used[kind]}"
        used[kind] += 1
    return found


def _engine(use: EngineUse, names: Names) -> EngineUse:
    """A reader that follows a writer is told its number."""
    if not use.follows:
        return use
    writer = names[use.follows]
    config = changed(use.config, sync_source=int(writer.removeprefix(ENGINE)))
    return EngineUse(use.buffer, config, writer)


def _link(wire: Wire, names: Names) -> Link:
    source, target = names[wire.source], names[wire.target]
    if not (wire.keep or wire.stop_after):
        return Link(source, target, wire.port)
    other = regs.SOURCES[source]  # both contexts name the same source
    if wire.keep:
        return Link(source, target, wire.port, False, wire.drop, True, wire.keep, other)
    return Link(source, target, wire.port, True, wire.stop_after, False, 255, other)
