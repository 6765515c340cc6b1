"""Epochs that do not depend on each other become one, also those of different operators, where the cycle model says
that it pays: branches of a network, groups of channels of one layer.

An epoch moves back into one of the last few before it, past those that it has nothing to do with. What it writes then
lives longer, which may not raise the peak of live bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.co_scheduling import may_share_epoch
from atonc.compiler.plan.policy import NEARLY, PACK_REACH
from atonc.compiler.plan.task import Task, tasks_of
from atonc.compiler.plan.types import Buffer, CpuPlan
from atonc.compiler.schedule.lives import Lives
from atonc.compiler.schedule.pack import apart, fits, packed, units_of
from atonc.compiler.schedule.types import CoScheduled, EpochOfTasks, LoweredOperator, Schedule, Step
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust

ENGINES_OF_COPY = 2


@dataclass(frozen=True)
class TaskNetwork:
    """What a pass must know of tasks: sizes of the buffers, which of them lie in the memory of another one, and what
    tasks take side by side."""

    buffers: Mapping[str, Buffer]
    aliases: Mapping[str, str]
    cycles: Callable[[Sequence[Task]], int]
    reserve_copy_engines: frozenset[str] = frozenset()  # operators whose epochs leave the engines of a copy
    trust: Trust = PUBLISHED
    alone: frozenset[str] = frozenset()  # operators whose tasks share no epoch

    def epochs(self, work: LoweredOperator) -> list[tuple[Task, ...]]:
        """Packs one operator into epochs."""
        if work.op in self.alone:
            return [(task,) for task in tasks_of(work.groups)]
        return packed(work.groups, self.trust, self.spare([work.op]))

    def spare(self, ops: Iterable[str]) -> int:
        """Engines that an epoch of these operators leaves."""
        return 0 if self.reserve_copy_engines.isdisjoint(ops) else ENGINES_OF_COPY

    def root(self, name: str) -> str:
        return root(name, self.aliases)


def pack_ops(schedule: Schedule, network: TaskNetwork) -> Schedule:
    moves = _Moves(schedule.steps, network)
    slots: list[_Slot] = []
    co_scheduled: list[CoScheduled] = []
    for number, step in enumerate(schedule.steps):
        slot = _Slot.of(number, step, network)
        place, joined = _home(slot, slots, moves, network)
        if joined is None:
            slots.append(slot)
        else:
            moves.move(slot, joined)
            co_scheduled.append(
                CoScheduled(slot.ops, slots[place].ops, slot.cycles + slots[place].cycles - joined.cycles)
            )
            slots[place] = joined
    return Schedule(tuple(slot.step for slot in slots), co_scheduled=tuple(co_scheduled))


@dataclass(frozen=True)
class _Slot:
    """A step of the schedule as it becomes, and what it touches."""

    number: int  # of the step that it began as
    step: Step
    reads: frozenset[str]  # memories
    writes: frozenset[str]
    price: Callable[[Sequence[Task]], int]

    @staticmethod
    def of(number: int, step: Step, network: TaskNetwork) -> _Slot:
        reads, writes = (frozenset(map(network.root, names)) for names in _touched(step))
        return _Slot(number, step, reads, writes, network.cycles)

    @cached_property
    def cycles(self) -> int:
        """Worked out when somebody asks: most epochs cannot join another one."""
        return self.price(self.tasks) if self.tasks else 0

    @cached_property
    def units(self) -> Counter[str]:
        found = Counter[str]()
        for task in self.tasks:
            found.update(units_of(task))
        return found

    @property
    def tasks(self) -> tuple[Task, ...]:
        return () if isinstance(self.step, CpuPlan) else self.step.tasks

    @property
    def ops(self) -> tuple[str, ...]:
        return (self.step.op,) if isinstance(self.step, CpuPlan) else tuple(dict.fromkeys(self.step.ops))

    def co_scheduled(self, other: _Slot) -> _Slot:
        """Both in one epoch."""
        assert isinstance(self.step, EpochOfTasks) and isinstance(other.step, EpochOfTasks)
        step = EpochOfTasks((*self.tasks, *other.tasks), (*self.step.ops, *other.step.ops))
        touched = self.reads | other.reads, self.writes | other.writes
        return _Slot(self.number, step, *touched, self.price)


def _touched(step: Step) -> tuple[set[str], set[str]]:
    if isinstance(step, CpuPlan):
        return step.reads(), step.writes()
    reads = {use.buffer for task in step.tasks for use in task.readers()}
    return reads, {use.buffer for task in step.tasks for use in task.writers()}


def _home(slot: _Slot, slots: Sequence[_Slot], moves: _Moves, network: TaskNetwork) -> tuple[int, _Slot | None]:
    """Which epoch it joins, and what that becomes: the first that saves nearly as much as the best one, so that what
    follows the slot can move as far."""
    found = []
    for k in _reachable(slot, slots):
        if _fit_together(slot, slots[k], network) and not moves.grow(slot, slots[k]):
            joined = slots[k].co_scheduled(slot)
            found.append((k, joined, slot.cycles + slots[k].cycles - joined.cycles))
    most = max((saved for _, _, saved in found), default=0)
    good = [(k, joined) for k, joined, saved in found if saved > NEARLY * most > 0]
    return good[-1] if good else (0, None)  # the last one lies farthest back


def _reachable(slot: _Slot, slots: Sequence[_Slot]) -> Iterator[int]:
    """Epochs before it, the last one first, as far as nothing in between has to do with it. The CPU waits for all
    before it, and all behind it wait for the CPU."""
    for k in range(len(slots) - 1, max(-1, len(slots) - 1 - PACK_REACH), -1):
        if not slot.tasks or not slots[k].tasks or _depend(slot, slots[k]):
            return
        yield k


def _depend(one: _Slot, other: _Slot) -> bool:
    if one.reads & other.writes or one.writes & other.reads:
        return True
    return bool(one.writes & other.writes) and not all(apart(a, b) for a in one.tasks for b in other.tasks)


def _fit_together(one: _Slot, other: _Slot, network: TaskNetwork) -> bool:
    if not network.alone.isdisjoint((*one.ops, *other.ops)):
        return False
    room = fits(one.units, other.units, network.spare((*one.ops, *other.ops)))
    return room and may_share_epoch((*other.tasks, *one.tasks), network.trust)


class _Moves:
    """What steps write first begins to live where they move to."""

    def __init__(self, steps: Sequence[Step], network: TaskNetwork) -> None:
        self.lives = Lives((set().union(*_touched(step)) for step in steps), network.buffers, network.aliases)
        self._begun = Counter[int]()  # bytes of what a step writes first
        for name, number in self.lives.first.items():
            self._begun[number] += self.lives.size_bytes(name)

    def grow(self, slot: _Slot, home: _Slot) -> bool:
        """Whether the peak of live bytes becomes higher."""
        return self.lives.grows(self._begun[slot.number], home.number, slot.number)

    def move(self, slot: _Slot, home: _Slot) -> None:
        self.lives.begin(self._begun[slot.number], home.number, slot.number)
        self._begun[home.number] += self._begun.pop(slot.number, 0)
