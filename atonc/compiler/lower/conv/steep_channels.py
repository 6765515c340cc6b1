"""Channels whose scale is degenerate: one step of the sum is worth more codes than there are.

Quantisers give such scales to layers that never answered while they were calibrated. There one sum at most has a code
of its own; every other one saturates, and does so with any factor of a few hundred codes a step. So a factor that fits
the units gives the same codes as the one of the model. (Sums beyond 16 bits are rounded as everywhere; the layer
declares it.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]

STEEP = 640.0  # codes a step: both neighbours of the sum whose result is nearest to code 0 saturate
FARTHEST = 2.0**40  # codes: beyond, the zero point inside an offset is lost in double precision
BEYOND = 320.0  # codes: beyond both ends of int8, with room for roundings; at most half of STEEP


def tame(scale: Real, offset: Real, largest: Real) -> tuple[Real, Real]:
    """Scale and offset that give the same codes for whole sums of at most `largest`, without factors beyond `STEEP`."""
    steep = (np.abs(scale) > STEEP) & (np.abs(offset) < FARTHEST)
    if not steep.any():
        return scale, offset
    steps = np.rint(np.divide(offset, scale, out=np.zeros_like(offset), where=steep))
    nearest = np.clip(offset - steps * scale, -BEYOND, BEYOND)  # the code of the sum -steps
    reached = np.abs(steps) <= largest
    slope = np.where(reached & (largest > 0), np.copysign(STEEP, scale), 0.0)
    ends = np.where(reached, steps * slope + nearest, np.copysign(BEYOND, offset))
    return np.where(steep, slope, scale), np.where(steep, ends, offset)
