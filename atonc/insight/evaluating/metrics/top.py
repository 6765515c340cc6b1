"""Classifiers: whether the right class is the first, or among the first five."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.insight.evaluating.metrics.base import MetricFigure
from atonc.insight.evaluating.metrics.curves import RecallCurve, recall_curve, with_mean
from atonc.insight.evaluating.metrics.intervals import mean_interval
from atonc.insight.evaluating.pictures import Fit

if TYPE_CHECKING:
    from atonc.insight.evaluating.datasets import Dataset

KEPT = 5
MOST_SCORES = 32  # classes of which every score is kept, so that each can have its curve


class Top:
    name = "top"

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """The best classes; of equal ones the first, as argmax has it. One value is a probability."""
        values = outputs[0].reshape(-1)
        if values.size == 1:
            values = np.array([1.0 - values[0], values[0]])
        order = np.argsort(-values, kind="stable")[:KEPT]
        found = {"classes": [int(k) for k in order], "of": int(values.size), "score": round(float(values[order[0]]), 6)}
        scores = [round(float(value), 6) for value in values] if values.size <= MOST_SCORES else None
        return found if scores is None else {**found, "scores": scores}

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        return [MetricFigure(name, float(hits.mean()), *mean_interval(hits), len(hits))
                for name, hits in self.values(records, data).items()]  # fmt: skip

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, NDArray[np.float64]]:
        pairs = [(record["classes"], entry.truth) for record, entry in zip(records, data.entries, strict=True)]
        counts = (1,) if records[0]["of"] <= KEPT else (1, KEPT)
        return {f"top-{count}": np.array([label in classes[:count] for classes, label in pairs], np.float64)
                for count in counts}  # fmt: skip

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        """Wrong ones, those that were surest first."""
        wrong = [k for k, entry in enumerate(data.entries) if records[k]["classes"][0] != entry.truth]
        return sorted(wrong, key=lambda k: -records[k]["score"])

    def curves(self, records: Sequence[Any], data: Dataset) -> tuple[RecallCurve, ...]:
        """Each class against the rest, by the score that the samples got for it."""
        if not all("scores" in record for record in records):
            return ()
        scores = np.array([record["scores"] for record in records], np.float64)
        truth = np.array([entry.truth for entry in data.entries])
        there = (k for k in range(scores.shape[1]) if (truth == k).any())
        return with_mean([recall_curve(class_name(k, data), scores[:, k], truth == k) for k in there])

    def same(self, one: Any, other: Any) -> bool:
        return bool(one["classes"][0] == other["classes"][0])

    def words(self, record: Any, data: Dataset) -> str:
        return f"{class_name(record['classes'][0], data)} {record['score']:.3f}"


def confusion(records: Sequence[Any], data: Dataset) -> NDArray[np.int64]:
    """How many samples of each class (rows) got which answer (columns)."""
    classes = max(2, records[0]["of"])
    found = np.zeros((classes, classes), np.int64)
    np.add.at(found, ([entry.truth for entry in data.entries], [record["classes"][0] for record in records]), 1)
    return found


def class_name(number: int, data: Dataset) -> str:
    return data.classes[number] if number < len(data.classes) else f"class {number}"
