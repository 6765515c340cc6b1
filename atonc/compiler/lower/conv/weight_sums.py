"""What all forms of a layer ask of its weights, worked out once for as long as the weights live."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.machine.hw.memoise import memoise

Weights = NDArray[np.int16]  # [out, rows, columns, in]: codes without their zero point


@memoise
def magnitudes(weights: Weights) -> NDArray[np.int64]:
    """Per output channel the sum of all weights without their signs."""
    found: NDArray[np.int64] = np.abs(weights).sum(axis=(1, 2, 3), dtype=np.int64)
    return found


@memoise
def weight_sums(weights: Weights) -> NDArray[np.int64]:
    """Per output channel."""
    found: NDArray[np.int64] = weights.sum(axis=(1, 2, 3), dtype=np.int64)
    return found


def extreme_sums(weights: Weights, low: int, high: int) -> NDArray[np.int64]:
    """Per output channel the largest sum, without its sign, of features low..high: no first part of it is larger."""
    rising = (magnitudes(weights) + weight_sums(weights)) // 2  # the sum of all weights above zero
    falling = magnitudes(weights) - rising
    above, below = max(high, 0), max(-low, 0)
    found: NDArray[np.int64] = np.maximum(rising * above + falling * below, rising * below + falling * above)
    return found


@memoise
def has_wide(weights: Weights) -> NDArray[np.bool_]:
    """Which output channels have a weight beyond 8 bits."""
    return np.asarray(((weights < -128) | (weights > 127)).any(axis=(1, 2, 3)))
