"""Signal and noise, summed over samples, by channel: a small channel beside a large one counts as much."""

from __future__ import annotations

from dataclasses import field
from math import inf, log10

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]
FLOOR = 1e-9  # of the mean power of all channels: a channel with less is silent
MOST = 10.0  # noise per signal of a channel beyond which more makes no difference


def channel_axis(shape: tuple[int, ...], channels_first: bool) -> int | None:
    """None: the tensor is one group. Of a list of things the shorter axis has their properties."""
    if len(shape) < 3:
        return None
    if len(shape) == 3:
        return 1 if shape[1] <= shape[2] else 2
    return 1 if channels_first else len(shape) - 1


@dataclass
class SignalPower:
    """The power of a tensor: squares of its signal and of its error, by channel."""

    axis: int | None
    signal: Real = field(default_factory=lambda: np.zeros(1))
    noise: Real = field(default_factory=lambda: np.zeros(1))

    def add(self, reference: Real, value: Real) -> SignalPower:
        self.signal = self.signal + self._summed(reference)
        self.noise = self.noise + self._summed(value - reference)
        return self

    def _summed(self, values: Real) -> Real:
        squares = np.square(values, dtype=np.float64)
        squares[~np.isfinite(squares)] = 0.0
        if self.axis is None:
            return squares.sum().reshape(1)
        return squares.sum(axis=tuple(k for k in range(squares.ndim) if k != self.axis))

    @property
    def db(self) -> float:
        return decibel(float(self.signal.sum()), float(self.noise.sum()))

    @property
    def ratios(self) -> Real:
        """Noise per signal of every channel."""
        floor = max(float(self.signal.mean()) * FLOOR, 1e-30)
        return np.minimum(self.noise / np.maximum(self.signal, floor), MOST)

    @property
    def mean_ratio(self) -> float:
        return float(self.ratios.mean())

    @property
    def worst_db(self) -> float:
        return from_ratio(float(self.ratios.max(initial=0.0)))


def decibel(signal: float, noise: float) -> float:
    if noise <= 0:
        return inf
    return 10 * log10(signal / noise) if signal > 0 else -inf


def from_ratio(ratio: float) -> float:
    return inf if ratio <= 0 else -10 * log10(ratio)
