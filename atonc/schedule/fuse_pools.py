"""Windows of a pooling behind the tasks that write the picture: conv > ARITH > ACTIV > POOL in one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from atonc.hw.units.convacc import ConvaccConfig
from atonc.hw.units.pool import PoolConfig
from atonc.plan.task import Task
from atonc.schedule.behind import Follower, behind
from atonc.schedule.merging import (
    MOST_SPACERS,
    NO_CHAIN,
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
from atonc.schedule.windows import Windows, band_of, follow_windows, is_whole, windows


def after_pools(state: State, place: Place) -> Iterator[Candidate | Apart]:
    work = windows(state.group(place))
    if work is None:
        yield from _not_plain(state, place)
        return
    if any(other < place for other in touching(state, work.target)):
        return
    producers = state.writers[state.network.root(work.source)]
    if is_chainable(state, work.source, producers, place):
        longer = partial(_chain, state.network, work)
        yield behind(state, place, Follower(work.source, work.target, longer, ends=True), sorted(producers))


def _not_plain(state: State, place: Place) -> Iterator[Apart]:
    """Windows that never follow anything, said of the first group of a pooling."""
    if place[1] or not state.group(place).tasks:
        return
    task = state.group(place).tasks[0]
    units = list(task.units.values())
    features = {wire.source for wire in task.wires if wire.port == 0}
    names = [use.buffer for name, use in task.engines.items() if name in features]
    windowed = any(isinstance(unit, PoolConfig) and not unit.is_global for unit in units)
    if not windowed or len(names) != 1:
        return
    producers = state.writers[state.network.root(names[0])]
    if is_chainable(state, names[0], producers, place):
        padded = any(isinstance(unit, ConvaccConfig) for unit in units)
        seen = "a CONVACC in front of the POOL, which pads" if padded else "windows in several stages or parts"
        yield Apart(state.works[min(producers)[0]].op, state.works[place[0]].op, NO_CHAIN, seen)


def _chain(network: Network, work: Windows, task: Task, keep: bool) -> Task | str:
    """The longer task, or what of it has no evidence. Nearly all published chains have an ACTIV in front of the POOL,
    so one that changes nothing stands there where the work has none."""
    writer = only_writer(task, network.root(work.source), network)
    if not writer:
        return "several writers or a gate in front of one"
    band = band_of(task.engines[writer].config, work)
    if band is None:
        return "pixels in another order than line by line"
    if not is_whole(band, work):
        return f"windows across the edge of {band.lines} lines from {band.first} on, or pixels that none sees"
    seen = ""
    for ariths, activs, turns in product(range(MOST_SPACERS + 1), (1, 0), (False, True)):
        chained = follow_windows(task, writer, work, band, keep, (ariths, activs), turns)
        if not fits(chained):
            continue
        missing = missing_evidence(chained, network.trust)
        if not missing:
            return chained
        seen = seen or missing
    return seen or TOO_MANY
