"""Epochs that do not depend on each other become one, also those of different operators, where the cycle model says
that it pays: branches of a network, groups of channels of one layer.

An epoch moves back into one of the last few before it, past those that it has nothing to do with. What it writes then
lives longer, which may not raise the peak of live bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atonc.plan.task import Task
from atonc.plan.types import Buffer, BufferKind, CpuPlan
from atonc.schedule.pack import apart, fits, units_of
from atonc.schedule.types import EpochOfTasks, Schedule, Step
from atonc.select.policy import NEARLY, PACK_REACH


@dataclass(frozen=True)
class Network:
    """What a pass must know of tasks: sizes of the buffers, which of them lie in the memory of another one, and what
    tasks take side by side."""

    buffers: Mapping[str, Buffer]
    aliases: Mapping[str, str]
    cycles: Callable[[Sequence[Task]], int]

    def root(self, name: str) -> str:
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def live_bytes(self, name: str) -> int:
        buffer = self.buffers[name]
        return 0 if buffer.kind == BufferKind.CONSTANT else buffer.size_bytes


def pack_ops(schedule: Schedule, network: Network) -> Schedule:
    lives = _Lives(schedule.steps, network)
    slots: list[_Slot] = []
    for number, step in enumerate(schedule.steps):
        slot = _Slot.of(number, step, network)
        place, joined = _home(slot, slots, lives, network)
        if joined is None:
            slots.append(slot)
        else:
            lives.move(slot, joined)
            slots[place] = joined
    return Schedule(tuple(slot.step for slot in slots))


@dataclass(frozen=True)
class _Slot:
    """A step of the schedule as it becomes, and what it touches."""

    number: int  # of the step that it began as
    step: Step
    reads: frozenset[str]  # memories
    writes: frozenset[str]
    cycles: int = 0

    @staticmethod
    def of(number: int, step: Step, network: Network) -> _Slot:
        reads, writes = (frozenset(map(network.root, names)) for names in _touched(step))
        cycles = 0 if isinstance(step, CpuPlan) else network.cycles(step.tasks)
        return _Slot(number, step, reads, writes, cycles)

    @property
    def tasks(self) -> tuple[Task, ...]:
        return () if isinstance(self.step, CpuPlan) else self.step.tasks

    def beside(self, other: _Slot, network: Network) -> _Slot:
        """Both in one epoch."""
        assert isinstance(self.step, EpochOfTasks) and isinstance(other.step, EpochOfTasks)
        step = EpochOfTasks((*self.tasks, *other.tasks), (*self.step.ops, *other.step.ops))
        touched = self.reads | other.reads, self.writes | other.writes
        return _Slot(self.number, step, *touched, network.cycles(step.tasks))


def _touched(step: Step) -> tuple[set[str], set[str]]:
    if isinstance(step, CpuPlan):
        return step.reads(), step.writes()
    reads = {use.buffer for task in step.tasks for use in task.readers()}
    return reads, {use.buffer for task in step.tasks for use in task.writers()}


def _home(slot: _Slot, slots: Sequence[_Slot], lives: _Lives, network: Network) -> tuple[int, _Slot | None]:
    """Which epoch it joins, and what that becomes: the first that saves nearly as much as the best one, so that what
    follows the slot can move as far."""
    found = []
    for k in _reachable(slot, slots):
        if _fit_together(slot, slots[k]) and not lives.grow(slot, slots[k]):
            joined = slots[k].beside(slot, network)
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
    return bool(one.writes & other.writes) and not _all_apart(one.tasks, other.tasks)


def _all_apart(tasks: Sequence[Task], others: Sequence[Task]) -> bool:
    return all(apart(one, other) for one in tasks for other in others)


def _fit_together(one: _Slot, other: _Slot) -> bool:
    needed: Counter[str] = Counter()
    for task in one.tasks:
        needed += units_of(task)
    used: Counter[str] = Counter()
    for task in other.tasks:
        used += units_of(task)
    return fits(needed, used)


class _Lives:
    """Bytes that are alive at every step: each buffer from the first to the last step that touches it."""

    def __init__(self, steps: Sequence[Step], network: Network) -> None:
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for number, step in enumerate(steps):
            for name in map(network.root, sorted(set().union(*_touched(step)))):
                first.setdefault(name, number)
                last[name] = number
        self.bytes = np.zeros(len(steps), np.int64)
        self._begun = Counter[int]()  # bytes of what a step writes first
        for name, number in first.items():
            self.bytes[number : last[name] + 1] += network.live_bytes(name)
            self._begun[number] += network.live_bytes(name)
        self._peak = int(self.bytes.max(initial=0))

    def grow(self, slot: _Slot, home: _Slot) -> bool:
        """Whether the peak is higher if what a step writes begins to live where it moves to."""
        between = self.bytes[home.number : slot.number]
        return bool(between.max(initial=0) + self._begun[slot.number] > self._peak)

    def move(self, slot: _Slot, home: _Slot) -> None:
        self.bytes[home.number : slot.number] += self._begun[slot.number]
        self._begun[home.number] += self._begun.pop(slot.number, 0)
