"""Identities between a chain and its writer, where published programs have the chains of an epoch side by side only
with one more ARITH than their work needs: two convolutions with two ARITHs each, say, and not with one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from atonc.compiler.plan.co_scheduling import may_share_epoch
from atonc.compiler.plan.evidence import untrusted
from atonc.compiler.plan.longer import IDENTITY, MOST_SPACERS, inserted
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.schedule.pack import fewer, fills, in_epochs
from atonc.machine.hw.limits import UNITS
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import Trust

MAKE_CODES = ("ARITH", "ACTIV", "POOL")


@memoise
def spaced(group: TaskGroup, trust: Trust) -> TaskGroup:
    """The same work, with identities where more of its tasks may share an epoch then."""
    if len(group.tasks) == 1 or fills(group, trust):
        return group
    found: dict[int, Task] = {}

    def take(room: Sequence[Task]) -> tuple[Task, ...]:
        for some in fewer(room):
            for longer in _longer(some):
                changed = {id(task): other for task, other in zip(some, longer, strict=True) if task is not other}
                if may_share_epoch(longer, trust) and not any(untrusted(one, trust) for one in changed.values()):
                    found.update(changed)
                    return some
        raise AssertionError("a task alone is no set")

    for _ in in_epochs(group, take):
        pass
    return replace(group, tasks=tuple(found.get(id(task), task) for task in group.tasks)) if found else group


def _longer(tasks: Sequence[Task]) -> Iterator[tuple[Task, ...]]:
    """Side by side, with as few identities as possible first: none."""
    used = sum(task.kinds().count(IDENTITY.KIND) for task in tasks)
    free = UNITS[IDENTITY.KIND] - used if len(tasks) > 1 else 0
    most = [min(free, MOST_SPACERS) if _writer(task) else 0 for task in tasks]
    counts = (some for some in product(*(range(n + 1) for n in most)) if sum(some) <= free)
    for some in sorted(counts, key=lambda some: (sum(some), max(some))):
        yield tuple(_with_spacers(task, count) for task, count in zip(tasks, some, strict=True))


@memoise
def _with_spacers(task: Task, count: int) -> Task:
    """Always the same object: its evidence is remembered by it."""
    return inserted(task, _writer(task), [IDENTITY] * count) if count else task


def _writer(task: Task) -> str:
    """The only writer of a task, if it takes all codes of one byte from a unit that makes codes; or nothing."""
    writers = [name for name, use in task.engines.items() if use.writes]
    into = [wire for wire in task.wires if wire.target == writers[0]]
    plain = len(writers) == len(into) == 1 and not (into[0].keep or into[0].stop_after)
    codes = task.engines[writers[0]].scan.element_bytes == 1
    return writers[0] if plain and codes and into[0].source.startswith(MAKE_CODES) else ""
