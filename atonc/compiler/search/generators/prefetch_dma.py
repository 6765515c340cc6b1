"""Which weights the chip's DMA shall copy ahead, and in which of its lists.

Lists begin at a few places between two programs, since the processor starts each and awaits the one before: where, is
tried for several counts, each with as much idle flash time from one place to the next. A constant goes into the latest
lists that are over before its first reader and have time for it; what it saves its readers and what the lists then
cost is counted, and it is taken if that is less than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from atonc.compiler.place.resident import on_chip_spans
from atonc.compiler.plan.policy import FETCH_BYTES, FETCH_ROUNDS, LEAST_SAVED, LIST_COUNTS, LONG_COPY_BYTES
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.generators.prefetch import Planner
from atonc.compiler.search.log import Proposal
from atonc.compiler.search.weights import Weights, in_flash, moved
from atonc.compiler.select.decisions import Copy, Fetched
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.spans import Span
from atonc.machine.hw.dma import BEAT_BYTES, BURST_BYTES, DmaCopy, Occupied, list_cycles


@dataclass(frozen=True)
class ListPart:
    """Bytes of a constant in one of the lists."""

    number: int
    offset: int
    size_bytes: int


def propose(candidate: Candidate) -> Iterator[Proposal]:
    """Nothing is copied where the lists would cost more than they bring."""
    decisions, setting = candidate.decisions, candidate.setting
    if setting.by_dma and decisions.fetched is None and not decisions.undecided:
        fetched = choose(candidate, on_chip_spans(setting.memory))
        reason = f"--prefetch dma: {len(fetched)} constants are copied ahead"
        yield Proposal(replace(decisions, fetched=tuple(fetched), by_dma=bool(fetched)), reason, candidate)


def choose(candidate: Candidate, windows: Sequence[Span]) -> list[Fetched]:
    """The best of several counts of lists and two orders of constants."""
    program, target = candidate.made.program, candidate.setting.target
    planner = Planner(program, windows, target)
    listed = [one for one in in_flash(program, target) if one.address % BEAT_BYTES == 0]
    worth = {weights: planner.worth(weights) for weights in listed}
    listed = [weights for weights in listed if worth[weights] > 0]
    best: tuple[float, list[Fetched]] = (-LEAST_SAVED, [])
    for count in LIST_COUNTS if listed else ():
        for per_byte in (False, True):
            found = Lists(candidate, windows, count)
            found.run(sorted(listed, key=lambda w: (-worth[w] / (w.size_bytes if per_byte else 1), w.address)))
            best = min(best, (found.added, found.fetched), key=lambda one: one[0])
    return sorted(best[1], key=lambda one: (one.first, one.address))


class Lists:
    """Lists that begin at given places, with the constants that they have so far; `added`: cycles, against none."""

    def __init__(self, candidate: Candidate, windows: Sequence[Span], count: int) -> None:
        self.planner = Planner(candidate.made.program, windows, candidate.setting.target)
        self.machine = candidate.setting.target.machine
        steps = candidate.cost.steps
        self.external = [one.parts.get("external", 0.0) for one in steps]
        self.idle = [Occupied(one.cycles, used).idle for one, used in zip(steps, self.external, strict=True)]
        self.begins = _places(self.idle, count)
        self.load = [0.0] * len(self.begins)  # cycles of flash that each list needs
        self.beside = [0.0] * len(self.begins)  # what it adds to the steps from its beginning to the next
        self.first = [len(steps)] * len(self.begins)  # step that reads what a list brings
        self.added = 0.0
        self.fetched: list[Fetched] = []

    def run(self, listed: Sequence[Weights]) -> None:
        rest = list(listed)
        for _ in range(FETCH_ROUNDS):
            left = [weights for weights in rest if not self._try(weights)]
            if len(left) == len(rest):
                return
            rest = left

    def _try(self, weights: Weights) -> bool:
        last = max(weights.readers) - 1
        ends = [*self.begins[1:], len(self.idle)]
        over = [n for n, end in enumerate(ends) if end <= min(weights.readers) - 1]
        if not over:
            return False
        whole = [ListPart(over[-1], 0, weights.exact_bytes)]
        for parts in (self._spread(weights, over), whole):
            first = min(self.begins[part.number] for part in parts)
            address = self.planner.room(weights, first, last)
            if address is not None and self._take(weights, parts, address):
                self.planner.taken.append((address, address + weights.size_bytes, first, last))
                copies = tuple(Copy(self.begins[part.number], part.offset, part.size_bytes) for part in parts)
                self.fetched.append(Fetched(weights.name, address, first, last, copies))
                return True
        return False

    def _spread(self, weights: Weights, over: Sequence[int]) -> list[ListPart]:
        """From the end of the constant, in the latest lists with idle time; the earliest of them takes what is left."""
        parts: list[ListPart] = []
        rest = weights.exact_bytes
        per_byte = list_cycles([DmaCopy(weights.address, 0, LONG_COPY_BYTES)], self.machine) / LONG_COPY_BYTES
        for number in reversed(over):
            begin, end = self.begins[number], [*self.begins[1:], len(self.idle)][number]
            spare = int((sum(self.idle[begin:end]) - self.load[number]) / per_byte)
            start = -(-max(0, rest - spare) // BURST_BYTES) * BURST_BYTES
            if rest - start < min(rest, FETCH_BYTES[0]):
                continue
            parts.append(ListPart(number, start, rest - start))
            rest = start
            if not rest:
                return parts
        if parts:
            parts[-1] = replace(parts[-1], offset=0, size_bytes=parts[-1].size_bytes + rest)
        return parts or [ListPart(over[-1], 0, rest)]

    def _take(self, weights: Weights, parts: Sequence[ListPart], address: int) -> bool:
        """Whether the program is then faster; if so, it is from now on."""
        epochs = {n: moved(self.planner.epochs[n], weights, n, address) for n in weights.readers}
        priced = {n: self.planner.target.cycles(epoch) for n, epoch in epochs.items()}
        saved = sum(self.planner.cycles[n] - one.cycles for n, one in priced.items())
        load, idle, external = list(self.load), list(self.idle), list(self.external)
        for n, one in priced.items():
            external[n - 1] = one.detail["external"]
            idle[n - 1] = Occupied(one.cycles, external[n - 1]).idle
        first = list(self.first)
        for part in parts:
            first[part.number] = min(first[part.number], min(weights.readers) - 1)
            transfer = DmaCopy(weights.address + part.offset, address + part.offset, part.size_bytes)
            load[part.number] += list_cycles([transfer], self.machine)
        changed = {part.number for part in parts} | {self._list_at(n - 1) for n in weights.readers}
        beside = list(self.beside)
        for number in changed:
            beside[number] = self._beside(number, load, idle, external)
        cuts = self._cuts(load, first) - self._cuts(self.load, self.first)
        added = sum(beside) - sum(self.beside) + cuts * self.machine.timing.dma_step - saved
        if added >= 0:
            return False
        self.load, self.idle, self.external, self.beside, self.first = load, idle, external, beside, first
        self.added += added
        self.planner.epochs |= epochs
        self.planner.cycles |= {n: one.cycles for n, one in priced.items()}
        return True

    def _cuts(self, load: Sequence[float], first: Sequence[int]) -> int:
        """In front of how many steps the CPU has something to do."""
        used = [number for number, cycles in enumerate(load) if cycles]
        begins = [self.begins[number] for number in used]
        waits = (min(first[n], behind) for n, behind in zip(used, (*begins[1:], len(self.idle)), strict=False))
        return len({*begins, *waits})

    def _list_at(self, step: int) -> int:
        return max(n for n, begin in enumerate(self.begins) if begin <= step)

    def _beside(
        self, number: int, load: Sequence[float], idle: Sequence[float], external: Sequence[float]
    ) -> float:
        """As `hw.dma.costs` counts it, of one list."""
        left, turns = load[number], 0.0
        end = self.begins[number + 1] if number + 1 < len(self.begins) else len(idle)
        for step in range(self.begins[number], end):
            left -= min(left, idle[step])
            if not left:
                break
            turn = min(left, external[step])
            left, turns = left - turn, turns + turn
        return left + turns


def _places(idle: Sequence[float], count: int) -> list[int]:
    """Steps in front of which a list may begin: the first one, and such that each has about as much idle time."""
    sums = list(accumulate(idle, initial=0.0))
    wanted = (sums[-1] * k / count for k in range(count))
    return sorted({next(step for step, reached in enumerate(sums) if reached >= goal) for goal in wanted})
