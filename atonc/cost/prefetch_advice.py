"""What a program should do otherwise, so that more weights can be fetched ahead.

Where networks wait for the flash at their end, its idle time in earlier epochs is what is scarce. Two things bring
more of it. Three chains side by side leave no two engines for a copy: two of them take half as long again, but the
flash then brings weights all the time. And kernels of which only a part comes in time are better read in several
epochs.

A plan without addresses: RAM counts in bytes, any part of a constant can be copied. What saves most cycles for a byte
comes first. `cost.prefetch` then plans anew, with pieces and addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from atonc.cost.prefetch import LEAST_BYTES, free_copies
from atonc.cost.resident import Weights, candidates, moved
from atonc.emit.program import Program
from atonc.hw.cycles.result import EpochCycles
from atonc.hw.cycles.target import Target
from atonc.hw.epoch import Epoch

PIECE_BYTES = 1 << 17  # of what is copied as one: larger ones find no room in RAM, and no time
CUT_CYCLES = 3000  # of one more epoch: programming, and a first set of kernels that nothing hides
COPY_CYCLES = 315  # of programming one more copy
CYCLES_FOR_ONE = 200  # of the program, for each that another round of lowering and scheduling must promise to save
WORTH_PER_BYTE = 0.25  # cycles that a copied byte must save


@dataclass(frozen=True)
class Advice:
    cuts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # kernels -> bytes where another epoch begins
    roomy: frozenset[str] = frozenset()  # operators whose epochs shall leave two engines free

    def __or__(self, other: Advice) -> Advice:
        names = dict.fromkeys((*self.cuts, *other.cuts))
        both = {name: (*self.cuts.get(name, ()), *other.cuts.get(name, ())) for name in names}
        return Advice(both, self.roomy | other.roomy)


def advise(program: Program, owners: Sequence[Sequence[str]], free: Sequence[int], target: Target) -> Advice:
    """Of each step, `owners`: the operators behind it, `free`: bytes of RAM that nobody uses."""
    plan = _Plan(program, free, target)
    wanted = sorted(plan.wanted(), key=lambda one: -one.per_byte)
    for one in wanted:
        plan.fetch(one)
    roomy = frozenset(plan.widen(wanted, owners))
    found = {one.weights.name: tuple(_pieces(one.copied, one.weights.exact_bytes)) for one in wanted}
    cut = [one for one in wanted if found[one.weights.name]]
    saved = plan.won + sum(one.per_byte * one.copied - CUT_CYCLES for one in cut)
    if saved * CYCLES_FOR_ONE < sum(cost.cycles for cost in plan.costs.values()):
        return Advice()
    return Advice({one.weights.name: found[one.weights.name] for one in cut}, roomy)


def _pieces(copied: int, size: int) -> Iterator[int]:
    count = -(-copied // PIECE_BYTES)
    yield from (copied * k // count for k in range(1, count))
    if 0 < copied < size:
        yield copied


@dataclass
class _Step:
    """Of a program that changes."""

    idle_bytes: int = 0  # that the flash could bring meanwhile
    free_bytes: int = 0  # of RAM
    copies: bool = False


@dataclass
class _Wanted:
    """Weights that one step waits for."""

    weights: Weights
    number: int
    per_byte: float  # cycles that a byte in RAM saves
    copied: int = 0

    @property
    def missing(self) -> int:
        return self.weights.exact_bytes - self.copied


class _Plan:
    def __init__(self, program: Program, free: Sequence[int], target: Target) -> None:
        self.program, self.target, self.rate = program, target, target.machine.flash_byte_cycles
        npu = [(step.number, step.epoch) for step in program.steps if step.epoch is not None]
        self.epochs = {number: target.with_words(epoch) for number, epoch in npu}
        self.costs = {number: target.cycles(epoch) for number, epoch in self.epochs.items()}
        self.won = 0.0  # cycles, by fewer chains at a time
        self.steps = {}
        for step, room in zip(program.steps, free, strict=True):
            roomy = step.epoch is not None and free_copies(step.epoch) > 0
            self.steps[step.number] = _Step(self._idle_bytes(self.costs[step.number]) if roomy else 0, room)

    def _idle_bytes(self, cost: EpochCycles, longer: float = 1.0) -> int:
        parts = cost.detail
        return int(max(0.0, longer * parts.get("core", 0.0) - parts.get("external", 0.0)) / self.rate)

    def wanted(self) -> Iterator[_Wanted]:
        for weights in candidates(self.program, self.target):
            if len(weights.readers) == 1:
                number = next(iter(weights.readers))
                in_ram = moved(self.epochs[number], weights, number, self.target.machine.npu_ram[0].base)
                saved = self.costs[number].cycles - self.target.cycles(in_ram).cycles
                if saved > WORTH_PER_BYTE * weights.exact_bytes:
                    yield _Wanted(weights, number, saved / weights.exact_bytes)

    def fetch(self, one: _Wanted) -> None:
        """As much of it as idle time and RAM allow, if that pays."""
        found = self._slots(one)
        copied = sum(found.values())
        programs = COPY_CYCLES * sum(not self.steps[at].copies for at in found)
        price = programs + (CUT_CYCLES if copied < one.missing else 0)
        if copied * one.per_byte > price:
            for at, some in found.items():
                self._take(one, at, some)

    def _take(self, one: _Wanted, at: int, some: int) -> None:
        one.copied += some
        self.steps[at].idle_bytes -= some
        self.steps[at].copies = True
        for number in range(at, one.number + 1):
            self.steps[number].free_bytes -= some

    def _room(self, at: int, number: int) -> int:
        return min(self.steps[between].free_bytes for between in range(at, number + 1))

    def _slots(self, one: _Wanted) -> dict[int, int]:
        """Step -> bytes that it copies, the latest first."""
        found: dict[int, int] = {}
        rest, room = one.missing, self.steps[one.number].free_bytes
        for at in range(one.number - 1, 0, -1):
            room = min(room, self.steps[at].free_bytes)
            some = min(rest, self.steps[at].idle_bytes, room - (one.missing - rest))
            if some >= min(rest, LEAST_BYTES):
                found[at] = some
                rest -= some
            if rest == 0 or room <= one.missing - rest:
                break
        return found

    def widen(self, wanted: Sequence[_Wanted], owners: Sequence[Sequence[str]]) -> Iterator[str]:
        """Operators whose chains shall be fewer at a time, the last ones first: what they let the flash bring must save
        more than they lose."""
        crowded: dict[str, list[int]] = {}
        for number, epoch in self.epochs.items():
            if not free_copies(epoch) and _chains(epoch) > 1 and len(set(owners[number - 1])) == 1:
                crowded.setdefault(owners[number - 1][0], []).append(number)
        for op, numbers in reversed(crowded.items()):
            chains = sum(_chains(self.epochs[number]) for number in numbers)
            longer = -(-chains // 2) / len(numbers)
            lost = sum((longer - 1) * self.costs[number].cycles for number in numbers)
            plan = list(self._filled(wanted, {n: self._idle_bytes(self.costs[n], longer) for n in numbers}))
            won = sum(some * one.per_byte for one, _, some in plan) - lost - COPY_CYCLES * longer * len(numbers)
            if won > 0:
                self.won += won
                yield op
                for one, at, some in plan:
                    self._take(one, at, some)

    def _filled(self, wanted: Sequence[_Wanted], room: Mapping[int, int]) -> Iterator[tuple[_Wanted, int, int]]:
        """What such steps would copy: weights that are missing later, those that save most first."""
        missing = {one.weights.name: one.missing for one in wanted}
        for at, idle in room.items():
            for one in wanted:
                rest = missing[one.weights.name]
                some = min(idle, rest, self._room(at, one.number)) if rest and one.number > at else 0
                if some and some >= min(rest, LEAST_BYTES):
                    yield one, at, some
                    idle -= some
                    missing[one.weights.name] -= some


def _chains(epoch: Epoch) -> int:
    """Side by side: each has a writer."""
    return len(epoch.writers())
