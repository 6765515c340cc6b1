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
    return bootstrap(len(values), lambda drawn: float(values[drawn].mean()))
