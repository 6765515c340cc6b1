"""Puts a consumer behind its producer in one epoch, where its work fits the stream, the chain is one that published
programs have, and the calibrated model says that it pays. What flows on is not written to memory and read again,
unless others want it too.

The works stay in the order of the graph: tasks of the producer become longer, the group of the consumer is gone.
`schedule.check` proves every merge from the tasks alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from atonc.hw.chains import Shape, evidence, texts_of
from atonc.hw.limits import MOST_READERS, MOST_WRITERS, UNITS
from atonc.hw.proven import Level
from atonc.hw.safety.evidence import Grade, unit_grade
from atonc.hw.units.stream_engine import StrengConfig
from atonc.plan.aliases import root
from atonc.plan.streams import with_idle_steps
from atonc.plan.task import ENGINE, Task, TaskGroup
from atonc.plan.types import Buffer, BufferKind, taller_buffer
from atonc.schedule.lives import Lives
from atonc.schedule.pointwise import Pointwise, follow, mirrored, pointwise
from atonc.schedule.types import Apart, Merge, Work

_MOST_SPACERS = 2
_LIMIT = "limit behind the last byte"  # known when buffers have addresses

NO_CHAIN = "a chain is one that published programs have"
NO_GAIN = "a merge takes fewer cycles than the two epochs"
NO_ROOM = "a merge leaves the peak of the activations as it is"
NO_ORDER = "the other operand is there before the producer begins"
NO_MORE = "rows that nobody reads lie behind a tensor in the middle of the network, and operands in memory have none"


Place = tuple[int, int]  # numbers of a work and of its group; -1 is its call


@dataclass(frozen=True)
class Network:
    """What a merge may need to know besides the works."""

    buffers: MutableMapping[str, Buffer]
    aliases: MutableMapping[str, str]
    outputs: Collection[str]
    cycles: Callable[[Iterable[TaskGroup], Mapping[str, Buffer]], int]  # of groups, one after the other
    worst: Grade = Grade.COMPOSED  # of forms that may be used
    apart: Collection[str] = ()  # operators that shall not be chained

    def root(self, name: str) -> str:
        return root(name, self.aliases)


@dataclass(frozen=True)
class Fused:
    works: tuple[Work, ...]
    merges: tuple[Merge, ...] = ()
    apart: tuple[Apart, ...] = ()
    taller: Mapping[str, Buffer] = field(default_factory=dict)  # buffer -> the same memory and some more behind it


def fuse(works: Iterable[Work], network: Network) -> Fused:
    """Consumers in the order of the graph, each behind the producer that saves most."""
    network = replace(network, buffers=dict(network.buffers), aliases=dict(network.aliases))
    state = _State(list(works), network)
    merges: list[Merge] = []
    apart: list[Apart] = []
    for number, work in enumerate(state.works):
        for group in range(len(work.groups)):
            found = list(_candidates(state, (number, group)))
            good = [one for one in found if isinstance(one, _Candidate)]
            if good:
                best = max(good, key=lambda one: one.merge.saved_cycles)
                merges.append(best.merge)
                state.apply(best)
            else:
                apart += [one for one in found if isinstance(one, Apart)][:1]
    return Fused(state.done(), tuple(merges), tuple(apart), state.taller)


@dataclass(frozen=True)
class _Candidate:
    merge: Merge
    place: Place  # of the consumer
    target: str  # what it writes
    groups: Mapping[Place, TaskGroup]  # of the producer, as they become
    taller: Buffer | None = None  # where it writes instead, if the producer has more rows than anybody reads


class _State:
    """The works as far as they are merged, and who touches which memory."""

    def __init__(self, works: list[Work], network: Network) -> None:
        self.works, self.network = works, network
        self.gone: set[Place] = set()
        self.taller: dict[str, Buffer] = {}
        self.sizes = {name: one.size_bytes for name, one in network.buffers.items()}
        touched = list(_touched(works))
        self.number = {place: number for number, (place, _) in enumerate(touched)}
        self.lives = Lives((names for _, names in touched), network.buffers, network.aliases)
        self.readers: dict[str, set[Place]] = defaultdict(set)
        self.writers: dict[str, set[Place]] = defaultdict(set)
        for number, work in enumerate(works):
            for name in work.call.inputs if work.call else ():
                self.readers[network.root(name)].add((number, -1))
            for name in work.call.outputs if work.call else ():
                self.writers[network.root(name)].add((number, -1))
            for place, group in enumerate(work.groups):
                self._enter((number, place), group)

    def group(self, place: Place) -> TaskGroup:
        return self.works[place[0]].groups[place[1]]

    def earlier(self, target: str, first: Place, last: Place) -> tuple[int, int, int]:
        """How many bytes live longer if a result begins at `first`, instead of at `last`; both as numbers."""
        return self.lives.size_bytes(target), self.number[first], self.number[last]

    def apply(self, found: _Candidate) -> None:
        if found.merge.kept:
            self.lives.begin(*self.earlier(found.target, min(found.groups), found.place))
        if found.taller is not None:
            self.taller[found.target] = found.taller
        self._leave(found.place)
        self.gone.add(found.place)
        for place, group in found.groups.items():
            self._leave(place)
            work = self.works[place[0]]
            groups = (*work.groups[: place[1]], group, *work.groups[place[1] + 1 :])
            self.works[place[0]] = replace(work, groups=groups)
            self._enter(place, group)

    def done(self) -> tuple[Work, ...]:
        return tuple(
            replace(work, groups=tuple(g for k, g in enumerate(work.groups) if (number, k) not in self.gone))
            for number, work in enumerate(self.works)
        )

    def _enter(self, place: Place, group: TaskGroup) -> None:
        for places in self._places(group):
            places.add(place)

    def _leave(self, place: Place) -> None:
        for places in self._places(self.group(place)):
            places.discard(place)

    def _places(self, group: TaskGroup) -> Iterator[set[Place]]:
        """Of each buffer that the tasks touch: who reads it, or who writes it."""
        for task in group.tasks:
            for use in task.engines.values():
                yield (self.writers if use.config.to_memory else self.readers)[self.network.root(use.buffer)]


def _touched(works: Iterable[Work]) -> Iterator[tuple[Place, list[str]]]:
    """The buffers of every place, in the order of the graph."""
    for number, work in enumerate(works):
        yield (number, -1), [*work.call.inputs, *work.call.outputs] if work.call else []
        for place, group in enumerate(work.groups):
            yield (number, place), [use.buffer for task in group.tasks for use in task.engines.values()]


# ------------------------------------------------------------------------------------------------- candidates


def _candidates(state: _State, place: Place) -> Iterator[_Candidate | Apart]:
    """One for every operand that comes from an earlier group."""
    network = state.network
    if state.works[place[0]].op in network.apart:
        return
    work = pointwise(state.group(place), state.sizes)
    if work is None or any(other < place for other in _touching(state, work.target)):
        return
    for name in dict.fromkeys(work.readers.values()):
        root = network.root(name)
        producers = state.writers[root]
        whole = network.buffers[root].size_bytes == network.buffers[work.target].size_bytes  # not a slice of it
        if whole and _is_chainable(state, name, producers, place):
            yield _follow(state, place, work, name, sorted(producers))


def _touching(state: _State, name: str) -> set[Place]:
    root = state.network.root(name)
    return state.readers[root] | state.writers[root]


def _is_chainable(state: _State, name: str, producers: set[Place], place: Place) -> bool:
    """Whether tasks of one operator write all of it, and none of them reads it."""
    one_work = len({number for number, _ in producers}) == 1
    plain = all(group >= 0 and (number, group) < place for number, group in producers)
    return one_work and plain and not producers & state.readers[state.network.root(name)]


def _follow(
    state: _State, place: Place, work: Pointwise, name: str, producers: Sequence[Place]
) -> _Candidate | Apart:
    network = state.network
    root = network.root(name)
    consumer, producer = state.works[place[0]].op, state.works[producers[0][0]].op
    others = [network.root(n) for n in work.readers.values() if network.root(n) != root]
    tasks = [(at, task) for at in producers for task in state.group(at).tasks if _writers(task, root, network)]
    inner = {n for n in others if all(_same_walk(task, root, n, network) for _, task in tasks)}
    late = [n for n in others if n not in inner and any(other >= producers[0] for other in state.writers[n])]
    if late:
        return Apart(producer, consumer, NO_ORDER, f"{late[0]} is written later")
    writers = (task.engines[writer].config for _, task in tasks for writer in _writers(task, root, network))
    taller = _taller(network, work.target, writers)
    if taller is not None:
        if network.buffers[work.target].kind != BufferKind.ACTIVATION or set(others) - inner:
            return Apart(producer, consumer, NO_MORE, f"{name} is written with more rows than {work.target} has")
        network.buffers[taller.name], network.aliases[taller.name] = taller, work.target
    keep = bool(state.readers[root] - {place}) or any(network.root(n) == root for n in network.outputs)
    pairs = []
    for at, task in tasks:
        chained = _proven_chain(task, root, replace(work, target=taller.name) if taller else work, inner, keep, network)
        if isinstance(chained, str):
            return Apart(producer, consumer, NO_CHAIN, chained)
        pairs.append((at, task, chained))
    became = {id(task): chained for _, task, chained in pairs}
    groups = {
        at: replace(state.group(at), tasks=tuple(became.get(id(task), task) for task in state.group(at).tasks))
        for at in producers
    }
    before = [*(state.group(at) for at in producers), state.group(place)]
    saved = network.cycles(before, network.buffers) - network.cycles(groups.values(), network.buffers)
    if saved <= 0:
        return Apart(producer, consumer, NO_GAIN, f"{-saved:,} cycles more")
    if keep and state.lives.grows(*state.earlier(work.target, producers[0], place)):
        return Apart(producer, consumer, NO_ROOM, f"{name} is kept for others beside {work.target}")
    merge = Merge(producer, consumer, name, keep, state.group(place), tuple((t, c) for _, t, c in pairs), saved)
    return _Candidate(merge, place, work.target, groups, taller)


def _taller(network: Network, target: str, writers: Iterable[StrengConfig]) -> Buffer | None:
    """What the consumer's result needs instead of its own buffer, where the producer writes more than it has."""
    more = max(config.span()[1] for config in writers) - network.buffers[target].size_bytes
    return taller_buffer(network.buffers[target], more) if more > 0 else None


