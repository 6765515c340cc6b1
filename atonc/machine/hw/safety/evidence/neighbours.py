"""How two stream engines of one epoch are placed relative to each other in memory: do their bytes or bus words meet,
and how far are they from each other?

An engine touches runs of bytes in nested loops. Two engines that walk one tensor step by the same pixel, so it is
enough to compare one period of their common step; only where that is not so are the runs listed one by one.
"""

from __future__ import annotations

from enum import StrEnum
from math import gcd

import numpy as np
from numpy.typing import NDArray

from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.units.stream_engine import StrengConfig

_PERIODS = 3  # that two walks must share before one of them stands for all
Loop = tuple[int, int]  # count, step in bytes
Runs = tuple[NDArray[np.int64], int]  # where they begin, how long they are


class Relation(StrEnum):
    APART = "apart"
    BORDER = "apart, a word at the border in common"
    OWN_WORDS = "interleaved, no word in common"
    SHARED_WORDS = "interleaved, words in common"
    OVERLAP = "bytes in common"


def relation(one: StrengConfig, other: StrengConfig) -> Relation:
    (_, end), (start, _) = sorted((one.span(), other.span()))
    if end <= start:
        return Relation.BORDER if (end - 1) // BUS_BYTES == start // BUS_BYTES else Relation.APART
    walks = (_ByteRuns.of(one), _ByteRuns.of(other))
    between = _in_turn(*walks)
    if _meet(*walks, 1) if between is None else between < 0:
        return Relation.OVERLAP
    return Relation.SHARED_WORDS if _meet(*walks, BUS_BYTES) else Relation.OWN_WORDS


class _ByteRuns:
    """Runs of `length` bytes from `address` on, repeated by loops: the longest last."""

    def __init__(self, address: int, length: int, loops: tuple[Loop, ...]) -> None:
        self.address, self.length, self.loops = address, length, loops

    @classmethod
    def of(cls, config: StrengConfig) -> _ByteRuns:
        loops = [*config.frame_loops(), *zip(config.stored_shape, config.steps, strict=True)]
        length, merged = config.stored_bytes, list[Loop]()
        walked = sorted(((count, abs(step)) for count, step in loops if count > 1 and step), key=lambda loop: loop[1])
        for count, step in walked:
            if not merged and step == length:
                length *= count
            elif merged and step == merged[-1][0] * merged[-1][1]:
                merged[-1] = (merged[-1][0] * count, merged[-1][1])
            else:
                merged.append((count, step))
        return cls(config.span()[0], length, tuple(sorted(merged)))

    def starts(self, loops: tuple[Loop, ...]) -> NDArray[np.int64]:
        found = np.array([self.address], np.int64)
        for count, step in loops:
            found = (np.arange(count, dtype=np.int64)[:, None] * step + found).reshape(-1)
        return found


def distance(one: StrengConfig, other: StrengConfig) -> int:
    """Bytes between the nearest runs of two engines without a byte in common."""
    walks = (_ByteRuns.of(one), _ByteRuns.of(other))
    found = _in_turn(*walks)
    return _nearest(*(_period(*walks, 1) or _listed(*walks))) if found is None else found


def _in_turn(one: _ByteRuns, other: _ByteRuns) -> int | None:
    """Bytes between runs of two that go side by side for a while, each by the same step; negative: they meet."""
    if len(one.loops) != 1 or len(other.loops) != 1 or one.loops[0][1] != other.loops[0][1]:
        return None
    (count, step), (count2, _) = one.loops[0], other.loops[0]
    shift, ahead = divmod(other.address - one.address, step)
    if min(count, shift + count2) - max(0, shift) < _PERIODS:
        return None
    return min(ahead - one.length, step - ahead - other.length)


def _nearest(one: Runs, other: Runs) -> int:
    (starts, length), (starts2, length2) = one, other
    ends, starts2 = np.sort(starts) + length, np.sort(starts2)
    after = np.searchsorted(starts2, ends)  # the first run of the other that begins behind each one
    behind, before = after < len(starts2), after > 0
    gaps = (starts2[after[behind]] - ends[behind], ends[before] - length - starts2[after[before] - 1] - length2)
    return int(min(gap.min(initial=1 << 32) for gap in gaps))


def shorter_run(one: StrengConfig, other: StrengConfig) -> int:
    """Bytes in a row, of the engine that has fewer of them."""
    return min(_ByteRuns.of(one).length, _ByteRuns.of(other).length)


def _meet(one: _ByteRuns, other: _ByteRuns, unit: int) -> bool:
    """Whether the two touch a unit of memory in common."""
    (starts, length), (starts2, length2) = _period(one, other, unit) or _listed(one, other)
    return _touch(starts, length, starts2, length2, unit)


def _listed(one: _ByteRuns, other: _ByteRuns) -> tuple[Runs, Runs]:
    """All runs of both."""
    return (one.starts(one.loops), one.length), (other.starts(other.loops), other.length)


def _period(one: _ByteRuns, other: _ByteRuns, unit: int) -> tuple[Runs, Runs] | None:
    """Those of one period, where both repeat by the same step; None where the ends of the walks may decide."""
    if not one.loops or not other.loops or one.loops[-1][1] != other.loops[-1][1]:
        return None
    (count, step), (count2, _) = one.loops[-1], other.loops[-1]
    fold = unit // gcd(unit, step)  # steps until the units are aligned as before
    period = fold * step
    shift = (other.address - one.address) // step
    common = min(count, shift + count2) - max(0, shift)
    if common < _PERIODS * fold:
        return None
    first = one.starts((*one.loops[:-1], (fold, step)))
    second = other.starts((*other.loops[:-1], (fold, step))) - shift // fold * period
    around = (second[:, None] + np.arange(-1, 2) * period).reshape(-1)
    return (first, one.length), (around, other.length)


def _touch(starts: NDArray[np.int64], length: int, starts2: NDArray[np.int64], length2: int, unit: int) -> bool:
    firsts, lasts = _units(starts, length, unit)
    firsts2, lasts2 = _units(starts2, length2, unit)
    begun = np.searchsorted(firsts2, lasts, side="right")  # how many of the others begin before each one ends
    reached = np.maximum.accumulate(lasts2)
    some = begun > 0
    return bool((reached[begun[some] - 1] >= firsts[some]).any())


def _units(starts: NDArray[np.int64], length: int, unit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ordered = np.sort(starts)
    return ordered // unit, (ordered + length - 1) // unit
