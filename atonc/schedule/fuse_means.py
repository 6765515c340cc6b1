"""Means of whole pictures behind the tasks that write the pictures: conv > ARITH > POOL > ARITH in one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from atonc.plan.task import Task
from atonc.schedule.averages import Averages, averages, follow_average
from atonc.schedule.behind import Follower, behind
from atonc.schedule.merging import (
    MOST_SPACERS,
    TOO_MANY,
    Candidate,
    Network,
    Place,
    State,
    fits,
    is_chainable,
    missing_evidence,
    only_writer,
    touching,
)
from atonc.schedule.types import Apart


def after_means(state: State, place: Place) -> Iterator[Candidate | Apart]:
    work = averages(state.group(place), state.sizes)
    if work is None or any(other < place for other in touching(state, work.target)):
        return
    producers = state.writers[state.network.root(work.source)]
    if is_chainable(state, work.source, producers, place):
        longer = partial(_chain, state.network, work)
        yield behind(state, place, Follower(work.source, work.target, longer, tiny=True), sorted(producers))


def _chain(network: Network, work: Averages, task: Task, keep: bool) -> Task | str:
    """The longer task, or what of it has no evidence."""
    root = network.root(work.source)
    writer = only_writer(task, root, network)
    if not writer:
        return "several writers or a gate in front of one"
    seen, size = "frames that are not whole pictures", network.buffers[root].size_bytes
    for spacers in product(range(MOST_SPACERS + 1), (0, 1)):
        for chained in follow_average(task, writer, work, size, keep, spacers):
            seen = missing_evidence(chained, network.trust) if fits(chained) else TOO_MANY
            if not seen:
                return chained
    return seen