def _writers(task: Task, root: str, network: Network) -> list[str]:
    return [n for n, use in task.engines.items() if use.config.to_memory and network.root(use.buffer) == root]


def _same_walk(task: Task, root: str, other: str, network: Network) -> bool:
    """Whether the task writes both buffers in the same order."""
    one, two = _writers(task, root, network), _writers(task, other, network)
    return len(one) == len(two) == 1 and task.engines[one[0]].config == task.engines[two[0]].config


def _proven_chain(
    task: Task, root: str, work: Pointwise, inner: Collection[str], keep: bool, network: Network
) -> Task | str:
    """The longer task; or the chain that no published program has."""
    writers = _writers(task, root, network)
    if len(writers) != 1 or task.engines[writers[0]].config.element_bytes != 1:
        return "several writers or wide elements"
    into = {wire.target: wire for wire in task.wires}
    if into[writers[0]].keep or into[writers[0]].stop_after:
        return "a gate in front of the writer"
    streams = {
        name: into[_writers(task, network.root(name), network)[0]].source
        for name in work.readers.values()
        if network.root(name) == root or network.root(name) in inner
    }
    ways = [way for way in (work, mirrored(work)) if way is not None]
    seen = "more units or engines than the chip has"
    for turns, spacers, way in product((False, True), range(_MOST_SPACERS + 1), ways):
        chained = follow(task, writers[0], way, streams, keep, spacers, turns)
        if not _fits(chained):
            continue
        missing = _missing(chained, network.worst)
        if not missing:
            return chained
        seen = missing
    return seen


