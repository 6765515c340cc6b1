"""A look at the tensors of the float model over some of the samples: extremes, and a few values of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.observe import watch
from atonc.insight.quantizing.samples import Feed
from atonc.machine.base.frozen import dataclass

VALUES_A_SAMPLE, PLACES_AT_LEAST = 400, 4  # of each tensor


@dataclass(frozen=True)
class Look:
    """What one tensor held in some of the samples."""

    low: float
    high: float
    values: Array  # a few
    tops: Array | None  # per channel: the largest, without its sign


Looks = dict[str, Look]


def look(model: Any, names: Sequence[str], feeds: Sequence[Feed], first: int = 0) -> Looks:
    """`first`: number of the first of these among all samples."""
    kept: dict[str, list[Array]] = {name: [] for name in names}
    tops: dict[str, Array] = {}
    lows, highs = dict.fromkeys(names, np.inf), dict.fromkeys(names, -np.inf)

    def see(index: int, found: dict[str, Array]) -> None:
        for number, (name, value) in enumerate(found.items()):
            lows[name], highs[name] = min(lows[name], float(value.min())), max(highs[name], float(value.max()))
            if value.ndim == 4:
                tops[name] = np.maximum(tops.get(name, 0.0), np.abs(value).max((0, 2, 3)))
            kept[name].append(some_values(value, np.random.default_rng((first + index, number))))

    watch(model, feeds, names, see, "calibrating")
    return {name: Look(lows[name], highs[name], np.concatenate(kept[name]), tops.get(name)) for name in names}


def some_values(value: Array, random: np.random.Generator) -> Array:
    """A few places with all their channels: place x channel."""
    if value.ndim == 4 and value.shape[0] == 1:
        places = value[0].reshape(value.shape[1], -1)
        count = max(PLACES_AT_LEAST, VALUES_A_SAMPLE // max(1, value.shape[1]))
        if places.shape[1] > count:
            places = places[:, random.integers(0, places.shape[1], count)]
        return places.T.astype(np.float32)
    if value.ndim == 2 and value.shape[0] == 1:
        return value.astype(np.float32)
    flat = value.reshape(-1, 1)
    few = flat if len(flat) <= VALUES_A_SAMPLE else flat[random.integers(0, len(flat), VALUES_A_SAMPLE)]
    return few.astype(np.float32)
