"""How sure a figure is: Wilson's interval for shares, the bootstrap with a fixed seed for everything else."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054  # 95 %
ROUNDS, SEED = 1000, 20251115


def wilson(hits: int, count: int) -> tuple[float, float]:
    """E. B. Wilson 1927: where the true share lies with 95 % confidence."""
    if not count:
        return 0.0, 1.0
    share = hits / count
    middle = (share + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z / (1 + Z * Z / count) * sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if hits == 0 else low), (1.0 if hits == count else high)


def bootstrap(
    count: int, figure: Callable[[NDArray[np.intp]], float], rounds: int = ROUNDS
) -> tuple[float, float]:
    """`figure` of drawn samples, by their numbers; the middle 95 % of many draws."""
    random = np.random.default_rng(SEED)
    found = np.array([figure(random.integers(0, count, count)) for _ in range(rounds)])
    found = found[np.isfinite(found)]
    if not found.size:
        return float("nan"), float("nan")
    low, high = np.percentile(found, (2.5, 97.5))
    return float(low), float(high)


def mean_interval(values: NDArray[Any]) -> tuple[float, float]:
    """Where a mean lies; if every value is 0 or 1 it is a share, and equal values prove no certainty."""
    if np.isin(values, (0, 1)).all():
        return wilson(int(values.sum()), len(values))
    return _drawn(values)


def _drawn(values: NDArray[Any]) -> tuple[float, float]:
    return bootstrap(len(values), lambda drawn: float(values[drawn].mean()))


def difference_interval(one: NDArray[Any], other: NDArray[Any]) -> tuple[float, float]:
    """Where the mean of differences on the same samples lies. Shares: the intervals of both ways in which the two may
    disagree, joined as R. G. Newcombe does (1998), so that no disagreement on few samples is no proof."""
    if not np.isin(np.r_[one, other], (0, 1)).all():
        return _drawn(one - other)
    up, down = ((one > other).sum(), (one < other).sum())
    count = len(one)
    gain, loss = up / count, down / count
    (up_low, up_high), (down_low, down_high) = wilson(int(up), count), wilson(int(down), count)
    low = gain - loss - sqrt((gain - up_low) ** 2 + (down_high - loss) ** 2)
    return low, gain - loss + sqrt((up_high - gain) ** 2 + (loss - down_low) ** 2)
