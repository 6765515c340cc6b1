"""Puts a consumer behind its producer in one epoch, where its work fits the stream, the chain is one that published
programs have, and the calibrated model says that it pays. What flows on is not written to memory and read again,
unless others want it too.

The works stay in the order of the graph: tasks of the producer become longer, the group of the consumer is gone.
`schedule.check` proves every merge from the tasks alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import product

from atonc.compiler.plan.flow import EachChannel, EachElement, EachPiece, EachWindow, Unfollowing
from atonc.compiler.plan.longer import IDENTITY, MOST_SPACERS, alike, follow, mirrored, sender
from atonc.compiler.plan.task import EngineUse, Task
from atonc.compiler.plan.types import Buffer, BufferKind, taller_buffer
from atonc.compiler.schedule.fuse_consumer import Cut, cuts_of
from atonc.compiler.schedule.fuse_means import after_means
from atonc.compiler.schedule.fuse_pieces import by_source, into_place, together
from atonc.compiler.schedule.fuse_pools import after_pools, never_behind
from atonc.compiler.schedule.merging import (
    NO_CHAIN,
    NO_GAIN,
    NO_MORE,
    NO_ORDER,
    NO_ROOM,
    TOO_MANY,
    MergeCandidate,
    MergeNetwork,
    MergeState,
    Place,
    Recut,
    begins_late,
    fits,
    is_chainable,
    missing_evidence,
    only_writer,
    saved_cycles,
    writers_of,
)
from atonc.compiler.schedule.types import Apart, LoweredOperator, Merge
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import FLASH_ALIGNMENT


@dataclass(frozen=True)
class Fused:
    works: tuple[LoweredOperator, ...]
    merges: tuple[Merge, ...] = ()
    apart: tuple[Apart, ...] = ()
    taller: Mapping[str, Buffer] = field(default_factory=dict)  # buffer -> the same memory and some more behind it
    recut: Mapping[str, Recut] = field(default_factory=dict)  # by operator: what its tasks were before the merges

    def reference(self, works: Iterable[LoweredOperator]) -> tuple[LoweredOperator, ...]:
        """What the merges were made of: the works of the graph, some of them in other tasks."""
        own = (replace(w, groups=self.recut[w.op].groups) if w.op in self.recut else w for w in works)
        return tuple(map(by_source, own))


def fuse(works: Iterable[LoweredOperator], network: MergeNetwork) -> Fused:
    """Consumers in the order of the graph, each behind the producer that saves most."""
    network = replace(network, buffers=dict(network.buffers), aliases=dict(network.aliases))
    state = MergeState(list(map(by_source, works)), network)
    merges: list[Merge] = []
    apart: list[Apart] = []
    for number, work in enumerate(state.works):
        for group in range(len(work.groups)):
            found = list(_candidates(state, (number, group)))
            good = [one for one in found if isinstance(one, MergeCandidate) and not _costs_more(state, one)]
            if good:
                best = max(good, key=lambda one: one.merge.saved_cycles)
                merges.append(best.merge)
                state.apply(best)
            else:
                apart += [one for one in found if isinstance(one, Apart)][:1]
    return Fused(tuple(map(together, state.done())), tuple(merges), tuple(apart), state.taller, state.recut)


# ------------------------------------------------------------------------------------------------- candidates


def _costs_more(state: MergeState, found: MergeCandidate) -> bool:
    """Whether what could have followed the consumer alone saves more, where nothing may follow the longer chain."""
    if not found.ends:
        return False
    readers = [at for at in sorted(state.readers[state.network.root(found.target)]) if not state.is_call(at)]
    later = [one for at in readers for one in _candidates(state, at)]
    lost = (one for one in later if isinstance(one, MergeCandidate) and one.merge.producer == found.merge.consumer)
    return sum(one.merge.saved_cycles for one in lost) >= found.merge.saved_cycles


def _candidates(state: MergeState, place: Place) -> Iterator[MergeCandidate | Apart]:
    """One for every operand that comes from an earlier group."""
    network = state.network
    if state.works[place[0]].op in network.apart:
        return
    match state.group(place).flow:
        case EachElement():
            yield from _after_elements(state, place)
        case EachPiece():
            yield from into_place(state, place)
        case EachChannel() as flow:
            yield from after_means(state, place, flow)
        case EachWindow() as flow if network.pools:
            yield from after_pools(state, place, flow)
        case Unfollowing() as flow if network.pools:
            yield from never_behind(state, place, flow)


def _after_elements(state: MergeState, place: Place) -> Iterator[MergeCandidate | Apart]:
    network, work = state.network, state.group(place).tasks[0]
    target = work.writers()[0].buffer
    for name in dict.fromkeys(use.buffer for use in work.readers()):
        root = network.root(name)
        producers = state.writers[root]
        whole = network.buffers[root].size_bytes == network.buffers[target].size_bytes  # not a slice of it
        if whole and is_chainable(state, name, producers, place) and begins_late(state, target, producers, place):
            yield _follow(state, place, name, sorted(producers))


def _follow(state: MergeState, place: Place, name: str, producers: Sequence[Place]) -> MergeCandidate | Apart:
    """Behind the tasks of the producer as they are; as they could be cut where that does not pay, since fewer lanes
    leave units to the consumer."""
    cuts = cuts_of(state, producers[0][0], producers, spare=0)
    first = _behind(state, place, name, next(cuts))
    if isinstance(first, MergeCandidate) or first.rule not in (NO_CHAIN, NO_GAIN):
        return first
    others = [one for cut in cuts if isinstance(one := _behind(state, place, name, cut), MergeCandidate)]
    return max(others, key=lambda one: one.merge.saved_cycles, default=first)


def _behind(state: MergeState, place: Place, name: str, cut: Cut) -> MergeCandidate | Apart:
    network, work = state.network, state.group(place).tasks[0]
    recut, before = cut
    producers = sorted(before)
    root, target = network.root(name), work.writers()[0].buffer
    consumer, producer = state.works[place[0]].op, state.works[producers[0][0]].op
    others = [found for use in work.readers() if (found := network.root(use.buffer)) != root]
    tasks = [(at, task) for at in producers for task in before[at].tasks if writers_of(task, root, network)]
    inner = {n for n in others if all(_same_walk(task, root, n, network) for _, task in tasks)}
    late = [n for n in others if n not in inner and any(other >= producers[0] for other in state.writers[n])]
    if late:
        return Apart(producer, consumer, NO_ORDER, f"{late[0]} is written later")
    writers = (task.engines[writer] for _, task in tasks for writer in writers_of(task, root, network))
    taller = _taller(network, target, writers)
    if taller is not None:
        if network.buffers[target].kind != BufferKind.ACTIVATION or set(others) - inner:
            return Apart(producer, consumer, NO_MORE, f"{name} is written with more rows than {target} has")
        network.buffers[taller.name], network.aliases[taller.name] = taller, target
    keep = bool(state.readers[root] - {place}) or any(network.root(n) == root for n in network.outputs)
    pairs = []
    for at, task in tasks:
        result = taller.name if taller else target
        chained = _proven_chain(task, root, work, inner, result, keep, network)
        if isinstance(chained, str):
            return Apart(producer, consumer, NO_CHAIN, chained)
        pairs.append((at, task, chained))
    became = {id(task): chained for _, task, chained in pairs}
    groups = {at: before[at].longer(became) for at in producers}
    saved = saved_cycles(state, place, groups)
    if saved <= 0:
        return Apart(producer, consumer, NO_GAIN, f"{-saved:,} cycles more")
    if keep and state.lives.grows(*state.earlier(target, producers[0], place)):
        return Apart(producer, consumer, NO_ROOM, f"{name} is kept for others beside {target}")
    merge = Merge(producer, consumer, name, keep, state.group(place), tuple((t, c) for _, t, c in pairs), saved)
    return MergeCandidate(merge, place, target, groups, taller, recut)


def _taller(network: MergeNetwork, target: str, writers: Iterable[EngineUse]) -> Buffer | None:
    """What the consumer's result needs instead of its own buffer, where the producer writes more than it has."""
    more = max(use.scan.end for use in writers) - network.buffers[target].size_bytes
    return taller_buffer(network.buffers[target], more) if more > 0 else None


