"""Figures of a layer, one row each: text, JSON, page, comparison and the graph for Netron show them.

A figure is worked out in `insight`: a property of `LayerView`, or a field of it. Zero is shown as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from atonc.insight.explain.types import LayerView
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class LayerColumn:
    key: str  # in JSON, with its unit
    title: str  # with its unit: above the column, or behind the figure
    of: Callable[[LayerView], float]
    digits: int = 0  # behind the point, for readers
    adds: bool = True  # figures of several layers have a sum
    first: bool = True  # in lines of text and the table of the page, where others are chosen. JSON and graph have all
    window: int = 1500  # pixels of a window from which on the page has room for it

    def text(self, layer: LayerView) -> str:
        return f"{self.of(layer):,.{self.digits}f}" if self.of(layer) else ""


COLUMNS = (
    LayerColumn("cycles", "cycles", lambda layer: layer.cycles),
    LayerColumn(
        "practical_cycles", "cycles at the attainable minimum", lambda layer: layer.practical_cycles, first=False
    ),
    LayerColumn(
        "absolute_cycles", "cycles at the theoretical minimum", lambda layer: layer.absolute_cycles, first=False
    ),
    LayerColumn(
        "times_limit",
        "x attainable minimum",
        lambda layer: round(layer.times_limit, 3),
        digits=2,
        adds=False,
        window=1100,
    ),
    LayerColumn("lost_cycles", "cycles beyond the attainable minimum", lambda layer: layer.lost_cycles, first=False),
    LayerColumn("energy_uj", "uJ", lambda layer: round(layer.energy_uj, 6), digits=2, window=1700),
    LayerColumn("macs_per_cycle", "MAC/cycle", lambda layer: round(layer.macs_per_cycle, 3), digits=1, adds=False),
)


def figures(layer: LayerView) -> dict[str, float]:
    return {column.key: column.of(layer) for column in COLUMNS}


def words(layer: LayerView) -> list[str]:
    """Such as "12,400 cycles"."""
    return [f"{column.text(layer)} {column.title}" for column in COLUMNS if column.first and column.text(layer)]


def rows(layer: LayerView) -> list[list[str]]:
    return [[column.title, column.text(layer)] for column in COLUMNS if column.first]


def sums(layers: Iterable[LayerView], before: str) -> dict[str, float]:
    listed = list(layers)
    return {f"{before}{column.key}": sum(map(column.of, listed)) for column in COLUMNS if column.adds}
