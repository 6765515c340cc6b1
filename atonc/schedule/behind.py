"""A consumer that takes frames of a certain kind, behind the tasks of its producer as they are, or as they could be
cut: means want whole pictures of some channels, windows whole lines that begin at a stride."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from atonc.plan.task import Task, TaskGroup
from atonc.plan.types import BufferKind
from atonc.schedule.merging import (
    NO_CHAIN,
    NO_GAIN,
    NO_ROOM,
    Candidate,
    Place,
    Recut,
    State,
    saved_cycles,
    writers_of,
)
from atonc.schedule.types import Apart, Merge

Cut = tuple[Recut | None, dict[Place, TaskGroup]]


@dataclass(frozen=True)
class Follower:
    """A group that turns one buffer into another, and how a task of the producer does that on the way."""

    source: str
    target: str
    longer: Callable[[Task, bool], Task | str]  # from a task and whether its writer stays; or why there is no such task
    tiny: bool = False  # the target: a few bytes more at the peak do not count
    ends: bool = False  # nothing may follow it in the same chain


def behind(state: State, place: Place, work: Follower, producers: Sequence[Place]) -> Candidate | Apart:
    """What is between may be written even if nobody reads it: some chains were seen with fewer ARITHs that way."""
    number, root = producers[0][0], state.network.root(work.source)
    names = state.works[number].op, state.works[place[0]].op
    needed = bool(state.readers[root] - {place}) or any(state.network.root(n) == root for n in state.network.outputs)
    spare = 0 if needed else state.sizes[work.source]
    found: list[Candidate] = []
    seen = ""
    grows = state.lives.grows(*state.earlier(work.target, producers[0], place))
    keeps = (True,) if needed else (False, True) if work.tiny or not grows else (False,)
    for cut, keep in product(_cuts(state, number, producers, spare), keeps):
        one = _candidate(state, place, work, cut, keep)
        if isinstance(one, str):
            seen = seen or one
        else:
            found.append(one)
    best = max(found, key=lambda one: one.merge.saved_cycles, default=None)
    if best is None:
        return Apart(*names, NO_CHAIN, seen)
    if best.merge.saved_cycles <= 0:
        return Apart(*names, NO_GAIN, f"{-best.merge.saved_cycles:,} cycles more")
    if needed and grows:
        return Apart(*names, NO_ROOM, f"{work.source} is kept for others beside {work.target}")
    return best


def _cuts(state: State, number: int, producers: Sequence[Place], spare: int) -> Iterator[Cut]:
    """The groups of a producer as they are; and as they could be, where nothing was merged with them yet. `spare`:
    bytes that partial sums may take besides."""
    yield None, {at: state.group(at) for at in producers}
    work = state.works[number]
    if number in state.merged:
        return
    places = [(number, k) for k in range(len(work.groups))]
    room = _scratch(state, work.groups) + spare
    for recut in state.network.recuts(work.op):
        state.network.buffers.update(recut.buffers)
        groups = (*recut.groups, *(TaskGroup(()),) * (len(places) - len(recut.groups)))
        gone = [k for k, at in enumerate(places) if at in state.gone]  # other operators do that on the way
        moved = len(groups) > len(places) or any(groups[k] is not work.groups[k] for k in gone)
        if not moved and _scratch(state, recut.groups) <= room:
            yield recut, {at: group for at, group in zip(places, groups, strict=True) if at not in state.gone}


def _scratch(state: State, groups: Iterable[TaskGroup]) -> int:
    """Bytes of what only these tasks read and write."""
    uses = (use.buffer for group in groups for task in group.tasks for use in task.engines.values())
    names = {state.network.root(name) for name in uses}
    buffers = (state.network.buffers[name] for name in names)
    return sum(buffer.size_bytes for buffer in buffers if buffer.kind == BufferKind.SCRATCH)


def _candidate(state: State, place: Place, work: Follower, cut: Cut, keep: bool) -> Candidate | str:
    """The candidate, or why there is none: no evidence, or frames of another kind."""
    recut, before = cut
    network, root = state.network, state.network.root(work.source)
    pairs: list[tuple[Task, Task]] = []
    for task in (task for group in before.values() for task in group.tasks if writers_of(task, root, network)):
        chained = work.longer(task, keep)
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
    return Candidate(merge, place, work.target, groups, recut=recut, ends=work.ends)
