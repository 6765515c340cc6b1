"""Parts of a join are written to their place in the whole by whoever makes them: no copy moves them there."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.plan.flow import EACH_PIECE
from atonc.compiler.plan.longer import IDENTITY, MOST_SPACERS, RunsApart, follow, inserted, moved_writers, sender
from atonc.compiler.plan.task import EngineUse, Purpose, Task, TaskGroup
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.schedule.merging import (
    NO_CHAIN,
    NO_GAIN,
    NO_ROOM,
    TOO_MANY,
    MergeCandidate,
    MergeState,
    Place,
    fits,
    is_chainable,
    missing_evidence,
    only_writer,
    saved_cycles,
    writers_of,
)
from atonc.compiler.schedule.types import Apart, LoweredOperator, Merge
from atonc.machine.base.frozen import replace
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
    target = copies.tasks[0].writers()[0].buffer
    root = network.root(copies.tasks[0].readers()[0].buffer)
    spread, producers = _spread(copies, state.sizes[root]), state.writers[root]
    if spread is None or copies.band or not is_chainable(state, root, producers, place):
        return
    inner = network.buffers[root].kind in (BufferKind.ACTIVATION, BufferKind.OUTPUT) and network.root(target) != root
    works = state.works[min(producers)[0]], state.works[place[0]]
    if inner and not any(work.stripe for work in works) and _is_free(state, place, target, producers):
        yield _moved(state, place, spread, sorted(producers))


def _spread(copies: TaskGroup, size: int) -> RunsApart | None:
    """Where the copies take all of a buffer; None if that is not what they do."""
    found, ends = set[RunsApart](), list[tuple[int, int]]()
    for task in copies.tasks:
        reader, writer = task.readers()[0].scan, task.writers()[0].scan
        if task.units or not reader.in_a_row:
            return None
        inside = [count for count, step in writer.loops[-1:] if step == writer.element_bytes]
        apart = writer.loops[: len(writer.loops) - len(inside)]
        run, step = (writer.element_bytes * sum(inside or [1]), apart[0][1]) if apart else (size, size)
        if len(apart) > 1 or reader.first % run:
            return None
        found.add(RunsApart(writer.first - reader.first // run * step, run, step))
        ends.append((reader.first, reader.end))
    starts, stops = zip(*sorted(ends), strict=True)
    return found.pop() if len(found) == 1 and (0, *stops) == (*starts, size) else None


def _is_free(state: MergeState, place: Place, target: str, producers: set[Place]) -> bool:
    """Whether its place may be written that early: who wrote into the whole before wrote elsewhere, and who read from
    its memory had read before."""
    network, first = state.network, min(producers)
    root, begin = network.root(target), network.begins(target)
    copied = [task.writers()[0] for task in state.group(place).tasks]
    for at in (at for at in state.writers[root] if at < place):
        if state.is_call(at):
            return False
        uses = (use for task in state.group(at).tasks for use in task.writers() if network.root(use.buffer) == root)
        if any(network.begins(use.buffer) != begin or any(map(use.meets, copied)) for use in uses):
            return False
    return all(at < first for at in state.readers[root] if at < place)


def _moved(state: MergeState, place: Place, spread: RunsApart, producers: list[Place]) -> MergeCandidate | Apart:
    copies, network = state.group(place), state.network
    source, target = network.root(copies.tasks[0].readers()[0].buffer), copies.tasks[0].writers()[0].buffer
    names = state.works[producers[0][0]].op, state.works[place[0]].op
    kept = state.readers[source] != {place} or any(network.root(name) == source for name in network.outputs)
    pairs = list[tuple[Task, Task]]()
    for task in (task for at in producers for task in state.group(at).tasks if writers_of(task, source, network)):
        moved = _written_there(state, task, copies.tasks[0], spread, kept)
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
    early = (size if kept else size - state.sizes[source], first, last)
    if state.lives.grows(*early):
        return Apart(*names, NO_ROOM, f"{target} is kept from {source} on")
    merge = Merge(*names, source, kept, copies, tuple(pairs), saved)
    return MergeCandidate(merge, place, target, groups, early=early)


def _written_there(state: MergeState, task: Task, copy: Task, spread: RunsApart, kept: bool) -> Task | str:
    """The task that writes at its place in the whole, `kept`: there too; or why it cannot."""
    root, target = state.network.root(copy.readers()[0].buffer), copy.writers()[0].buffer
    name = only_writer(task, root, state.network)
    if not name or any(use.follows == name for use in task.engines.values()):
        return "several writers, or one that others wait for"
    use = task.engines[name]
    if use.scan.end > state.sizes[root]:
        return f"{use.buffer} is written with more rows than it has"
    if use.scan.element_bytes > 1 and spread.first % ALIGNED:
        return f"wide elements at byte {spread.first}"
    origin = dict.fromkeys((*task.origin, *(copy.origin if copy.purpose == Purpose.COMPUTE else ())))
    seen = f"{use} is cut inside of runs of {spread.run} bytes"
    for moved in moved_writers(replace(task, origin=tuple(origin)), name, target, spread):
        for one in _written_twice(task, name, copy, moved.engines[name]) if kept else (moved,):
            seen = missing_evidence(one, state.network.trust) if fits(one) else TOO_MANY
            if not seen:
                return one
    return seen


def _written_twice(task: Task, name: str, copy: Task, there: EngineUse) -> Iterator[Task]:
    """The task with a second writer; some chains were seen with units that change nothing in front of that."""
    (reader,), (writer,) = copy.readers(), (n for n, use in copy.engines.items() if use.writes)
    for spacers in range(MOST_SPACERS + 1):
        work = inserted(copy, writer, [IDENTITY] * spacers)
        yield follow(task, name, (), work, {reader.buffer: sender(task, name)}, there, keep=True)
