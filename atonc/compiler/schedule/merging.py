"""What every kind of merge needs: the works as far as they are merged, who touches which memory, what a chain is worth
and whether published programs have it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace

from atonc.compiler.plan.aliases import begins, root
from atonc.compiler.plan.evidence import chain_texts, untrusted
from atonc.compiler.plan.task import ENGINE, Task, TaskGroup
from atonc.compiler.plan.types import Buffer
from atonc.compiler.schedule.lives import Lives
from atonc.compiler.schedule.types import LoweredOperator, Merge
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import MOST_READERS, MOST_WRITERS, UNITS
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust

NO_CHAIN = "a chain is one that ST programs have"
TOO_MANY = "more units or engines than the chip has"
NO_GAIN = "a merge takes fewer cycles than the two epochs"
NO_ROOM = "a merge leaves the peak of the activations as it is"
NO_ORDER = "the other operand is there before the producer begins"
NO_MORE = "unused rows lie behind a tensor in the middle of the network, and operands in memory have none"

CALL = -1
Place = tuple[int, int]  # numbers of a work and of its group, or CALL for what it does on the CPU


@dataclass(frozen=True)
class Recut:
    """Other tasks that give the same bits as those of an operator, and constants of theirs."""

    groups: tuple[TaskGroup, ...]
    buffers: Mapping[str, Buffer]


@dataclass(frozen=True)
class MergeNetwork:
    """What a merge may need to know besides the works."""

    buffers: MutableMapping[str, Buffer]
    aliases: MutableMapping[str, str]
    outputs: Collection[str]
    cycles: Callable[[Iterable[TaskGroup], Mapping[str, Buffer]], int]  # of groups, one after the other
    trust: Trust = PUBLISHED
    apart: Collection[str] = ()  # operators that shall not be chained
    recuts: Callable[[str], Iterable[Recut]] = lambda op: ()  # of an operator
    pools: bool = True  # whether windows may follow the tasks that write their picture

    def root(self, name: str) -> str:
        return root(name, self.aliases)

    def begins(self, name: str) -> int:
        return begins(name, self.buffers, self.aliases)


@dataclass(frozen=True)
class MergeCandidate:
    merge: Merge
    place: Place  # of the consumer
    target: str  # what it writes
    groups: Mapping[Place, TaskGroup]  # of the producer, as they become
    taller: Buffer | None = None  # where it writes instead, if the producer has more rows than anybody reads
    recut: Recut | None = None  # what the groups of the producer were, if not what they are now
    ends: bool = False  # published programs have nothing behind such a chain
    early: tuple[int, int, int] | None = None  # bytes that live longer, from where, instead of from where


class MergeState:
    """The works as far as they are merged, and who touches which memory."""

    def __init__(self, works: list[LoweredOperator], network: MergeNetwork) -> None:
        self.works, self.network = works, network
        self.gone: set[Place] = set()
        self.taller: dict[str, Buffer] = {}
        self.recut: dict[str, Recut] = {}
        self.merged: set[int] = set()  # numbers of works with longer tasks
        self.sizes = {name: one.size_bytes for name, one in network.buffers.items()}
        touched = list(_touched(works))
        self.number = {place: number for number, (place, _) in enumerate(touched)}
        self.lives = Lives((names for _, names in touched), network.buffers, network.aliases)
        self.readers: dict[str, set[Place]] = defaultdict(set)
        self.writers: dict[str, set[Place]] = defaultdict(set)
        for number, work in enumerate(works):
            for name in work.call.inputs if work.call else ():
                self.readers[network.root(name)].add((number, CALL))
            for name in work.call.outputs if work.call else ():
                self.writers[network.root(name)].add((number, CALL))
            for place, group in enumerate(work.groups):
                self._enter((number, place), group)

    def is_call(self, place: Place) -> bool:
        """Whether it runs on the CPU."""
        return place[1] == CALL

    def group(self, place: Place) -> TaskGroup:
        return self.works[place[0]].groups[place[1]]

    def earlier(self, target: str, first: Place, last: Place) -> tuple[int, int, int]:
        """How many bytes live longer if a result begins at `first`, instead of at `last`; both as numbers. None of a
        memory that lives already, such as a state's."""
        begun = self.lives.first.get(self.network.root(target), self.number[last]) < self.number[first]
        return 0 if begun else self.lives.size_bytes(target), self.number[first], self.number[last]

    def apply(self, found: MergeCandidate) -> None:
        if found.early is not None:
            self.lives.begin(*found.early)
        elif found.merge.kept:
            self.lives.begin(*self.earlier(found.target, min(found.groups), found.place))
        if found.taller is not None:
            self.taller[found.target] = found.taller
        self._leave(found.place)
        self.gone.add(found.place)
        if found.recut is not None:
            self.recut[found.merge.producer] = found.recut
        for place, group in found.groups.items():
            self.merged.add(place[0])
            self.gone |= set() if group.tasks else {place}
            self._leave(place)
            work = self.works[place[0]]
            groups = (*work.groups[: place[1]], group, *work.groups[place[1] + 1 :])
            self.works[place[0]] = replace(work, groups=groups)
            self._enter(place, group)

    def done(self) -> tuple[LoweredOperator, ...]:
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
        """Yields, for each buffer that the tasks touch, who reads it or who writes it."""
        for task in group.tasks:
            for use in task.engines.values():
                yield (self.writers if use.writes else self.readers)[self.network.root(use.buffer)]


