"""Tasks that do not depend on each other, side by side in as few epochs as their units allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, groupby

from atonc.compiler.plan.co_scheduling import may_share_epoch
from atonc.compiler.plan.task import ENGINE, Task, TaskGroup
from atonc.compiler.schedule.types import LoweredOperator
from atonc.machine.hw.footprint import share_word
from atonc.machine.hw.limits import MOST_READERS, MOST_WRITERS, UNITS
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust

_MOST = {**UNITS, "readers": MOST_READERS, "writers": MOST_WRITERS}


def pack(group: TaskGroup, trust: Trust = PUBLISHED, spare: int = 0) -> tuple[tuple[Task, ...], ...]:
    """Packs a group into epochs: of the tasks that have room in one, as many as may stand side by side."""
    return _packed(group, trust, spare)[0]


def fills(group: TaskGroup, trust: Trust) -> bool:
    """Whether every epoch has all tasks that it has room for: none is kept out by evidence."""
    return _packed(group, trust, 0)[1]


@memoise
def _packed(group: TaskGroup, trust: Trust, spare: int) -> tuple[tuple[tuple[Task, ...], ...], bool]:
    full = True

    def take(room: Sequence[Task]) -> tuple[Task, ...]:
        nonlocal full
        taken = next(some for some in fewer(room) if may_share_epoch(some, trust))
        full = full and len(taken) == len(room)
        return taken

    epochs = tuple(in_epochs(group, take, spare))
    return epochs, full


def packed(groups: Iterable[TaskGroup], trust: Trust = PUBLISHED, spare: int = 0) -> list[tuple[Task, ...]]:
    """The epochs of several groups, one group after the other."""
    return [epoch for group in groups for epoch in pack(group, trust, spare)]


def in_epochs(
    group: TaskGroup, take: Callable[[Sequence[Task]], tuple[Task, ...]], spare: int = 0
) -> Iterator[tuple[Task, ...]]:
    """Epoch by epoch, the longest tasks first: what is taken of those that have room and leave so many engines."""
    left = sorted(group.tasks, key=lambda task: -task.cost)
    needed = {id(task): units_of(task) for task in left}
    while left:
        epoch = take(_with_room(left, needed, spare))
        yield epoch
        taken = set(map(id, epoch))
        left = [task for task in left if id(task) not in taken]


def _with_room(tasks: Sequence[Task], needed: Mapping[int, Mapping[str, int]], spare: int) -> list[Task]:
    """The first task, and each of the others that an epoch has room for."""
    found, used = [tasks[0]], dict(needed[id(tasks[0])])
    for task in tasks[1:]:
        if fits(needed[id(task)], used, spare) and all(apart(task, other) for other in found):
            found.append(task)
            used |= {kind: used.get(kind, 0) + count for kind, count in needed[id(task)].items()}
    return found


def fewer(tasks: Sequence[Task]) -> Iterator[tuple[Task, ...]]:
    """The first task with all others, with all but the last, and so on to none."""
    for count in range(len(tasks) - 1, -1, -1):
        yield from ((tasks[0], *others) for others in combinations(tasks[1:], count))


def fits(needed: Mapping[str, int], used: Mapping[str, int], spare: int = 0) -> bool:
    """`spare`: engines that shall be left."""
    enough = needed.get(ENGINE, 0) + used.get(ENGINE, 0) + spare <= UNITS[ENGINE]
    return enough and all([count + used.get(kind, 0) <= _MOST[kind] for kind, count in needed.items()])


def units_of(task: Task) -> Mapping[str, int]:
    readers, writers = len(task.readers()), len(task.writers())
    found = {ENGINE: readers + writers, "readers": readers, "writers": writers}
    for config in task.units.values():
        found[config.KIND] = found.get(config.KIND, 0) + 1
    return found


def apart(one: Task, other: Task) -> bool:
    """Whether no two writers meet in a word of the bus; buffers begin and end between words."""
    return not any(
        a.buffer == b.buffer and share_word(a.config, b.config) for a in one.writers() for b in other.writers()
    )


def order(works: Iterable[LoweredOperator]) -> tuple[LoweredOperator, ...]:
    """In which order operators run: that of the graph, which is a topological one. Operators that share a stripe
    compute their rows in turn: the first band of all of them, then the second, so that no more than a band of what lies
    between them lives at a time."""
    found: list[LoweredOperator] = []
    for stripe, group in groupby(works, key=lambda work: work.stripe):
        some = list(group)
        found += _in_turn(some) if stripe else some
    return tuple(found)


def _in_turn(works: Sequence[LoweredOperator]) -> Iterator[LoweredOperator]:
    for band in sorted({group.band for work in works for group in work.groups}):
        for work in works:
            if groups := tuple(group for group in work.groups if group.band == band):
                yield replace(work, groups=groups)
