"""Classifiers: whether the right class is the first, or among the first five."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.evaluating.metrics.base import MetricFigure
from atonc.insight.evaluating.metrics.intervals import wilson
from atonc.insight.evaluating.pictures import Fit

if TYPE_CHECKING:
    from atonc.insight.evaluating.datasets import Dataset

KEPT = 5


class Top:
    name = "top"

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """The best classes; of equal ones the first, as argmax has it. One value is a probability."""
        values = outputs[0].reshape(-1)
        if values.size == 1:
            values = np.array([1.0 - values[0], values[0]])
        order = np.argsort(-values, kind="stable")[:KEPT]
        return {"classes": [int(k) for k in order], "of": int(values.size), "score": round(float(values[order[0]]), 6)}

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        labels = [entry.truth for entry in data.entries]
        found = []
        for count in (1, KEPT):
            if count > 1 and records[0]["of"] <= KEPT:
                continue
            hits = sum(label in record["classes"][:count] for record, label in zip(records, labels, strict=True))
            found.append(MetricFigure(f"top-{count}", hits / len(records), *wilson(hits, len(records)), len(records)))
        return found

    def same(self, one: Any, other: Any) -> bool:
        return bool(one["classes"][0] == other["classes"][0])

    def words(self, record: Any, data: Dataset) -> str:
        return f"{class_name(record['classes'][0], data)} {record['score']:.3f}"


def class_name(number: int, data: Dataset) -> str:
    return data.classes[number] if number < len(data.classes) else f"class {number}"
