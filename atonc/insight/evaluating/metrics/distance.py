"""How near the outputs of two sides are: cosine, and the share of values that are the same code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.evaluating.metrics.base import MetricFigure, WithoutCurves
from atonc.insight.evaluating.metrics.intervals import bootstrap
from atonc.insight.evaluating.pictures import Fit

if TYPE_CHECKING:
    from atonc.insight.evaluating.datasets import Dataset


def distance(one: Sequence[Array], other: Sequence[Array], steps: Sequence[float]) -> list[float]:
    """Sums that add up over samples: products, squares of both sides, equal values, values. `steps`: of each output,
    what a code is worth; values nearer than half of it become the same code."""
    found = np.zeros(5)
    for a, b, step in zip(one, other, steps, strict=True):
        x, y = (np.ravel(v).astype(np.float64) for v in (a, b))
        equal = np.count_nonzero(np.abs(x - y) <= step / 2)
        found += np.array([float(x @ y), float(x @ x), float(y @ y), equal, x.size])
    return [float(f"{v:.12g}") for v in found]


def distance_figures(rows: Sequence[Sequence[float]]) -> list[MetricFigure]:
    table = np.array(rows)

    def cosine(some: Any) -> float:
        product, left, right = table[some][:, :3].sum(axis=0)
        return float(product / np.sqrt(left * right)) if left > 0 and right > 0 else float(left == right)

    def equal(some: Any) -> float:
        same, all_values = table[some][:, 3:].sum(axis=0)
        return float(same / all_values)

    whole = np.arange(len(table))
    return [
        MetricFigure(name, figure(whole), *bootstrap(len(table), figure), len(table))
        for name, figure in (("cosine", cosine), ("same code", equal))
    ]


class DistanceMetric(WithoutCurves):
    """Nothing but the distances, which are measured in any case."""

    name = "distance"

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        return [int(np.argmax(value)) for value in outputs]

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        return []

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, Any]:
        return {}

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        return []

    def same(self, one: Any, other: Any) -> bool:
        return bool(one == other)

    def words(self, record: Any, data: Dataset) -> str:
        return f"largest at {', '.join(map(str, record[:4]))}"
