"""Tasks that do not depend on each other, side by side in as few epochs as their units allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from atonc.hw.footprint import share_word
from atonc.hw.limits import MOST_READERS, MOST_WRITERS, UNITS
from atonc.hw.memoise import memoise
from atonc.plan.task import ENGINE, Task, TaskGroup

_MOST = {**UNITS, "readers": MOST_READERS, "writers": MOST_WRITERS}


@memoise
def pack(group: TaskGroup, spare: int = 0) -> tuple[tuple[Task, ...], ...]:
    """The longest first, each into the first epoch that has room and leaves so many engines."""
    epochs: list[tuple[list[Task], Counter[str]]] = []
    for task in sorted(group.tasks, key=lambda task: -task.cost):
        needed = units_of(task)
        free = (e for e in epochs if fits(needed, e[1], spare))
        room = next((e for e in free if all(apart(task, other) for other in e[0])), None)
        if room is None:
            epochs.append(([task], needed))
        else:
            room[0].append(task)
            room[1].update(needed)
    return tuple(tuple(tasks) for tasks, _ in epochs)


def packed(groups: Iterable[TaskGroup], spare: int = 0) -> list[tuple[Task, ...]]:
    """The epochs of several groups, one group after the other."""
    return [epoch for group in groups for epoch in pack(group, spare)]


def fits(needed: Counter[str], used: Counter[str], spare: int = 0) -> bool:
    """`spare`: engines that shall be left."""
    enough = needed[ENGINE] + used[ENGINE] + spare <= UNITS[ENGINE]
    return enough and all(count + used[kind] <= _MOST[kind] for kind, count in needed.items())


def units_of(task: Task) -> Counter[str]:
    found = Counter(task.kinds())
    for use in task.engines.values():
        found[ENGINE] += 1
        found["writers" if use.config.to_memory else "readers"] += 1
    return found


def apart(one: Task, other: Task) -> bool:
    """Whether no two writers meet in a word of the bus; buffers begin and end between words."""
    return not any(
        a.buffer == b.buffer and share_word(a.config, b.config) for a in one.writers() for b in other.writers()
    )
