"""Unit and engine numbers for the tasks of an epoch: of every kind of unit the next free one, task by task; engines by
the interface to the bus that they hang on (`plan.interfaces`).

No published program shows a unit number to have a role, so any numbers would do: an ARITH whose table may stay is the
one that holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from atonc.compiler.plan.interfaces import spread
from atonc.compiler.plan.task import ENGINE, EngineUse, Task, Wire
from atonc.compiler.plan.types import CpuPlan, EpochPlan, StepPlan
from atonc.compiler.schedule.table_units import Names, TableUnits
from atonc.compiler.schedule.types import Schedule
from atonc.machine.hw import regs
from atonc.machine.hw.cycles.flow import FEATURES, KERNELS
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.switch import Link

Key = tuple[int, str]  # a stream: number of its task, name in it


def assign(schedule: Schedule, keep_tables: bool = False) -> tuple[StepPlan, ...]:
    if not keep_tables:
        return tuple(step if isinstance(step, CpuPlan) else assign_epoch(step.tasks) for step in schedule.steps)
    units, plans = TableUnits(schedule), list[StepPlan]()
    for number, step in enumerate(schedule.steps):
        if isinstance(step, CpuPlan):
            units.forget()
            plans.append(step)
        else:
            plans.append(assign_epoch(step.tasks, units.choose(step.tasks, number)))
    return tuple(plans)


def assign_epoch(tasks: Sequence[Task], chosen: Sequence[Names] = ()) -> EpochPlan:
    """`chosen`: for every task, units that are not simply the next ones; all of a kind or none."""
    used: Counter[str] = Counter()
    names = [_units(task, used, own) for task, own in zip(tasks, chosen or [{}] * len(tasks), strict=True)]
    for (place, name), engine in _engines(tasks, names).items():
        names[place][name] = engine
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


def _units(task: Task, used: Counter[str], chosen: Names) -> Names:
    """Numbers the units of a task: those chosen, else the next free ones, which then count as used."""
    found = dict(chosen)
    for name, unit in task.units.items():
        if name not in chosen:
            found[name] = f"{unit.KIND}{used[unit.KIND]}"
            used[unit.KIND] += 1
    return found


def _engines(tasks: Sequence[Task], chosen: Sequence[Names]) -> dict[Key, str]:
    """Gives engines to all streams that have none yet."""
    streams = {(place, name): use.config for place, task in enumerate(tasks) for name, use in task.engines.items()}
    taken = {chosen[place][name]: config for (place, name), config in streams.items() if name in chosen[place]}
    free = {key: config for key, config in streams.items() if key[1] not in chosen[key[0]]}
    return spread(free, dict(pair for place, task in enumerate(tasks) for pair in _features(task, place)), taken)


def _features(task: Task, place: int) -> Iterator[tuple[Key, set[Key]]]:
    """Yields for every reader of kernels the readers of the features that they meet."""
    sources = {(wire.target, wire.port): wire.source for wire in task.wires}
    fed: dict[str, set[Key]] = {}
    for wire in task.wires:
        if wire.port == KERNELS and isinstance(task.units.get(wire.target), ConvaccConfig):
            source = sources.get((wire.target, FEATURES), "")
            fed.setdefault(wire.source, set()).update({(place, source)} if source in task.engines else ())
    return (((place, name), met) for name, met in fed.items())


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
