"""How two stream engines of one epoch lie to each other in memory: do their bytes or bus words meet?"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from atonc.hw.units.stream_engine import StrengConfig

WORD = 8  # bytes of the bus


class Relation(StrEnum):
    APART = "apart"
    BORDER = "apart, a word at the border in common"
    OWN_WORDS = "interleaved, no word in common"
    SHARED_WORDS = "interleaved, words in common"
    OVERLAP = "bytes in common"


def relation(one: StrengConfig, other: StrengConfig) -> Relation:
    (low, end), (low2, end2) = sorted((one.span(), other.span()))
    if end <= low2:
        return Relation.BORDER if (end - 1) // WORD == low2 // WORD else Relation.APART
    starts, length = _runs(one)
    starts2, length2 = _runs(other)
    if not _meet(starts // WORD, (starts + length - 1) // WORD, starts2 // WORD, (starts2 + length2 - 1) // WORD):
        return Relation.OWN_WORDS
    bytes_meet = _meet(starts, starts + length - 1, starts2, starts2 + length2 - 1)
    return Relation.OVERLAP if bytes_meet else Relation.SHARED_WORDS


def _runs(config: StrengConfig) -> tuple[NDArray[np.int64], int]:
    """First address of every contiguous piece that an engine touches, and their common length."""
    length = config.element_bytes
    starts = np.array([config.address], np.int64)
    loops = [*config.frame_loops(), *zip(config.shape, config.steps, strict=True)]
    for count, step in reversed(loops):
        if step == length and starts.size == 1:
            length *= count
        elif step and count > 1:
            starts = (np.arange(count, dtype=np.int64)[:, None] * step + starts).reshape(-1)
    return np.unique(starts), length


def _meet(
    firsts: NDArray[np.int64], lasts: NDArray[np.int64], firsts2: NDArray[np.int64], lasts2: NDArray[np.int64]
) -> bool:
    """Whether any interval of one list (both ends included) touches one of the other; both ascend."""
    place = np.searchsorted(firsts2, lasts, side="right")  # how many of the others begin before each one ends
    reached = np.maximum.accumulate(lasts2)
    return bool((reached[np.maximum(place - 1, 0)][place > 0] >= firsts[place > 0]).any())
