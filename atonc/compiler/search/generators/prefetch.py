"""Which weights are worth fetching ahead: copied from flash by idle engines, in epochs that leave the flash idle.

Early layers compute long and read few weights, late ones wait for the flash; so weights are fetched tens of epochs
before they are read, and need RAM for that long. Every choice is priced by the calibrated model on the epochs as they
would be: those that copy, and those that read the copy. Slots are taken from the latest backwards, which keeps the RAM
busy for the shortest time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from atonc.compiler.emit.program import Program
from atonc.compiler.place.resident import on_chip_spans
from atonc.compiler.plan.interfaces import Interfaces
from atonc.compiler.plan.policy import FETCH_BYTES, FETCH_ROUNDS, MOST_FETCHES
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal
from atonc.compiler.search.weights import Weights, in_flash, moved
from atonc.compiler.select.decisions import Copy, Fetched
from atonc.machine.base.spans import Span, gaps
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import CPU_CACHE_LINE, MOST_READERS, MOST_WRITERS, UNITS
from atonc.machine.hw.target import Target
from atonc.machine.hw.units.switch import Link

_LINE = CPU_CACHE_LINE
Key = Callable[[Weights], tuple[float, ...]]


Taken = list[tuple[int, int, int, int]]  # first address, the one behind, first step, last step


def propose(candidate: Candidate) -> Iterator[Proposal]:
    decisions, setting = candidate.decisions, candidate.setting
    first = decisions.undecided  # what stays leaves less room, but needs no engines
    if setting.by_engines and decisions.fetched is None and not first:
        fetched = choose(candidate.made.program, on_chip_spans(setting.memory), setting.target)
        reason = f"--schedule-with prefetch: {len(fetched)} constants are copied ahead"
        yield Proposal(replace(decisions, fetched=()), "weights stay where they are", candidate)
        yield Proposal(replace(decisions, fetched=tuple(fetched)), reason, candidate)


def choose(program: Program, windows: Sequence[Span], target: Target) -> list[Fetched]:
    """The better of two orders. Epochs have engines for one copy or two, so small constants that come first leave
    little for large ones: what saves most comes first, or the largest of what saves about as much per byte."""
    listed = list(in_flash(program, target))
    plain = Planner(program, windows, target)
    worth = {weights.name: plain.worth(weights) for weights in listed}
    listed = [weights for weights in listed if worth[weights.name] > 0]
    found = []
    per_byte = {weights.name: worth[weights.name] / weights.size_bytes for weights in listed}
    keys: tuple[Key, ...] = (
        lambda w: (-worth[w.name],),
        lambda w: (-round(per_byte[w.name]), -w.size_bytes),
    )
    for key in keys:
        planner = Planner(program, windows, target)
        planner.run(listed, key)
        found.append(planner)
    best = min(found, key=lambda planner: sum(planner.cycles.values()))
    return sorted(best.fetched, key=lambda one: (one.first, one.address))


class Planner:
    """Epochs with the copies that are chosen so far, and the RAM that they take."""

    def __init__(self, program: Program, windows: Sequence[Span], target: Target) -> None:
        self.target, self.windows = target, windows
        self.epochs = {step.number: target.with_words(step.epoch) for step in program.steps if step.epoch is not None}
        self.cycles = {number: self._cycles(epoch) for number, epoch in self.epochs.items()}
        homes = (home for home in program.placed.values() if not home.user_allocated)
        self.taken: Taken = [(h.address // _LINE * _LINE, _up(h.end), h.first, h.last) for h in homes]
        self.fetched: list[Fetched] = []
        self.spare: dict[int, int] = {}  # number of the epoch -> bytes that the flash could bring meanwhile
        self.per_byte = target.machine.flash_byte_cycles

    def run(self, listed: Sequence[Weights], key: Key) -> None:
        rest = sorted(listed, key=lambda weights: (key(weights), weights.address))
        for _ in range(FETCH_ROUNDS):
            left = [weights for weights in rest if not self._try(weights)]
            if len(left) == len(rest):
                return
            rest = left

    def worth(self, weights: Weights) -> float:
        """Cycles that a copy in the fastest place would save its readers."""
        address = self.windows[-1][0] if self.windows else 0
        return sum(self.cycles[n] - self._cycles(moved(self.epochs[n], weights, n, address)) for n in weights.readers)

    def _try(self, weights: Weights) -> bool:
        copies = self._slots(weights)
        if not copies:
            return False
        first, last = min(copy.step for copy in copies), max(weights.readers) - 1
        address = self.room(weights, first, last)
        if address is None:
            return False
        changed = {
            copy.step + 1: with_copy(self.epochs[copy.step + 1], weights, copy, address, self.target)
            for copy in copies
        }
        changed |= {n: moved(self.epochs[n], weights, n, address) for n in weights.readers}
        cycles = {number: self._cycles(epoch) for number, epoch in changed.items()}
        if sum(cycles.values()) >= sum(self.cycles[number] for number in changed):
            return False
        self.epochs |= changed
        self.cycles |= cycles
        for number in changed:
            self.spare.pop(number, None)
        self.taken.append((address, address + weights.size_bytes, first, last))
        self.fetched.append(Fetched(weights.name, address, first, last, tuple(copies)))
        return True

    def _slots(self, weights: Weights) -> list[Copy]:
        """Parts in the latest epochs before the first reader that have time for them; none if they do not suffice."""
        found: list[Copy] = []
        rest = weights.exact_bytes  # copied from the end; parts begin where writers may start
        least = max(FETCH_BYTES[0], rest // MOST_FETCHES)
        for number in range(min(weights.readers) - 1, 0, -1):
            start = _up(max(0, rest - self._spare_bytes(number)))
            if rest - start < min(rest, least):
                continue
            found.append(Copy(number - 1, start, rest - start))
            rest = start
            if rest == 0 or len(found) == MOST_FETCHES:
                break
        return found if rest == 0 else []

    def _spare_bytes(self, number: int) -> int:
        """What the flash could bring while the epoch does something else."""
        if number not in self.spare:
            epoch = self.epochs.get(number)
            self.spare[number] = 0 if epoch is None or not free_copies(epoch) else self.idle_bytes(epoch)
        return self.spare[number]

    def idle_bytes(self, epoch: Epoch, longer: float = 1.0) -> int:
        """What the flash could bring beside an epoch, if that took so many times as long."""
        parts = self.target.cycles(epoch).detail
        idle = longer * parts.get("core", 0.0) - parts.get("external", 0.0)
        return min(FETCH_BYTES[1], int(max(0.0, idle) / self.per_byte))

    def take_idle(self, weights: Weights) -> int:
        """Bytes of a constant that the flash could bring before its first reader; others find less then."""
        rest = weights.exact_bytes
        for number in range(min(weights.readers) - 1, 0, -1):
            some = min(rest, self._spare_bytes(number))
            if some >= FETCH_BYTES[0]:
                self.spare[number] -= some
                rest -= some
        return weights.exact_bytes - rest

    def room(self, weights: Weights, first: int, last: int) -> int | None:
        """The tightest gap that is free all the time, the NPU's own RAM last: most buffers want to be there."""
        busy = sorted((low, high) for low, high, start, end in self.taken if start <= last and end >= first)
        sized = [(high - low, low) for window in self.windows for low, high in gaps(window, busy)]
        fitting = [(size, low) for size, low in sized if size >= weights.size_bytes]
        if not weights.anywhere:
            fitting = [(size, low) for size, low in fitting if self._npu_ram(low)]
        return min(fitting)[1] if fitting else None

    def _npu_ram(self, address: int) -> bool:
        bank = self.target.machine.memory_at(address)
        return bank is not None and bank.kind == "npu_ram"

    def _cycles(self, epoch: Epoch) -> int:
        return self.target.cycles(epoch).cycles


def free_copies(epoch: Epoch) -> int:
    """How many more there are engines for."""
    readers, writers = len(epoch.readers()), len(epoch.writers())
    return min((UNITS["STRENG"] - readers - writers) // 2, MOST_READERS - readers, MOST_WRITERS - writers)


def with_copy(epoch: Epoch, weights: Weights, copy: Copy, address: int, target: Target) -> Epoch:
    """As `bind` will make it, close enough for a price."""
    read = contiguous(copy.size_bytes, offset=weights.address + copy.offset)
    written = contiguous(copy.size_bytes, write=True, offset=address + copy.offset)
    free = Interfaces(epoch.engines())
    reader, writer = free.give(read), free.give(written)
    units = {**epoch.units, reader: read, writer: written}
    links = (*epoch.links, Link(reader, writer, 0))
    changed = replace(epoch, units=units, links=links, waits=tuple(sorted((*epoch.waits, writer))))
    return target.with_words(changed)


def _up(address: int) -> int:
    return -(-address // _LINE) * _LINE
