"""Tasks become epochs: `order`, then `pack`; `assign` gives unit numbers, `check` proves the result."""

from __future__ import annotations

from collections.abc import Iterable

from atonc.schedule.order import order
from atonc.schedule.pack import packed
from atonc.schedule.types import EpochOfTasks, Schedule, Step, Work


def schedule(works: Iterable[Work]) -> Schedule:
    steps: list[Step] = []
    for work in order(works):
        steps += [work.call] if work.call else []
        steps += [EpochOfTasks(tasks, (work.op,) * len(tasks)) for tasks in packed(work.groups)]
    return Schedule(tuple(steps))
