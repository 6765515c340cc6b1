"""The two halves of a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.insight.evaluating.metrics.curves import RecallCurve
from atonc.insight.evaluating.pictures import Fit
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.insight.evaluating.datasets import Dataset


@dataclass(frozen=True)
class MetricFigure:
    """A figure with the interval in which it lies with 95 % confidence."""

    name: str
    value: float
    low: float
    high: float
    samples: int


class Metric(Protocol):
    name: str

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """What is kept of the outputs of one sample, as plain JSON."""
        ...

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        """Works out the figures of all samples, given in the order of the data."""
        ...

    def values(self, records: Sequence[Any], data: Dataset) -> Mapping[str, NDArray[Any]]:
        """Figures that are means over the samples, with the value of every sample: they can be compared in pairs."""
        ...

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        """Numbers of the samples whose answers are furthest from the truth, the worst first."""
        ...

    def curves(self, records: Sequence[Any], data: Dataset) -> tuple[RecallCurve, ...]:
        """Precision against recall, the mean of all classes first; none where answers have no classes with scores."""
        ...

    def same(self, one: Any, other: Any) -> bool:
        """Whether two records are the same answer."""
        ...

    def words(self, record: Any, data: Dataset) -> str:
        """The answer for people."""
        ...


class WithoutCurves:
    """A metric whose answers have no classes with scores."""

    def curves(self, records: Sequence[Any], data: Dataset) -> tuple[RecallCurve, ...]:
        return ()
