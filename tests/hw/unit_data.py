"""Data and helpers that the unit tests share: reproducible arrays with extremes, streams as words and back."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from atonc.machine.hw.stream import Stream
from tests.hw.scalar_models import WORD

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MORE_EXAMPLES = settings(EXAMPLES, max_examples=100)

# a seed and a shape of the data: shrinking a config is worth more than shrinking thousands of numbers
data_kinds = st.tuples(st.sampled_from(["random", "low", "high", "extremes", "small"]), st.integers(0, 2**16))

flag = st.integers(0, 1)


def numbers(kind: tuple[str, int], count: int, dtype: str) -> np.ndarray:
    """Integers of a type, over its whole range or at its ends."""
    shape, seed = kind
    rng = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    if shape == "low":
        return np.full(count, limits.min, dtype)
    if shape == "high":
        return np.full(count, limits.max, dtype)
    if shape == "extremes":
        return rng.choice(np.array([limits.min, limits.max], dtype), count)
    low, high = (max(limits.min, -3), 3) if shape == "small" else (limits.min, limits.max)
    return rng.integers(low, high, count, dtype, endpoint=True)


def words_of(stream: Stream) -> list[int]:
    """The 24-bit words of a stream."""
    return [int(value) & WORD for value in stream.flat()]


def as_words(values: np.ndarray) -> list[int]:
    """The 24-bit words on a link whose elements are these: unsigned ones have empty upper lanes."""
    return [int(value) & WORD for value in values.reshape(-1)]


def packed(data: np.ndarray, word_bytes: int) -> list[int]:
    """Words made of so many bytes each."""
    rows = data.reshape(-1, word_bytes).tolist()
    return [sum(byte << 8 * lane for lane, byte in enumerate(row)) for row in rows]
