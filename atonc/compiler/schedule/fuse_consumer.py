"""A consumer that takes frames of a certain kind, behind the tasks of its producer as they are, or as they could be
cut: means want whole pictures of some channels, windows whole lines that begin at a stride."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.schedule.merging import (
    NO_CHAIN,
    NO_GAIN,
    NO_ROOM,
    MergeCandidate,
    MergeState,
    Place,
    Recut,
    begins_late,
    is_chainable,
    saved_cycles,
    writers_of,
)
from atonc.compiler.schedule.types import Apart, Merge
from atonc.machine.base.frozen import dataclass

Cut = tuple[Recut | None, dict[Place, TaskGroup]]


@dataclass(frozen=True)
class Follower:
    """How a task of the producer does on the way what a task of the consumer does, which reads one buffer."""

    longer: Callable[[Task, Task, bool], Task | str]  # consumer, producer, whether its writer stays; or why not
    tiny: bool = False  # the result: a few bytes more at the peak do not count
    ends: bool = False  # nothing may follow it in the same chain


def after_frames(state: MergeState, place: Place, work: Follower) -> Iterator[MergeCandidate | Apart]:
    source, target = _ends(state, place)
    producers = state.writers[state.network.root(source)]
    if is_chainable(state, source, producers, place) and begins_late(state, target, producers, place):
        yield _behind(state, place, work, sorted(producers))


def _ends(state: MergeState, place: Place) -> tuple[str, str]:
    """The buffers that a consumer reads and writes."""
    task = state.group(place).tasks[0]
    (source,), (target,) = task.readers(), task.writers()
    return source.buffer, target.buffer


def _behind(state: MergeState, place: Place, work: Follower, producers: Sequence[Place]) -> MergeCandidate | Apart:
    """What is between may be written even if nobody reads it: some chains were seen with fewer ARITHs that way."""
    source, target = _ends(state, place)
    number, root = producers[0][0], state.network.root(source)
    names = state.works[number].op, state.works[place[0]].op
    needed = bool(state.readers[root] - {place}) or any(state.network.root(n) == root for n in state.network.outputs)
    spare = 0 if needed else state.sizes[source]
    found: list[MergeCandidate] = []
    seen = ""
    grows = state.lives.grows(*state.earlier(target, producers[0], place))
    keeps = (True,) if needed else (False, True) if work.tiny or not grows else (False,)
    for cut, keep in product(cuts_of(state, number, producers, spare), keeps):
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
        return Apart(*names, NO_ROOM, f"{source} is kept for others beside {target}")
    return best


def cuts_of(state: MergeState, number: int, producers: Sequence[Place], spare: int) -> Iterator[Cut]:
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


def _scratch(state: MergeState, groups: Iterable[TaskGroup]) -> int:
    """Bytes of what only these tasks read and write."""
    uses = (use.buffer for group in groups for task in group.tasks for use in task.engines.values())
    names = {state.network.root(name) for name in uses}
    buffers = (state.network.buffers[name] for name in names)
    return sum(buffer.size_bytes for buffer in buffers if buffer.kind == BufferKind.SCRATCH)


def _candidate(state: MergeState, place: Place, work: Follower, cut: Cut, keep: bool) -> MergeCandidate | str:
    """The candidate, or why there is none: no evidence, or frames of another kind."""
    recut, before = cut
    source, target = _ends(state, place)
    network, consumer = state.network, state.group(place).tasks[0]
    pairs: list[tuple[Task, Task]] = []
    for task in (task for group in before.values() for task in group.tasks):
        if writers_of(task, network.root(source), network):
            chained = work.longer(consumer, task, keep)
            if isinstance(chained, str):
                return chained
            pairs.append((task, chained))
    became = {id(task): chained for task, chained in pairs}
    groups = {at: group.longer(became) for at, group in before.items()}
    ops = state.works[next(iter(before))[0]].op, state.works[place[0]].op
    merge = Merge(*ops, source, keep, state.group(place), tuple(pairs), saved_cycles(state, place, groups))
    return MergeCandidate(merge, place, target, groups, recut=recut, ends=work.ends)
