"""Which jobs of a layer share an epoch, and how many of its lanes each gets, so that all lanes end together.

Groups of channels have shifts of their own, so a chain does one group. Side by side as they are, the longest lets the
other lanes wait, and groups that meet in a word of the bus cannot stand side by side at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

from atonc.compiler.plan.policy import EPOCH_CYCLES
from atonc.compiler.plan.streams import Area
from atonc.machine.hw.limits import BUS_BYTES

T = TypeVar("T")


class Work(NamedTuple):
    """Cycles of a job in one lane: of its units, which are fewer with more lanes, and of the memory that all read."""

    unit_cycles: int
    bank_cycles: int


Lanes = Mapping[int, int]  # of an epoch: job -> how many it gets


def even_epochs(works: Sequence[Work], lanes: int, meet: Callable[[int, int], bool]) -> list[Lanes]:
    """Epoch by epoch with the longest job that is left: alone, or beside others where that is more work a cycle."""
    left = sorted(range(len(works)), key=lambda job: -works[job].unit_cycles)
    found: list[Lanes] = []
    while left:
        found.append(min(_epochs_with(left, works, lanes, meet), key=lambda epoch: _pace(epoch, works)))
        left = [job for job in left if job not in found[-1]]
    return found


def epochs_cycles(epochs: Sequence[Lanes], works: Sequence[Work]) -> float:
    """A bound that knows no banks, as for tilings: there are no tasks yet."""
    return sum(_longest(epoch, works) + EPOCH_CYCLES for epoch in epochs)


def in_turns(
    cut: Callable[[int], Sequence[T]], size_bytes: Callable[[T], int], lanes: int, longest: int
) -> list[list[T]] | None:
    """What `cut` gives for a number of pieces, so many lanes at a time, none longer than that; in one turn if possible.
    None where pieces cannot be so short."""
    whole = sum(map(size_bytes, cut(1)))
    first = -(-whole // (lanes * longest))
    for turns in (first, first + 1):  # pieces begin at whole words, so that some are longer than others
        pieces = cut(lanes * turns)
        if max(map(size_bytes, pieces)) <= longest:
            return [list(pieces[k : k + lanes]) for k in range(0, len(pieces), lanes)]
    return None


def _epochs_with(
    left: Sequence[int], works: Sequence[Work], lanes: int, meet: Callable[[int, int], bool]
) -> Iterator[Lanes]:
    for others in range(min(lanes, len(left))):
        for some in combinations(left[1:], others):
            jobs = (left[0], *some)
            if not any(meet(*pair) for pair in combinations(jobs, 2)):
                yield _shared(jobs, works, lanes)


def _shared(jobs: Sequence[int], works: Sequence[Work], lanes: int) -> Lanes:
    """One lane for each, every further one for whoever takes longest."""
    found = dict.fromkeys(jobs, 1)
    for _ in range(lanes - len(jobs)):
        found[max(jobs, key=lambda job: works[job].unit_cycles / found[job])] += 1
    return found


def _longest(epoch: Lanes, works: Sequence[Work]) -> float:
    banks = sum(works[job].bank_cycles for job in epoch)
    return max(banks, *(works[job].unit_cycles / count for job, count in epoch.items()))


def _pace(epoch: Lanes, works: Sequence[Work]) -> float:
    """Cycles for the work of an epoch."""
    return (_longest(epoch, works) + EPOCH_CYCLES) / max(1.0, sum(works[job].unit_cycles for job in epoch))


def meeting(target: Area, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges of channels of the same pixels lie in some word of the bus; each its first and how many."""
    if (target.pixel | target.line) % BUS_BYTES:
        return True
    starts = [target.offset + first for first, _ in (one, other)]
    words = [
        (start // BUS_BYTES, (start + count - 1) // BUS_BYTES)
        for start, (_, count) in zip(starts, (one, other), strict=True)
    ]
    return words[0][0] <= words[1][1] and words[1][0] <= words[0][1]
