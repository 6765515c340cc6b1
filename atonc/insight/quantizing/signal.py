"""How much better one way to quantise is than another, and how sure that is: the same samples by both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from atonc.compiler.ir import Array
from atonc.machine.base.frozen import dataclass

DRAWS = 1000  # of as many samples as there are, with repetition
SURE = 2.5, 97.5  # percent: an interval of 95 %
EQUAL_DB = 120.0
POOR_DB = 10.0  # below, the noise is a third of the signal or more
_NONE = 1e-300  # power of a signal that is none: squares of the smallest float32 are 1e-90


@dataclass(frozen=True, eq=False)
class Signal:
    """Squares of what is judged, sample by sample: rows are samples, columns outputs or parts of them."""

    signal: Array
    noise: Array

    @staticmethod
    def of(expected: Sequence[Sequence[Array]], seen: Sequence[Sequence[Array]]) -> Signal:
        """Compares sample by sample; what is the same in all, such as a detector's anchors, says nothing."""
        live = np.array([any((one != values[0]).any() for one in values[1:]) for values in zip(*expected, strict=True)])
        wanted = live if live.any() else ~live
        signal = [[power(value) for value in values] for values in expected]
        noise = [[power(one.astype(np.float64) - other) for one, other in zip(*values, strict=True)]
                 for values in zip(expected, seen, strict=True)]  # fmt: skip
        return Signal(*(np.array(rows)[:, wanted] for rows in (signal, noise)))

    @cached_property
    def db(self) -> float:
        """Signal to noise, the mean over the columns."""
        return float(decibels(self.signal.sum(0), self.noise.sum(0)))

    def gain_over(self, other: Signal) -> tuple[float, float]:
        """By how many dB it is better, drawn from the samples again and again; the other is of the same samples."""
        count = len(self.noise)
        drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), DRAWS)
        signal = drawn @ self.signal
        low, high = np.percentile(decibels(signal, drawn @ self.noise) - decibels(signal, drawn @ other.noise), SURE)
        return float(low), float(high)


def power(value: Array) -> float:
    return float(np.square(value.astype(np.float64)).sum())


def decibels(signal: Array, noise: Array) -> Array:
    """The mean over the last axis; from -120 (all is noise) to 120 (equal)."""
    floor, ends = np.maximum(signal, _NONE), 10 ** (EQUAL_DB / 10)
    return (10 * np.log10(floor / np.clip(noise, floor / ends, floor * ends))).mean(-1)
