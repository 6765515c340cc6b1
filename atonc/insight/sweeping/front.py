"""Which rows no other row of the same model beats: not slower, not larger, not less accurate, better in one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MEMORY = "ram_bytes"
LATENCY, BUSY = "latency", "busy"  # times: of an inference; of every second, in which an application runs


def on_front(figures: Sequence[Mapping[str, Any] | None], models: Sequence[str]) -> list[bool]:
    """Says for every row whether it is on the Pareto front of its model: one that does something else is no rival. Rows
    without figures are on none."""
    found = [False] * len(figures)
    for model in dict.fromkeys(models):
        places = [place for place, one in enumerate(figures) if one is not None and models[place] == model]
        costs = np.array([_costs(figures[place] or {}) for place in places])
        for number, place in enumerate(places):
            others = costs <= costs[number]
            beaten = others.all(axis=1) & (costs < costs[number]).any(axis=1)
            found[place] = not beaten.any()
    return found


def time_of(figures: Mapping[str, Any]) -> str:
    """The time of a row: its figures are called after it, with `_ms`, `_low_ms` and `_high_ms`."""
    return BUSY if f"{BUSY}_ms" in figures else LATENCY


def _costs(figures: Mapping[str, Any]) -> tuple[float, ...]:
    return figures[f"{time_of(figures)}_ms"], figures[MEMORY], -figures.get("outputs_db", 0.0)
