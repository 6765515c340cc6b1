"""Means of whole pictures behind the tasks that write the pictures: conv > ARITH > POOL > ARITH in one epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from atonc.plan.task import Task, TaskGroup
from atonc.schedule.averages import Averages, averages, follow_average
from atonc.schedule.merging import (
    MOST_SPACERS,
    NO_CHAIN,
    NO_GAIN,
    NO_ROOM,
    TOO_MANY,
    Candidate,
    Network,
    Place,
    Recut,
    State,
    fits,
    is_chainable,
    missing_evidence,
    saved_cycles,
    touching,
    writers_of,
)
from atonc.schedule.types import Apart, Merge


def after_means(state: State, place: Place) -> Iterator[Candidate | Apart]:
    work = averages(state.group(place), state.sizes)
    if work is None or any(other < place for other in touching(state, work.target)):
        return
    producers = state.writers[state.network.root(work.source)]
    if is_chainable(state, work.source, producers, place):
        yield _average(state, place, work, sorted(producers))


def _average(state: State, place: Place, work: Averages, producers: Sequence[Place]) -> Candidate | Apart:
    """The means behind the tasks of the producer as they are, or as they could be cut. What is between may be written
    even if nobody reads it: that chain was seen with fewer ARITHs."""
    number, root = producers[0][0], state.network.root(work.source)
    names = state.works[number].op, state.works[place[0]].op
    needed = bool(state.readers[root] - {place}) or any(state.network.root(n) == root for n in state.network.outputs)
    found: list[Candidate] = []
    seen = ""
    for (recut, before), keep in product(_cuts(state, number, producers), (True,) if needed else (False, True)):
        one = _averaged(state, place, work, before, keep)
        if isinstance(one, str):
            seen = seen or one
        else:
            found.append(replace(one, recut=recut))
    best = max(found, key=lambda one: one.merge.saved_cycles, default=None)
    if best is None:
        return Apart(*names, NO_CHAIN, seen)
    if best.merge.saved_cycles <= 0:
        return Apart(*names, NO_GAIN, f"{-best.merge.saved_cycles:,} cycles more")
    if needed and state.lives.grows(*state.earlier(work.target, producers[0], place)):
        return Apart(*names, NO_ROOM, f"{work.source} is kept for others beside {work.target}")
    return best


def _cuts(
    state: State, number: int, producers: Sequence[Place]
) -> Iterator[tuple[Recut | None, dict[Place, TaskGroup]]]:
    """The groups of a producer as they are; and as they could be, where nothing was merged with them yet."""
    yield None, {at: state.group(at) for at in producers}
    everything = [(number, k) for k in range(len(state.works[number].groups))]
    for recut in () if number in state.merged else state.network.recuts.get(state.works[number].op, ()):
        missing = len(everything) - len(recut.groups)
        if missing >= 0:
            state.network.buffers.update(recut.buffers)
            yield recut, dict(zip(everything, (*recut.groups, *(TaskGroup(()),) * missing), strict=True))


def _averaged(
    state: State, place: Place, work: Averages, before: Mapping[Place, TaskGroup], keep: bool
) -> Candidate | str:
    """The candidate, or why there is none: no evidence, or frames that are not whole pictures."""
    network, root = state.network, state.network.root(work.source)
    pairs: list[tuple[Task, Task]] = []
    for task in (task for group in before.values() for task in group.tasks if writers_of(task, root, network)):
        chained = _average_chain(task, root, work, keep, network)
        if isinstance(chained, str):
            return chained
        pairs.append((task, chained))
    longer = {id(task): chained for task, chained in pairs}
    groups = {
        at: replace(group, tasks=tuple(longer.get(id(task), task) for task in group.tasks))
        for at, group in before.items()
    }
    ops = state.works[next(iter(before))[0]].op, state.works[place[0]].op
    merge = Merge(*ops, work.source, keep, state.group(place), tuple(pairs), saved_cycles(state, place, groups))
    return Candidate(merge, place, work.target, groups)


def _average_chain(task: Task, root: str, work: Averages, keep: bool, network: Network) -> Task | str:
    """The longer task, or what of it has no evidence."""
    writers = writers_of(task, root, network)
    into = {wire.target: wire for wire in task.wires}
    if len(writers) != 1 or into[writers[0]].keep or into[writers[0]].stop_after:
        return "several writers or a gate in front of one"
    seen, size = "frames that are not whole pictures", network.buffers[root].size_bytes
    for spacers in product(range(MOST_SPACERS + 1), (0, 1)):
        for chained in follow_average(task, writers[0], work, size, keep, spacers):
            seen = missing_evidence(chained, network.worst) if fits(chained) else TOO_MANY
            if not seen:
                return chained
    return seen
