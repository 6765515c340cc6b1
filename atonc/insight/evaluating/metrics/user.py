"""A metric of the user: a function from outputs and truth to a number for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.insight.evaluating.datasets.generator import user_function
from atonc.insight.evaluating.metrics.base import MetricFigure, WithoutCurves
from atonc.insight.evaluating.metrics.intervals import mean_interval
from atonc.insight.evaluating.pictures import Fit
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.insight.evaluating.datasets import Dataset


class UserMetric(WithoutCurves):
    """The mean over all samples of what the function gives."""

    def __init__(self, name: str) -> None:
        self.name, self.function = name, user_function(name)

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        try:
            found = float(self.function(list(outputs), truth))
        except Exception as error:  # whatever the user's code does
            raise InputError(f"failed: {type(error).__name__}: {str(error)[:200]}", where=self.name) from None
        if not np.isfinite(found):
            raise InputError(f"gives {found}", where=self.name, rule="a metric is a number for each sample")
        return found

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        return [MetricFigure(name, float(values.mean()), *mean_interval(values), len(values))
                for name, values in self.values(records, data).items()]  # fmt: skip

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, NDArray[np.float64]]:
        return {self.name: np.array(records, np.float64)}

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        """Nobody knows whether more is better."""
        return []

    def same(self, one: Any, other: Any) -> bool:
        return bool(one == other)

    def words(self, record: Any, data: Dataset) -> str:
        return f"{record:g}"
