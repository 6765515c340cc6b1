"""What a metric cannot judge is said with what it found, and what it would take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from atonc.insight.evaluating import metrics
from atonc.insight.evaluating.metrics import EditDistance, Keypoints, MeanIou, UserMetric
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.machine.base.errors import InputError

FIT: Any = None


def data(kind: str = "folder", labels: Sequence[Any] = (0, 1), classes: Sequence[str] = (), **more: Any) -> Any:
    entries = [SimpleNamespace(truth=label) for label in labels]
    return SimpleNamespace(**{"kind": kind, "entries": entries, "classes": classes, "labelled": True} | more)


def user(function: Callable[..., object]) -> UserMetric:
    metric = UserMetric.__new__(UserMetric)
    metric.name, metric.function = "mine.py:f", function
    return metric


def need(name: str, **more: Any) -> Callable[[], object]:
    return lambda: metrics.require_fit(name, data(**more), 3, "data")


PERSON = {"keypoints": [1, 1, 2] * 17, "area": 4.0, "bbox": [0, 0, 2, 2]}
CASES: list[tuple[Callable[[], object], str]] = [
    (lambda: MeanIou().record([np.zeros((1, 2, 2, 3))], np.full((2, 2), 3), FIT), "a mask has class 3, the model 3"),
    (lambda: user(lambda *_: 1 / 0).record([], 0, FIT), "failed: ZeroDivisionError: division by zero"),
    (lambda: user(lambda *_: float("nan")).record([], 0, FIT), "gives nan"),
    (lambda: Keypoints([(1, 64)], (8, 8)), "outputs [(1, 64)] are of no pose model that is known"),
    (lambda: Keypoints([(1, 4, 4, 17)] * 2, (8, 8)), "outputs [(1, 4, 4, 17), (1, 4, 4, 17)] are of no pose model"),
    (lambda: Keypoints([(1, 57, 21)], (8, 8)), "outputs [(1, 57, 21)] are of no pose model that is known"),
    (lambda: metrics.similarity(np.zeros((13, 2)), PERSON), "the model has 13 points, the annotations 17"),
    (lambda: EditDistance([(1, 10, 5)], 5), "an output (1, 10, 5) with class 5 as the blank"),
    (lambda: EditDistance([(1, 10, 5)], -6), "an output (1, 10, 5) with class -6 as the blank"),
    (lambda: EditDistance([(2, 10, 5)], 0), "an output (2, 10, 5) with class 0 as the blank"),
    (lambda: EditDistance([(1, 10, 1)], 0), "an output (1, 10, 1) with class 0 as the blank"),
    (lambda: EditDistance([(4, 5)], 0).record([np.zeros((4, 5))], [1, 0], FIT), "a label of [1, 0] is the blank (0)"),
    (lambda: EditDistance([(4, 5)], 0).record([np.zeros((4, 5))], [5], FIT), "a label of [5] is the blank (0), or"),
    (need("map"), "the metric map needs boxes"),
    (need("keypoints", kind="folder"), "the metric keypoints needs boxes"),
    (need("keypoints", kind="coco", coco={"annotations": [{"bbox": [0, 0, 1, 1]}]}), "no annotation has keypoints"),
    (need("edit"), "the metric edit needs sequences"),
    (need("iou"), "the metric iou needs masks"),
    (need("iou", labels=[np.zeros((2, 2))], labelled=False), "the metric iou needs masks"),
    (need("iou", labels=[np.zeros((2, 2))], kind=metrics.SEQUENCES), "the metric iou needs masks"),
    (need("top", labels=[0, None]), "the samples have no labels"),
    (need("top", labels=[0, 3]), "there is a label 3, the model has 3 classes"),
    (need("top", labels=[-1]), "there is a label -1, the model has 3 classes"),
    (need("top", classes=["a", "b"]), "2 folders of classes, the model has 3 classes"),
    (
        lambda: metrics.require_comparison("distance", data(), EvaluateOptions(data="d", int8=False)),
        "there is nothing to compare with",
    ),
    (
        lambda: metrics.require_comparison("iou", data("masks"), EvaluateOptions(data="d", resize="crop")),
        "masks need --resize stretch",
    ),
]


@pytest.mark.parametrize(("asked", "said"), CASES, ids=range(len(CASES)))
def test_what_cannot_be_judged(asked: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError) as refused:
        asked()
    assert refused.value.what.startswith(said)


def test_what_fits() -> None:
    for asked in (
        need("top", labels=[0, 2], classes=["a", "b", "c"]),
        need("iou", labels=[np.zeros((2, 2))]),
        need("edit", kind=metrics.SEQUENCES),
        need("map", kind="coco"),
        need("keypoints", kind="coco", coco={"annotations": [{}, {"keypoints": [1, 1, 2]}]}),
    ):
        asked()
    for shape in ((1, 4, 4, 17), (1, 1, 17, 3), (1, 56, 2100), (1, 2100, 56)):
        Keypoints([shape], (8, 8))
    assert EditDistance([(1, 10, 5)], -1).blank == 4
    assert user(lambda outputs, truth: truth).record([], 3, FIT) == 3.0
    record = EditDistance([(4, 5)], 0).record([np.eye(5)[[1, 1, 0, 1]]], [1, 1, -1], FIT)
    assert record == [0, 2, [1, 1]]
    assert metrics.similarity(np.ones((17, 2)), PERSON) == 1.0
    assert metrics.near_points(np.ones((17, 2)), PERSON, 0.2) == 1.0
