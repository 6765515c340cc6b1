"""Parts of a join are written to their place in the whole by whoever makes them: no copy moves them there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from atonc.compiler.plan.flow import EACH_PIECE
from atonc.compiler.plan.longer import moved_writer
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.schedule.merging import (
    NO_CHAIN,
    NO_GAIN,
    NO_ROOM,
    MergeCandidate,
    MergeState,
    Place,
    is_chainable,
    missing_evidence,
    only_writer,
    saved_cycles,
    writers_of,
)
from atonc.compiler.schedule.types import Apart, LoweredOperator, Merge
from atonc.machine.hw.limits import ALIGNED


def by_source(work: LoweredOperator) -> LoweredOperator:
    """A join with one group for the copies from each buffer: each may go for itself."""
    groups = list[TaskGroup]()
    for group in work.groups:
        if group.flow != EACH_PIECE:
            groups.append(group)
            continue
        tasks: dict[str, list[Task]] = {}
        for task in group.tasks:
            tasks.setdefault(task.readers()[0].buffer, []).append(task)
        groups += [replace(group, tasks=tuple(some)) for some in tasks.values()]
    return replace(work, groups=tuple(groups))


def together(work: LoweredOperator) -> LoweredOperator:
    """What is left of the copies, side by side again."""
    groups = list[TaskGroup]()
    for group in work.groups:
        if groups and groups[-1].flow == group.flow == EACH_PIECE:
            groups[-1] = replace(group, tasks=(*groups[-1].tasks, *group.tasks))
        else:
            groups.append(group)
    return replace(work, groups=tuple(groups))


def into_place(state: MergeState, place: Place) -> Iterator[MergeCandidate | Apart]:
    """The writers of the part, moved to where the copies take it."""
    network, copies = state.network, state.group(place)
    source, target = copies.tasks[0].readers()[0].buffer, copies.tasks[0].writers()[0].buffer
    root, distance = network.root(source), _distance(copies, state.sizes[source])
    producers = state.writers[root]
    if distance is None or source != root or copies.band or not is_chainable(state, root, producers, place):
        return
    alone = state.readers[root] == {place} and not any(network.root(name) == root for name in network.outputs)
    inner = network.buffers[root].kind == BufferKind.ACTIVATION and network.root(target) != root
    works = state.works[min(producers)[0]], state.works[place[0]]
    if alone and inner and not any(work.stripe for work in works) and _is_free(state, place, target, producers):
        yield _moved(state, place, distance, sorted(producers))


def _distance(copies: TaskGroup, size: int) -> int | None:
    """How far the copies take all of a buffer; None if that is not what they do."""
    far, ends = set[int](), list[tuple[int, int]]()
    for task in copies.tasks:
        reader, writer = task.readers()[0].scan, task.writers()[0].scan
        if task.units or not (reader.in_a_row and writer.in_a_row):
            return None
        far.add(writer.first - reader.first)
        ends.append((reader.first, reader.end))
    starts, stops = zip(*sorted(ends), strict=True)
    return far.pop() if len(far) == 1 and (0, *stops) == (*starts, size) else None


def _is_free(state: MergeState, place: Place, target: str, producers: set[Place]) -> bool:
    """Whether its place may be written that early: who wrote into the whole before wrote elsewhere, and who read from
    its memory had read before."""
    root, first = state.network.root(target), min(producers)
    copied = [task.writers()[0].scan for task in state.group(place).tasks]
    low, high = min(scan.first for scan in copied), max(scan.end for scan in copied)
    for at in (at for at in state.writers[root] if at < place):
        if state.is_call(at):
            return False
        uses = (
            use for task in state.group(at).tasks for use in task.writers() if state.network.root(use.buffer) == root
        )
        if any(use.buffer != target or (use.scan.first < high and low < use.scan.end) for use in uses):
            return False
    return all(at < first for at in state.readers[root] if at < place)


def _moved(state: MergeState, place: Place, distance: int, producers: list[Place]) -> MergeCandidate | Apart:
    copies, network = state.group(place), state.network
    source, target = copies.tasks[0].readers()[0].buffer, copies.tasks[0].writers()[0].buffer
    names = state.works[producers[0][0]].op, state.works[place[0]].op
    pairs = list[tuple[Task, Task]]()
    for task in (task for at in producers for task in state.group(at).tasks if writers_of(task, source, network)):
        moved = _written_there(state, task, copies.tasks[0], distance)
        if isinstance(moved, str):
            return Apart(*names, NO_CHAIN, moved)
        pairs.append((task, moved))
    became = {id(task): moved for task, moved in pairs}
    groups = {at: state.group(at).longer(became) for at in producers}
    saved = saved_cycles(state, place, groups)
    if saved <= 0:
        return Apart(*names, NO_GAIN, f"{-saved:,} cycles more")
    begun = min((at for at in state.writers[network.root(target)] if at < place), default=place)
    size, first, last = state.earlier(target, min(producers[0], begun), begun)
    early = (size - state.sizes[source], first, last)  # the part itself is gone
    if state.lives.grows(*early):
        return Apart(*names, NO_ROOM, f"{target} is kept from {source} on")
    merge = Merge(*names, source, False, copies, tuple(pairs), saved)
    return MergeCandidate(merge, place, target, groups, early=early)


def _written_there(state: MergeState, task: Task, copy: Task, distance: int) -> Task | str:
    """The task that writes at its place in the whole; or why it cannot."""
    root, target = state.network.root(copy.readers()[0].buffer), copy.writers()[0].buffer
    name = only_writer(task, root, state.network)
    if not name or any(use.follows == name for use in task.engines.values()):
        return "several writers, or one that others wait for"
    use = task.engines[name]
    if use.scan.end > state.sizes[root]:
        return f"{use.buffer} is written with more rows than it has"
    if use.scan.element_bytes > 1 and distance % ALIGNED:
        return f"wide elements at byte {distance}"
    origin = dict.fromkeys((*task.origin, *(copy.origin if copy.purpose == Purpose.COMPUTE else ())))
    moved = moved_writer(replace(task, origin=tuple(origin)), name, target, distance)
    return missing_evidence(moved, state.network.trust) or moved