def _same_walk(task: Task, root: str, other: str, network: MergeNetwork) -> bool:
    """Whether the task writes both buffers in the same order."""
    one, two = writers_of(task, root, network), writers_of(task, other, network)
    return len(one) == len(two) == 1 and task.engines[one[0]].scan == task.engines[two[0]].scan


def _proven_chain(
    task: Task, root: str, work: Task, inner: Collection[str], result: str, keep: bool, network: MergeNetwork
) -> Task | str:
    """The longer task; or the chain that no published program has."""
    writers = writers_of(task, root, network)
    if len(writers) != 1 or task.engines[writers[0]].scan.element_bytes != 1:
        return "several writers or wide elements"
    if not only_writer(task, root, network):
        return "a gate in front of the writer"
    known = [use.buffer for use in work.readers() if network.root(use.buffer) in {root, *inner}]
    streams = {name: sender(task, writers_of(task, network.root(name), network)[0]) for name in known}
    ways = [way for way in (work, mirrored(work)) if way is not None]
    seen = TOO_MANY
    for turns, spacers, way in product((False, True), range(MOST_SPACERS + 1), ways):
        written = alike(task.engines[writers[0]], result, turns)
        chained = follow(task, writers[0], [IDENTITY] * spacers, way, streams, written, keep)
        if not fits(chained):
            continue
        missing = _inside_flash(chained, network) or missing_evidence(chained, network.trust)
        if not missing:
            return chained
        seen = missing
    return seen


def _inside_flash(task: Task, network: MergeNetwork) -> str:
    """A constant operand that would be read from a place on where no published reader starts: by a lane of rows, or
    behind a part of a concatenation. Nothing if there is none."""
    constants = (use for use in task.engines.values() if network.buffers[use.buffer].kind == BufferKind.CONSTANT)
    starts = (use for use in constants if use.scan.first % FLASH_ALIGNMENT)
    return next((f"{use.buffer} in flash from byte {use.scan.first} on" for use in starts), "")
