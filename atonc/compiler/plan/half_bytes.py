"""Values of 4 bits, two to a byte: who stores them so, and why it may, stands where they are stored."""

from __future__ import annotations

import numpy as np

from atonc.machine.hw.four_bits import BITS, LEAST, MOST

_ONES = (1 << BITS) - 1


def packed(data: bytes, low_first: bool = True) -> bytes | None:
    """The bytes as values of 4 bits without gaps, the last half filled with zero; None where one needs more bits."""
    values = np.frombuffer(data, np.int8)
    if not values.size or values.min() < LEAST or values.max() > MOST:
        return None
    pairs = np.append(values, np.zeros(values.size % 2, np.int8)).reshape(-1, 2) & _ONES
    low, high = (pairs[:, 0], pairs[:, 1]) if low_first else (pairs[:, 1], pairs[:, 0])
    return (low | high << BITS).astype(np.uint8).tobytes()
