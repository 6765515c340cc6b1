"""Faults planted into merges that end in a POOL: what `check` must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.plan.task import Task
from atonc.compiler.schedule.check import check
from atonc.compiler.schedule.types import Merge
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

Fault = Callable[[Task, Task], Task]  # the task before the merge and after it -> a wrong one after it


def rules_broken(compiled: Compiled, merge: Merge) -> set[str]:
    """With this as the only merge of the schedule."""
    scheduled = compiled.scheduled
    schedule = replace(scheduled.schedule, merges=(merge,))
    found = check(scheduled.reference, schedule, scheduled.plans, compiled.mapped.context.aliases)
    return {finding.rule for finding in found}


def with_fault(merge: Merge, fault: Fault) -> Merge:
    """In its first pair of tasks."""
    old, new = merge.pairs[0]
    return replace(merge, pairs=((old, fault(old, new)), *merge.pairs[1:]))


def without_a_lane(merge: Merge) -> Merge:
    assert len(merge.pairs) == 2
    return replace(merge, pairs=merge.pairs[:1])


def pool_of(task: Task) -> tuple[str, PoolConfig]:
    return next((name, unit) for name, unit in task.units.items() if isinstance(unit, PoolConfig))


def with_pool(**fields: int) -> Fault:
    def change(old: Task, new: Task) -> Task:
        name, pool = pool_of(new)
        return replace(new, units={**new.units, name: replace(pool, **fields)})  # type: ignore[arg-type]

    return change


def with_result(change: Callable[[StrengConfig], StrengConfig]) -> Fault:
    def changed(old: Task, new: Task) -> Task:
        name = next(name for name in new.engines if name not in old.engines)
        use = new.engines[name]
        return replace(new, engines={**new.engines, name: replace(use, config=change(use.config))})

    return changed


def before_the_codes(old: Task, new: Task) -> Task:
    """The POOL takes the sums of the CONVACC."""
    name, _ = pool_of(new)
    source = next(n for n in new.units if n.startswith("CONVACC"))
    return replace(new, wires=tuple(w._replace(source=source) if w.target == name else w for w in new.wires))