def _fits(task: Task) -> bool:
    kinds = Counter(task.kinds()) + Counter({ENGINE: len(task.engines)})
    writers = len(task.writers())
    few = writers <= MOST_WRITERS and len(task.engines) - writers <= MOST_READERS
    return few and all(count <= UNITS[kind] for kind, count in kinds.items())


def _missing(task: Task, worst: Grade) -> str:
    """What of the chain has no evidence; nothing if all of it has."""
    units = {**task.units, **{name: use.config for name, use in task.engines.items()}}
    shape = Shape.of(units, ((w.source, w.target, w.port, bool(w.keep or w.stop_after)) for w in task.wires))
    texts = [text for _, text in texts_of(shape)]
    if len(texts) != 1 or evidence(texts[0]).level == Level.NEVER:
        return " || ".join(texts)
    for name, use in task.engines.items():
        grade = unit_grade(with_idle_steps(use.config), _role(task, name), but=(_LIMIT,))
        if grade.rank > worst.rank:
            return f"{use} {_role(task, name)}"
    return ""


def _role(task: Task, engine: str) -> str:
    for wire in task.wires:
        if wire.target == engine:
            return f"from {wire.source.partition(' ')[0]}"
        if wire.source == engine:
            return f"to {wire.target.partition(' ')[0]}:{wire.port}"
    return ""
