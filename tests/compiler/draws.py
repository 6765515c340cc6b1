"""Where the choices of a random network come from: a seed, or hypothesis, which can then make failing ones smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Protocol

import numpy as np


class Draws(Protocol):
    """What decides about the structure; weights and data come from a generator that follows from a drawn seed."""

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""

    def fraction(self) -> float:
        """From 0 to below 1."""

    def order(self, items: Sequence[int]) -> tuple[int, ...]:
        """The items in any order."""

    def weighted(self, weights: Sequence[float]) -> int:
        """The place of one of them."""


@dataclass(frozen=True)
class Seeded:
    rng: np.random.Generator

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def fraction(self) -> float:
        return float(self.rng.random())

    def order(self, items: Sequence[int]) -> tuple[int, ...]:
        return tuple(int(p) for p in self.rng.permutation(items))

    def weighted(self, weights: Sequence[float]) -> int:
        shares = np.array(weights, np.float64)
        return int(self.rng.choice(len(shares), p=shares / shares.sum()))


@dataclass(frozen=True)
class Drawn:
    """By hypothesis. The simplest of everything is the first: chances that fail, the first of all options.

    Ranges are kept short: of long ones it prefers the small numbers.
    """

    integer: Callable[[int, int], int]

    def number(self, low: int, high: int) -> int:
        return self.integer(low, high)

    def fraction(self) -> float:
        return 0.99 - self.integer(0, 99) / 100.0

    def order(self, items: Sequence[int]) -> tuple[int, ...]:
        options: list[Any] = list(permutations(items))
        return tuple(options[self.integer(0, len(options) - 1)])

    def weighted(self, weights: Sequence[float]) -> int:
        edges = np.cumsum(np.array(weights) / sum(weights))
        return int(np.searchsorted(edges, self.integer(0, 127) / 128.0, side="right"))
