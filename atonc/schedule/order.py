"""In which order operators run: that of the graph, which is a topological one."""

from __future__ import annotations

from collections.abc import Iterable

from atonc.schedule.types import Work


def order(works: Iterable[Work]) -> tuple[Work, ...]:
    return tuple(works)
