"""Poses: object keypoint similarity, as COCO defines it, of every person and the nearest answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.evaluating.decoders.yolov8 import scale_of, table
from atonc.insight.evaluating.metrics.base import MetricFigure, WithoutCurves
from atonc.insight.evaluating.metrics.intervals import mean_interval
from atonc.insight.evaluating.pictures import Fit
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.insight.evaluating.datasets import Dataset

# COCO's constants for its 17 points: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles
COCO = np.array([26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89]) / 1000
WITHOUT_EYES = COCO[[0, *range(5, 17)]]  # the 13 points of ST's models
OTHERS = 0.05
LEAST_SCORE, MOST_PERSONS = 0.25, 20
CHANGED = 0.9


class Keypoints(WithoutCurves):
    name = "keypoints"

    def __init__(self, shapes: Sequence[tuple[int, ...]], side: tuple[int, int]) -> None:
        self.side, self.shape = side, shapes[0]
        if len(shapes) != 1 or not (self._single or self._map or self._many):
            raise InputError(
                f"outputs {list(shapes)} are of no pose model that is known",
                rule="heat maps [1, rows, columns, points], points [1, 1, points, 3], or [1, 5 + 3 * points, boxes]",
            )

    @property
    def _single(self) -> bool:
        return self.shape[-1] == 3 and len(self.shape) == 4 and self.shape[1] == 1

    @property
    def _map(self) -> bool:
        return len(self.shape) == 4 and not self._single

    @property
    def _many(self) -> bool:
        return len(self.shape) == 3 and min(self.shape[-2:]) > 5 and (min(self.shape[-2:]) - 5) % 3 == 0

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """Persons: a score and points x, y in pixels of the picture."""
        persons = self._persons(outputs)
        return [
            [round(float(score), 6), [[round(float(v), 2) for v in point] for point in fit.back(points)]]
            for score, points in persons
        ]

    def _persons(self, outputs: Sequence[Array]) -> list[tuple[float, Array]]:
        """Points in pixels of the input."""
        values, side = outputs[0].astype(np.float64), np.array(self.side, np.float64)
        if self._single:
            points = values.reshape(-1, 3)
            return [(float(points[:, 2].mean()), points[:, 1::-1] * side)]
        if self._map:
            maps: Array = values.reshape(values.shape[-3:])
            maps = np.moveaxis(maps, 0, -1) if maps.shape[1] == maps.shape[2] != maps.shape[0] else maps
            rows, columns, count = maps.shape
            best = maps.reshape(-1, count).argmax(axis=0)
            places = np.stack([best % columns, best // columns], axis=1) + 0.5
            return [(float(maps.reshape(-1, count).max(axis=0).mean()), places / np.array([columns, rows]) * side)]
        rows_ = table(outputs).astype(np.float64)
        unit = scale_of(rows_, self.side)
        order = np.argsort(-rows_[:, 4], kind="stable")[:MOST_PERSONS]
        good = [k for k in order if rows_[k, 4] >= LEAST_SCORE]
        return [(float(rows_[k, 4]), rows_[k, 5:].reshape(-1, 3)[:, :2] * unit) for k in good]

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        people: dict[Any, list[Any]] = {}
        for annotation in data.coco["annotations"]:
            if any(annotation.get("keypoints", [])[2::3]):
                people.setdefault(annotation["image_id"], []).append(annotation)
        found = []
        for entry, record in zip(data.entries, records, strict=True):
            for person in people.get(entry.truth["image"], []):
                found.append(max((similarity(points, person) for _, points in record), default=0.0))
        if not found:
            raise InputError("no person with visible points in these pictures")
        values = np.array(found)
        return [MetricFigure("OKS", float(values.mean()), *mean_interval(values), len(values))]

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, Any]:
        return {}

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        return []

    def same(self, one: Any, other: Any) -> bool:
        if len(one) != len(other):
            return False
        return all(_near(a, b) for (_, a), (_, b) in zip(one, other, strict=True))

    def words(self, record: Any, data: Dataset) -> str:
        return ", ".join(f"person {score:.2f}" for score, _ in record[:4]) or "nobody"


def _near(one: Any, other: Any) -> bool:
    """Against a person of the size that its points span."""
    points = np.array(one)
    area = float(np.prod(np.maximum(np.ptp(points, axis=0), 1.0)))
    flat = [v for x, y in other for v in (x, y, 2)]
    return similarity(one, {"keypoints": flat, "area": area, "bbox": [0, 0, 1, 1]}) >= CHANGED


def similarity(points: Any, person: Any) -> float:
    """Mean over the labelled points of exp(-d^2 / (2 * area * (2 * constant)^2))."""
    truth = np.array(person["keypoints"], np.float64).reshape(-1, 3)
    got = np.array(points, np.float64)
    if len(got) != len(truth):
        raise InputError(f"the model has {len(got)} points, the annotations {len(truth)}")
    constants = {17: COCO, 13: WITHOUT_EYES}.get(len(truth), np.full(len(truth), OTHERS))
    area = person.get("area") or person["bbox"][2] * person["bbox"][3]
    seen = truth[:, 2] > 0
    squares = ((got - truth[:, :2]) ** 2).sum(axis=1)
    return float(np.exp(-squares / (2 * max(area, 1e-9) * (2 * constants) ** 2))[seen].mean())
