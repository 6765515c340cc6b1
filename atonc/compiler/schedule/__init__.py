"""Tasks become epochs: `fuse`, `order`, then the passes; `assign` gives unit numbers, `check` proves the result.

The passes are a list (`passes.py`) that options and help read too; so nothing else is imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from atonc.compiler.schedule.passes import ALL, FUSE, MANY_WRITERS, ON_REQUEST, PASSES, POOLS, PREFETCH, TABLES, unused

if TYPE_CHECKING:
    from atonc.compiler.schedule.pack_ops import TaskNetwork
    from atonc.compiler.schedule.types import LoweredOperator, Schedule, Step

__all__ = ["FUSE", "MANY_WRITERS", "ON_REQUEST", "PASSES", "POOLS", "PREFETCH", "TABLES", "schedule", "unused"]


def schedule(
    works: Iterable[LoweredOperator], network: TaskNetwork | None = None, without: Collection[str] = ()
) -> Schedule:
    """`network`: of all buffers, without which nothing moves. `without`: names of passes that are left out."""
    from atonc.compiler.schedule.pack import order, packed
    from atonc.compiler.schedule.types import EpochOfTasks, Schedule

    steps: list[Step] = []
    for work in order(works):
        steps += [work.call] if work.call else []
        epochs = network.epochs(work) if network else packed(work.groups)
        steps += [EpochOfTasks(tasks, (work.op,) * len(tasks)) for tasks in epochs]
    found = Schedule(tuple(steps))
    return found if network is None else _passed(found, network, without)


def _passed(found: Schedule, network: TaskNetwork, without: Collection[str]) -> Schedule:
    for one in ALL:
        if one.verb and one.name not in without:
            found = getattr(import_module(f"{__name__}.{one.verb}"), one.verb)(found, network)
    return found
