"""Precision against recall: how much of what is found is right, the more is found of what is there.

As COCO has it: at 101 recalls, the best precision that any score with at least this recall reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

LEVELS = 101  # recalls 0, 0.01 ... 1
ALL = "all classes"


@dataclass(frozen=True)
class RecallCurve:
    """One class, or the mean over all that occur."""

    name: str
    positives: int  # how many there are to be found
    precision: tuple[float, ...]  # by recall

    @property
    def average(self) -> float:
        return float(np.mean(self.precision))


def recall_curve(name: str, scores: NDArray[np.float64], right: NDArray[np.bool_]) -> RecallCurve:
    """One class against the rest: the score that each sample got for it, and whether it is of it. Equal scores are
    found together."""
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(right[order]), scores[order]
    last = np.flatnonzero(np.r_[ranked[1:] != ranked[:-1], True])  # of each score
    hits, counted = hits[last], last + 1
    positives = int(right.sum())
    best = np.maximum.accumulate((hits / counted)[::-1])[::-1]
    # in whole numbers: the first score that finds at least so many hundredths
    place = np.searchsorted(hits * (LEVELS - 1), np.arange(LEVELS) * positives)
    return RecallCurve(name, positives, tuple(round(float(value), 6) for value in best[place]))


def with_mean(curves: Sequence[RecallCurve]) -> tuple[RecallCurve, ...]:
    """The mean of all first."""
    if not curves:
        return ()
    mean = np.mean([curve.precision for curve in curves], axis=0)
    total = sum(curve.positives for curve in curves)
    return RecallCurve(ALL, total, tuple(round(float(value), 6) for value in mean)), *curves
