"""Segmentation: mean over the classes of intersection over union."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.insight.evaluating.metrics.base import MetricFigure, WithoutCurves
from atonc.insight.evaluating.metrics.intervals import bootstrap
from atonc.insight.evaluating.pictures import Fit
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.insight.evaluating.datasets import Dataset

IGNORED = 255


class MeanIou(WithoutCurves):
    name = "iou"

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """Counts for each class the pixels in both, in the answer, in the truth."""
        mask = np.asarray(truth)
        got, classes = classes_of(outputs[0], mask.shape)
        seen = mask != IGNORED
        if mask[seen].max(initial=0) >= classes:
            raise InputError(f"a mask has class {int(mask[seen].max())}, the model {classes} classes")
        mask, got = mask[seen].astype(np.int64), got[seen]
        both = np.bincount(mask[mask == got], minlength=classes)
        answer, right = np.bincount(got, minlength=classes), np.bincount(mask, minlength=classes)
        return [[int(v) for v in counts] for counts in (both, answer, right)]

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        table: NDArray[np.int64] = np.array(records, np.int64)  # [samples, 3, classes]

        def mean(some: Any) -> float:
            both, answer, right = table[some].sum(axis=0)
            union = answer + right - both
            return float((both[union > 0] / union[union > 0]).mean()) if (union > 0).any() else float("nan")

        def pixels(some: Any) -> float:
            both, _, right = table[some].sum(axis=0)
            return float(both.sum() / max(1, right.sum()))

        whole = np.arange(len(table))
        return [
            MetricFigure(name, figure(whole), *bootstrap(len(table), figure), len(table))
            for name, figure in (("mean IoU", mean), ("right pixels", pixels))
        ]

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, Any]:
        return {}

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        table: NDArray[np.int64] = np.array(records, np.int64)
        right = table[:, 0].sum(axis=1) / np.maximum(1, table[:, 2].sum(axis=1))
        return [int(k) for k in np.argsort(right, kind="stable") if right[k] < 1]

    def same(self, one: Any, other: Any) -> bool:
        return bool(one == other)

    def words(self, record: Any, data: Dataset) -> str:
        both, _, right = np.array(record)
        return f"{both.sum() / max(1, right.sum()):.2%} of the pixels right"


def _flat(picture: Array) -> Array:
    found: Array = picture.reshape(picture.shape[-2:]).astype(np.int64)
    return found


def classes_of(values: Array, shape: tuple[int, ...]) -> tuple[Array, int]:
    """The class of every pixel of the mask: nearest pixel of the output, largest value."""
    picture: Array = values.reshape(values.shape[-3:]) if values.ndim >= 3 else values
    if picture.ndim == 3 and picture.shape[0] < min(picture.shape[1:]):
        picture = np.moveaxis(picture, 0, -1)  # channels first
    if picture.ndim == 2 or values.dtype.kind in "iu":  # classes already
        found, count = _flat(picture), IGNORED
    elif picture.shape[2] == 1:
        found, count = (picture[..., 0] > 0.5).astype(np.int64), 2
    else:
        found, count = picture.argmax(axis=2), picture.shape[2]
    rows = np.minimum((np.arange(shape[0]) + 0.5) * found.shape[0] / shape[0], found.shape[0] - 1).astype(int)
    columns = np.minimum((np.arange(shape[1]) + 0.5) * found.shape[1] / shape[1], found.shape[1] - 1).astype(int)
    return found[rows[:, None], columns], count
