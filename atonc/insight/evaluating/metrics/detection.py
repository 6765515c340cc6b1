"""Detectors: mean average precision as COCO defines it, computed by pycocotools."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.evaluating.decoders.boxes import Decoder, overlaps
from atonc.insight.evaluating.metrics.base import MetricFigure
from atonc.insight.evaluating.metrics.curves import RecallCurve, with_mean
from atonc.insight.evaluating.metrics.intervals import bootstrap
from atonc.insight.evaluating.metrics.top import class_name
from atonc.insight.evaluating.pictures import Fit
from atonc.machine.base.errors import ToolError

if TYPE_CHECKING:
    from atonc.insight.evaluating.datasets import Dataset

SHOWN = 0.5  # the score of boxes that count as an answer
SAME = 0.5  # overlap of boxes that are one
_ROUNDS, _MANY = 100, 200_000  # of the bootstrap; of pictures times classes, beyond which there are fewer


class Detection:
    name = "map"

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self._last: tuple[Sequence[Any], Any] = ((), None)  # records and their evaluation: it takes long

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """Boxes in pixels of the picture: x, y, width, height, score, class."""
        boxes = self.decoder(outputs)
        corners = fit.back(boxes.corners.reshape(-1, 2, 2))
        corners = np.clip(corners, 0.0, np.array(fit.size, np.float64)).reshape(-1, 4)
        rows = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
        return [
            [*(round(float(v), 3) for v in row), round(float(score), 6), int(number)]
            for row, score, number in zip(rows, boxes.scores, boxes.classes, strict=True)
        ]

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        evaluation = self._evaluated(records, data)
        count, classes = len(records), len(evaluation.params.catIds)
        rounds = _ROUNDS if count * classes <= _MANY else _ROUNDS // 5
        whole = np.arange(count)
        return [
            MetricFigure(
                name,
                precision(evaluation, whole, overlap),
                *bootstrap(count, lambda some, o=overlap: precision(evaluation, some, o), rounds),  # type: ignore[misc]
                count,
            )
            for name, overlap in (("mAP", None), ("mAP50", 0))
        ]

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, Any]:
        return {}

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        return []

    def curves(self, records: Sequence[Any], data: Dataset) -> tuple[RecallCurve, ...]:
        """At an overlap of 0.5."""
        evaluation = self._evaluated(records, data)
        precision(evaluation, np.arange(len(records)), 0)
        found = evaluation.eval["precision"][0, :, :, 0, 0]  # [recalls, classes]
        images = {entry.truth["image"] for entry in data.entries}
        boxes = [a for a in data.coco["annotations"] if a["image_id"] in images and not a.get("iscrowd")]
        curves = []
        for k, category in enumerate(evaluation.params.catIds):
            if (found[:, k] > -1).all():  # else there is none to be found
                count = int(sum(box["category_id"] == category for box in boxes))
                line = tuple(round(float(value), 6) for value in found[:, k])
                curves.append(RecallCurve(class_name(k, data), count, line))
        return with_mean(curves)

    def _evaluated(self, records: Sequence[Any], data: Dataset) -> Any:
        if self._last[0] is not records:
            self._last = records, evaluated(records, data)
        return self._last[1]

    def same(self, one: Any, other: Any) -> bool:
        """Each box of either side has one of its class at the same place on the other."""
        a, b = ([row for row in side if row[4] >= SHOWN] for side in (one, other))
        return len(a) == len(b) and all(_met(row, b) for row in a) and all(_met(row, a) for row in b)

    def words(self, record: Any, data: Dataset) -> str:
        shown = [row for row in record if row[4] >= SHOWN]
        return ", ".join(f"{class_name(row[5], data)} {row[4]:.2f}" for row in shown[:6]) or "nothing"


def _met(row: list[float], others: list[list[float]]) -> bool:
    own = np.array([o for o in others if o[5] == row[5]])
    if not own.size:
        return False
    corners = np.concatenate([own[:, :2], own[:, :2] + own[:, 2:4]], axis=1)
    box = np.array([row[0], row[1], row[0] + row[2], row[1] + row[3]])
    return bool(overlaps(box, corners).max() >= SAME)


def evaluated(records: Sequence[Any], data: Dataset) -> Any:
    """pycocotools' evaluation of every picture and class."""
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError:
        raise ToolError("pycocotools is not installed", remedy="pip install 'atonc[evaluate]'") from None
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = with_areas(data.coco)
        truth.createIndex()
        names = sorted(truth.cats)
        images = [entry.truth["image"] for entry in data.entries]
        answers = [
            {"image_id": image, "category_id": names[row[5]], "bbox": row[:4], "score": row[4]}
            for image, rows in zip(images, records, strict=True)
            for row in rows
        ]
        if answers:
            found = truth.loadRes(answers)
        else:
            found = COCO()
            found.dataset = {**data.coco, "annotations": []}
            found.createIndex()
        evaluation = COCOeval(truth, found, "bbox")
        evaluation.params.imgIds, evaluation.params.catIds = images, names
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.params.maxDets = [100]
        evaluation.evaluate()
    return evaluation


def with_areas(document: Any) -> dict[str, Any]:
    """Annotations of others' tools leave out what can be worked out."""
    filled = [{"iscrowd": 0, "area": a["bbox"][2] * a["bbox"][3], **a} for a in document["annotations"]]
    return {**document, "annotations": filled}


def precision(evaluation: Any, some: Any, overlap: int | None) -> float:
    """Mean average precision of these pictures, which may come up several times; at one overlap or over all."""
    whole, images = evaluation.evalImgs, sorted(set(evaluation.params.imgIds))
    order = {image: k for k, image in enumerate(evaluation._paramsEval.imgIds)}
    places = np.array([order[image] for image in images])[some]
    count, classes = len(images), len(evaluation.params.catIds)
    evaluation.evalImgs = [whole[k * count + place] for k in range(classes) for place in places]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation.accumulate()
    finally:
        evaluation.evalImgs = whole
    found = evaluation.eval["precision"]  # [overlaps, recalls, classes, areas, most]
    found = found if overlap is None else found[overlap]
    return float(found[found > -1].mean()) if (found > -1).any() else float("nan")
