"""Three chains side by side leave no two engines for a copy. Two of them take half as long again, but the flash then
brings weights of later layers all the time."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.place.resident import on_chip_spans
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.generators.prefetch import Planner, free_copies
from atonc.compiler.search.log import Proposal
from atonc.compiler.search.weights import in_flash


def propose(candidate: Candidate) -> Iterator[Proposal]:
    if candidate.setting.by_engines:
        ops = frozenset(worth_reserving(candidate)) - candidate.decisions.reserved
        if ops:
            reason = f"later layers wait for the flash: {len(ops)} operators leave engines for copies"
            reserved = candidate.decisions.reserved | ops
            yield Proposal(candidate.decisions.but(reserved=reserved), reason, candidate)


def worth_reserving(candidate: Candidate) -> Iterator[str]:
    """Operators whose chains shall be fewer at a time, the last ones first: what they let the flash bring must save
    more than they lose."""
    made, target = candidate.made, candidate.setting.target
    planner = Planner(made.program, on_chip_spans(candidate.setting.memory), target)
    missing = {weights: weights.exact_bytes for weights in in_flash(made.program, target)}
    rates = {weights: planner.worth(weights) / weights.exact_bytes for weights in missing}
    crowded: dict[str, list[int]] = {}
    for number, epoch in planner.epochs.items():
        if not free_copies(epoch):
            crowded.setdefault(made.scheduled.schedule.owners[number - 1], []).append(number)
    for op, numbers in reversed(crowded.items()):
        chains = sum(len(planner.epochs[number].writers()) for number in numbers)
        longer = -(-chains // 2) / len(numbers)
        won = -sum((longer - 1) * planner.cycles[number] for number in numbers)
        idle = sum(planner.idle_bytes(planner.epochs[number], longer) for number in numbers)
        for weights in sorted(missing, key=lambda one: -rates[one]):
            if min(weights.readers) > numbers[-1] and idle > 0:
                some = min(idle, missing[weights])
                won, idle = won + some * rates[weights], idle - some
        if won > 0:
            yield op