def _touched(works: Iterable[LoweredOperator]) -> Iterator[tuple[Place, list[str]]]:
    """The buffers of every place, in the order of the graph."""
    for number, work in enumerate(works):
        yield (number, CALL), [*work.call.inputs, *work.call.outputs] if work.call else []
        for place, group in enumerate(work.groups):
            yield (number, place), [use.buffer for task in group.tasks for use in task.engines.values()]


# ------------------------------------------------------------------------------------------------- questions


def begins_late(state: MergeState, target: str, producers: set[Place], place: Place) -> bool:
    """Whether a result may be written by its producers already: nobody else has written into its memory, and what was
    read from it (the state of the run before) was read before they begin."""
    root, first = state.network.root(target), min(producers, default=place)
    written = any(at < place for at in state.writers[root])
    return not written and all(at < first for at in state.readers[root] if at < place)


def is_chainable(state: MergeState, name: str, producers: set[Place], place: Place) -> bool:
    """Whether tasks of one operator write all of it, and none of them reads it."""
    one_work = len({number for number, _ in producers}) == 1
    plain = all(group >= 0 and (number, group) < place for number, group in producers)
    return one_work and plain and not producers & state.readers[state.network.root(name)]


def writers_of(task: Task, root: str, network: MergeNetwork) -> list[str]:
    return [n for n, use in task.engines.items() if use.writes and network.root(use.buffer) == root]


def only_writer(task: Task, root: str, network: MergeNetwork) -> str:
    """The engine that writes all of what the task writes into a buffer; nothing if a gate is in front of it."""
    writers = writers_of(task, root, network)
    into = {wire.target: wire for wire in task.wires}
    plain = len(writers) == 1 and not (into[writers[0]].keep or into[writers[0]].stop_after)
    return writers[0] if plain else ""


def saved_cycles(state: MergeState, place: Place, groups: Mapping[Place, TaskGroup]) -> int:
    """Cycles, if groups of a producer become others and the one of the consumer is gone."""
    before = [*(state.group(at) for at in groups), state.group(place)]
    cycles, buffers = state.network.cycles, state.network.buffers
    return cycles(before, buffers) - cycles([group for group in groups.values() if group.tasks], buffers)


def fits(task: Task) -> bool:
    kinds = Counter(task.kinds()) + Counter({ENGINE: len(task.engines)})
    writers = len(task.writers())
    few = writers <= MOST_WRITERS and len(task.engines) - writers <= MOST_READERS
    return few and all(count <= UNITS[kind] for kind, count in kinds.items())


def missing_evidence(task: Task, trust: Trust) -> str:
    """What of a chain may not be relied on; nothing if all of it may."""
    texts = chain_texts(task)
    if len(texts) != 1:
        return " || ".join(texts)
    found = untrusted(task, trust)
    if found is None or found.feature.name == "chain":
        return str(found.feature.value) if found else ""
    return f"{found.feature.name} {found.feature.value}, ST programs have {found.seen}"
