"""Which weights are worth RAM for the whole run: the most cycles saved for every byte, by the calibrated model.

An epoch takes as long as the slower of its flash reads and everything else, so the first weights that leave the flash
bring more than the last: after every choice the others are weighed again. Gains only shrink as the set grows, so the
best candidate of the last round is weighed again first, and taken if it is still the best. Room that stays is for a
part of the next kernel (`cut_kernels`). Once there are such parts, small ones of a better rate could take their room:
then the choice that begins with the largest gains is weighed beside it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from atonc.compiler.emit.program import Program
from atonc.compiler.place.resident import free_spans
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.generators.near_forms import lowered_for
from atonc.compiler.search.log import Proposal
from atonc.compiler.search.weights import Weights, in_flash, moved
from atonc.compiler.select.decisions import FIRST
from atonc.machine.base.spans import Span
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import ALIGNED
from atonc.machine.hw.machine import secure
from atonc.machine.hw.safety.evidence import GradedForm, reader_forms
from atonc.machine.hw.safety.view import EpochView, SafetyContext
from atonc.machine.hw.target import Target

Worth = Callable[[float, int], float]  # of cycles saved and bytes taken


def by_rate(saved: float, size_bytes: int) -> float:
    return saved / size_bytes


def by_gain(saved: float, size_bytes: int) -> float:
    return saved


def propose(candidate: Candidate) -> Iterator[Proposal]:
    if candidate.decisions.undecided:
        setting = candidate.setting
        free = free_spans(candidate.made.layout.placed, setting.memory)
        room, program = budget(candidate, free), candidate.made.program
        orders = (by_rate, by_gain) if candidate.decisions.cuts else (by_rate,)
        choices = [choose(program, free, room, setting.target, order) for order in orders]
        homes = min(choices, key=lambda choice: choice[0])[1]
        reason = f"--resident: {len(homes)} constants stay in RAM"
        if candidate.decisions == FIRST.but(resident_bytes=candidate.decisions.resident_bytes):
            weights = list(in_flash(program, setting.target))
            scarce = sum(one.size_bytes for one in weights) > room
            near = homes if scarce and not setting.by_dma else {one.name for one in weights}
            yield from lowered_for(candidate, near, scarce)
        yield Proposal(replace(candidate.decisions, resident=homes), reason, candidate)


def budget(candidate: Candidate, free: Sequence[Span]) -> int:
    """Bytes for weights that stay in RAM, beside those that are there."""
    kept = sum(home.buffer.size_bytes for home in candidate.made.layout.placed.values() if home.copy_of)
    room = sum(end - start for start, end in free) - candidate.setting.options.keep_free
    return max(0, min(room, candidate.decisions.resident_bytes - kept))


def choose(
    program: Program, free: Sequence[Span], budget: int, target: Target, worth: Worth
) -> tuple[int, dict[str, int]]:
    """Cycles of the epochs, and constant -> address of its copy: what is worth most first, as long as there is room."""
    prices, spans, chosen = Prices(program, target), list(free), dict[str, int]()
    queue: list[tuple[float, int]] = []
    listed = [weights for weights in in_flash(program, target) if weights.size_bytes <= budget]
    for number, weights in enumerate(listed):
        queue.append((-worth(prices.bound(weights), weights.size_bytes), number))
    heapq.heapify(queue)
    while queue:
        _, number = heapq.heappop(queue)
        weights = listed[number]
        best = prices.best_place(weights, spans) if weights.size_bytes <= budget else None
        if best is None or best[0] <= 0:
            continue
        rate = -worth(best[0], weights.size_bytes)
        if queue and rate > queue[0][0]:
            heapq.heappush(queue, (rate, number))
            continue
        chosen[weights.name] = best[1]
        prices.move(weights, best[1])
        budget -= weights.size_bytes
        spans = _without(spans, best[1], best[1] + weights.size_bytes)
    return prices.total(), dict(sorted(chosen.items(), key=lambda item: item[1]))


def outlook(program: Program, free: Sequence[Span], room: int, target: Target) -> tuple[int, int]:
    """Cycles that weights in RAM would save, and their bytes: those that are read fastest per byte first, each where
    it fits first. The search weighs every choice, so it finds as much or more."""
    prices, spans, taken = Prices(program, target), list(free), 0
    before = prices.total()
    for weights in sorted(in_flash(program, target), key=lambda one: -prices.bound(one) / one.size_bytes):
        address = prices.first_place(weights, spans)
        if address is not None and taken + weights.size_bytes <= room:
            prices.move(weights, address)
            taken += weights.size_bytes
            spans = _without(spans, address, address + weights.size_bytes)
    return before - prices.total(), taken


class Prices:
    """Epochs with the copies that are chosen so far; what one takes is worked out when somebody asks."""

    def __init__(self, program: Program, target: Target) -> None:
        self.target, self.machine = target, target.machine
        self.epochs = {step.number: target.with_words(step.epoch) for step in program.steps if step.epoch is not None}
        self._known: dict[tuple[str, str], bool] = {}  # by weights and kind of memory
        self._moved: dict[tuple[str, int, tuple[int, int]], tuple[Epoch, int]] = {}  # what a reader takes with a copy

    def bound(self, weights: Weights) -> float:
        """No set of others makes these save more: as many cycles as their epochs take."""
        return sum(self._cycles(self.epochs[number]) for number in weights.readers)

    def total(self) -> int:
        return sum(map(self._cycles, self.epochs.values()))

    def best_place(self, weights: Weights, spans: Sequence[Span]) -> tuple[float, int] | None:
        """Cycles saved and the address: among equals the tightest span, so that room for large ones stays."""
        found: list[tuple[float, int, int]] = []
        for start, end in spans:
            for address in self._starts(start, end, weights.size_bytes):
                if self._takes(weights, address):
                    found.append((-self.saved(weights, address), end - start, address))
        places = ((-saved, address) for saved, _, address in sorted(found) if self._trusted(weights, address))
        return next(places, None)

    def first_place(self, weights: Weights, spans: Sequence[Span]) -> int | None:
        starts = (place for start, end in spans for place in self._starts(start, end, weights.size_bytes))
        return next((place for place in starts if self._takes(weights, place) and self._trusted(weights, place)), None)

    def move(self, weights: Weights, address: int) -> None:
        for number in weights.readers:
            self.epochs[number] = moved(self.epochs[number], weights, number, address)

    def saved(self, weights: Weights, address: int) -> float:
        before = sum(self._cycles(self.epochs[number]) for number in weights.readers)
        return before - sum(self._with_copy(weights, number, address) for number in weights.readers)

    def _with_copy(self, weights: Weights, number: int, address: int) -> int:
        """All places of one bank that are aligned alike cost alike."""
        banks = [self.machine.memory_at(place) for place in (address, address + weights.size_bytes - 1)]
        alike = (banks[0].base, address % ALIGNED) if banks[0] and banks[0] == banks[1] else (address, 0)
        key, epoch = (weights.name, number, alike), self.epochs[number]
        known = self._moved.get(key)
        if known is None or known[0] is not epoch:
            known = self._moved[key] = epoch, self._cycles(moved(epoch, weights, number, address))
        return known[1]

    def _trusted(self, weights: Weights, address: int) -> bool:
        """Whether kernels may come from there: only forms that the move brings count."""
        bank = self.machine.memory_at(address)
        key = weights.name, bank.kind if bank else ""
        if key not in self._known:
            self._known[key] = all(self._takes_move(weights, number, address) for number in weights.readers)
        return self._known[key]

    def _takes_move(self, weights: Weights, number: int, address: int) -> bool:
        before, readers = self.epochs[number], weights.readers[number]
        found = self._distrusted(moved(before, weights, number, address), readers)
        return not found or found <= self._distrusted(before, readers)

    def _distrusted(self, epoch: Epoch, readers: Sequence[str]) -> set[GradedForm]:
        """Forms of these readers that the user does not trust."""
        trust = self.target.trust
        forms = reader_forms(EpochView(epoch, SafetyContext(trust=trust)), readers)
        return {form for form in forms if not trust.allows(form.graded)}

    def _cycles(self, epoch: Epoch) -> int:
        return self.target.cycles(epoch).cycles

    def _starts(self, start: int, end: int, size: int) -> Iterator[int]:
        """The beginning of the span and of every bank in it."""
        apart = secure(start) - start  # in the non-secure state banks have other addresses
        borders = [bank.base - apart for bank in self.machine.memories if start < bank.base - apart < end]
        yield from (address for address in (start, *borders) if address + size <= end)

    def _takes(self, weights: Weights, address: int) -> bool:
        """Only the NPU's own RAM is read from addresses that are not aligned."""
        banks = [self.machine.memory_at(place) for place in (address, address + weights.size_bytes - 1)]
        return weights.anywhere or all(bank is not None and bank.kind == "npu_ram" for bank in banks)


def _without(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    found: list[Span] = []
    for low, high in spans:
        parts = ((low, min(high, start)), (max(low, end), high))
        found += [(a, b) for a, b in parts if b > a] if low < end and high > start else [(low, high)]
    return found
