"""Which jobs of a layer share an epoch, and how many of its lanes each gets, so that all lanes end together.

Groups of channels have shifts of their own, so a chain does one group. Side by side as they are, the longest lets the
other lanes wait, and groups that meet in a word of the bus cannot stand side by side at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from atonc.compiler.plan.policy import EPOCH_CYCLES

Lanes = Mapping[int, int]  # of an epoch: job -> how many it gets


def even_epochs(cycles: Sequence[float], lanes: int, meet: Callable[[int, int], bool]) -> list[Lanes]:
    """Epoch by epoch with the longest job that is left: alone, or beside others where that is more work a cycle."""
    left = sorted(range(len(cycles)), key=lambda job: -cycles[job])
    found: list[Lanes] = []
    while left:
        found.append(min(_epochs_with(left, cycles, lanes, meet), key=lambda epoch: _pace(epoch, cycles)))
        left = [job for job in left if job not in found[-1]]
    return found


def epochs_cycles(epochs: Sequence[Lanes], cycles: Sequence[float]) -> float:
    """A bound that knows no banks, as for tilings: there are no tasks yet."""
    return sum(_longest(epoch, cycles) + EPOCH_CYCLES for epoch in epochs)


def _epochs_with(
    left: Sequence[int], cycles: Sequence[float], lanes: int, meet: Callable[[int, int], bool]
) -> Iterator[Lanes]:
    for others in range(min(lanes, len(left))):
        for some in combinations(left[1:], others):
            jobs = (left[0], *some)
            if not any(meet(*pair) for pair in combinations(jobs, 2)):
                yield _shared(jobs, cycles, lanes)


def _shared(jobs: Sequence[int], cycles: Sequence[float], lanes: int) -> Lanes:
    """One lane for each, every further one for whoever takes longest."""
    found = dict.fromkeys(jobs, 1)
    for _ in range(lanes - len(jobs)):
        found[max(jobs, key=lambda job: cycles[job] / found[job])] += 1
    return found


def _longest(epoch: Lanes, cycles: Sequence[float]) -> float:
    return max(cycles[job] / count for job, count in epoch.items())


def _pace(epoch: Lanes, cycles: Sequence[float]) -> float:
    """Cycles for the work of an epoch."""
    return (_longest(epoch, cycles) + EPOCH_CYCLES) / max(1.0, sum(cycles[job] for job in epoch))
