"""Mean average precision with our decoders against reference decoders, written here once more from the published
formulas, box by box: 50 pictures with boxes that this file makes, for each family.

Sources: ultralytics' documentation of exported YOLOv8 models; "YOLOX: Exceeding YOLO Series in 2021" and its ONNX
demo; "SSD: Single Shot MultiBox Detector" (variances 0.1 and 0.2); the description of st_yolo_x and SSD
post-processing in ST's model zoo; BlazeFace of MediaPipe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.insight.evaluating.datasets.types import Dataset, DatasetEntry
from atonc.insight.evaluating.decoders.choose import decoder_for, family
from atonc.insight.evaluating.metrics.detection import Detection
from atonc.insight.evaluating.pictures import Fit

PICTURES, SIDE, CLASSES = 50, 64, 2
Box = tuple[float, float, float, float, float, int]  # corners, score, class


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Pictures of 64 pixels, each with one to three boxes."""
    random = np.random.default_rng(7)
    images, annotations = [], []
    for image in range(PICTURES):
        images.append({"id": image, "file_name": f"{image}.png"})
        for _ in range(random.integers(1, 4)):
            w, h = random.uniform(8, 30, 2)
            x, y = random.uniform(0, SIDE - w), random.uniform(0, SIDE - h)
            box = {"id": len(annotations) + 1, "image_id": image, "bbox": [x, y, w, h], "area": w * h, "iscrowd": 0}
            annotations.append({**box, "category_id": int(random.integers(1, CLASSES + 1))})
    document = {"images": images, "annotations": annotations, "categories": [{"id": 1}, {"id": 2}]}
    entries = tuple(DatasetEntry(f"{k}", Path(f"{k}.png"), truth={"image": k}) for k in range(PICTURES))
    return Dataset("coco", entries, ("one", "two"), coco=document)


def truths(data: Dataset, image: int) -> list[Any]:
    return [a for a in data.coco["annotations"] if a["image_id"] == image]


# ------------------------------------------------------------------------------- references, one box after another


def sig(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def overlap(a: Box, b: Box) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h)


def greedy(boxes: list[Box], most: float = 0.5) -> list[Box]:
    kept: list[Box] = []
    for box in sorted((b for b in boxes if b[4] > 0.001), key=lambda b: -b[4]):
        if all(k[5] != box[5] or overlap(k, box) <= most for k in kept):
            kept.append(box)
    return kept[:100]


def centred(x: float, y: float, w: float, h: float, score: float, number: int) -> Box:
    return x - w / 2, y - h / 2, x + w / 2, y + h / 2, score, number


def reference_yolov8(outputs: list[Any]) -> list[Box]:
    rows = outputs[0][0]  # [4 + classes, boxes]
    found = []
    for k in range(rows.shape[1]):
        x, y, w, h = (float(v) * SIDE for v in rows[:4, k])
        found += [centred(x, y, w, h, float(rows[4 + c, k]), c) for c in range(CLASSES)]
    return greedy(found)


def reference_yolox(outputs: list[Any]) -> list[Box]:
    found, at = [], 0
    for stride in (8, 16, 32):
        for row in range(SIDE // stride):
            for column in range(SIDE // stride):
                v = [float(n) for n in outputs[0][0, at]]
                x, y = (v[0] + column) * stride, (v[1] + row) * stride
                w, h = math.exp(v[2]) * stride, math.exp(v[3]) * stride
                found += [centred(x, y, w, h, v[4] * v[5 + c], c) for c in range(CLASSES)]
                at += 1
    return greedy(found)


def reference_st_yolox(outputs: list[Any]) -> list[Box]:
    found = []
    for output in outputs:
        rows, columns = output.shape[1:3]
        for row in range(rows):
            for column in range(columns):
                v = [float(n) for n in output[0, row, column]]
                x, y = (column + sig(v[0])) / columns * SIDE, (row + sig(v[1])) / rows * SIDE
                w, h = math.exp(v[2]) * 0.5 * SIDE, math.exp(v[3]) * 0.5 * SIDE
                total = sum(math.exp(n) for n in v[5:])
                found += [centred(x, y, w, h, sig(v[4]) * math.exp(v[5 + c]) / total, c) for c in range(CLASSES)]
    return greedy(found)


def reference_ssd(outputs: list[Any]) -> list[Box]:
    found = []
    for (ax, ay, aw, ah), scores, offsets in zip(ANCHORS, outputs[0][0], outputs[1][0], strict=True):
        tx, ty, tw, th = (float(v) for v in offsets)
        x, y = (ax + tx * 0.1 * aw) * SIDE, (ay + ty * 0.1 * ah) * SIDE
        w, h = aw * math.exp(tw * 0.2) * SIDE, ah * math.exp(th * 0.2) * SIDE
        found += [centred(x, y, w, h, float(scores[1 + c]), c) for c in range(CLASSES)]
    return greedy(found)


def reference_st_ssd(outputs: list[Any]) -> list[Box]:
    found = []
    for scores, offsets, (x1, y1, x2, y2) in zip(*(output[0] for output in outputs), strict=True):
        w, h = x2 - x1, y2 - y1
        moved = (x1 + offsets[0] * w, y1 + offsets[1] * h, x2 + offsets[2] * w, y2 + offsets[3] * h)
        corners = tuple(float(v) * SIDE for v in moved)
        found += [(*corners, float(scores[1 + c]), c) for c in range(CLASSES)]
    return greedy(found)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------- outputs that know where the boxes are

ANCHORS = [
    ((c + 0.5) / 8, (r + 0.5) / 8, s, s) for r in range(8) for c in range(8) for s in (0.2, 0.4)
]  # x, y, w, h


def blurred(random: np.random.Generator, truth: list[Any]) -> list[tuple[float, float, float, float, int, float]]:
    """Where a detector would see the boxes: about right, mostly with a high score, now and then of another class."""
    found = []
    for a in truth:
        x, y, w, h = a["bbox"]
        x, y = x + w / 2 + random.normal(0, 1.5), y + h / 2 + random.normal(0, 1.5)
        h = h * random.uniform(0.8, 1.2)
        number = (a["category_id"] - 1 + int(random.random() < 0.2)) % CLASSES
        found.append((x, y, w, h, number, random.uniform(0.3, 0.95)))
    return found


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def make_yolov8(random: np.random.Generator, truth: list[Any]) -> list[Any]:
    rows = random.uniform(0, 1, (1, 4 + CLASSES, 84))
    rows[:, 4:] *= 0.2
    for k, (x, y, w, h, number, score) in enumerate(blurred(random, truth)):
        rows[0, :4, 5 * k] = np.array([x, y, w, h]) / SIDE
        rows[0, 4 + number, 5 * k] = score
    return [rows]


def make_yolox(random: np.random.Generator, truth: list[Any]) -> list[Any]:
    rows = random.normal(0, 0.5, (1, 84, 5 + CLASSES))
    rows[..., 4:] = random.uniform(0, 0.3, (1, 84, 1 + CLASSES))
    for x, y, w, h, number, score in blurred(random, truth):
        column, row = min(7, max(0, int(x // 8))), min(7, max(0, int(y // 8)))
        at = row * 8 + column
        rows[0, at, :4] = x / 8 - column, y / 8 - row, math.log(w / 8), math.log(h / 8)
        rows[0, at, 4], rows[0, at, 5 + number] = 1.0, score
    return [rows]


def make_st_yolox(random: np.random.Generator, truth: list[Any]) -> list[Any]:
    grids = [random.normal(-1, 1, (1, n, n, 5 + CLASSES)) for n in (8, 4, 2)]
    for grid in grids:
        grid[..., 4] -= 3
    for x, y, w, h, number, score in blurred(random, truth):
        column, row = min(7, max(0, int(x // 8))), min(7, max(0, int(y // 8)))
        shares = np.clip([x / 8 - column, y / 8 - row], 0.01, 0.99)
        grids[0][0, row, column, :4] = *map(logit, shares), math.log(w / 32), math.log(h / 32)
        grids[0][0, row, column, 4], grids[0][0, row, column, 5 + number] = logit(score), 4.0
    return grids


def _scores(random: np.random.Generator, count: int) -> Any:
    scores = random.uniform(0, 0.1, (1, count, 1 + CLASSES))
    scores[..., 0] = 1 - scores[..., 1:].sum(axis=-1)
    return scores


def make_ssd(random: np.random.Generator, truth: list[Any]) -> list[Any]:
    scores, offsets = _scores(random, len(ANCHORS)), random.normal(0, 1, (1, len(ANCHORS), 4))
    for x, y, w, h, number, score in blurred(random, truth):
        at = 2 * (min(7, max(0, int(y // 8))) * 8 + min(7, max(0, int(x // 8)))) + int(w > 20)
        ax, ay, aw, ah = ANCHORS[at]
        offsets[0, at] = (x / SIDE - ax) / aw / 0.1, (y / SIDE - ay) / ah / 0.1, *(
            math.log(v) / 0.2 for v in (w / SIDE / aw, h / SIDE / ah)
        )
        scores[0, at] = 0.02
        scores[0, at, 1 + number] = score
    return [scores, offsets]


def make_st_ssd(random: np.random.Generator, truth: list[Any]) -> list[Any]:
    anchors = np.array([[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in ANCHORS])
    scores, offsets = _scores(random, len(anchors)), random.normal(0, 0.3, (1, len(anchors), 4))
    for x, y, w, h, number, score in blurred(random, truth):
        at = 2 * (min(7, max(0, int(y // 8))) * 8 + min(7, max(0, int(x // 8)))) + int(w > 20)
        box = np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2]) / SIDE
        offsets[0, at] = (box - anchors[at]) / np.tile(anchors[at, 2:] - anchors[at, :2], 2)
        scores[0, at] = 0.02
        scores[0, at, 1 + number] = score
    return [scores, offsets, anchors[None]]


FAMILIES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "yolov8": (make_yolov8, reference_yolov8),
    "yolox": (make_yolox, reference_yolox),
    "st_yolox": (make_st_yolox, reference_st_yolox),
    "ssd": (make_ssd, reference_ssd),
    "st_ssd": (make_st_ssd, reference_st_ssd),
}


def coco_figures(data: Dataset, boxes: list[list[Box]]) -> tuple[float, float]:
    """Straight through pycocotools, with its own summary."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth = COCO()
    truth.dataset = dict(data.coco)
    truth.createIndex()
    answers = []
    for image, found in enumerate(boxes):
        for x1, y1, x2, y2, score, number in found:
            x1, x2, y1, y2 = (min(max(v, 0.0), float(SIDE)) for v in (x1, x2, y1, y2))
            box = [round(v, 3) for v in (x1, y1, x2 - x1, y2 - y1)]
            one = {"image_id": image, "category_id": number + 1, "bbox": box, "score": round(score, 6)}
            answers.append(one)
    evaluation = COCOeval(truth, truth.loadRes(answers), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats[0]), float(evaluation.stats[1])


@pytest.mark.parametrize("name", FAMILIES)
def test_map_is_that_of_the_reference_decoder(name: str, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atonc.insight.evaluating.metrics.detection._ROUNDS", 10)
    make, reference = FAMILIES[name]
    random = np.random.default_rng(11)
    outputs = [make(random, truths(data, k)) for k in range(PICTURES)]
    anchors = [v for anchor in ANCHORS for v in anchor] if name == "ssd" else []
    decoder = decoder_for(name, anchors, [value.shape for value in outputs[0]], (SIDE, SIDE))
    assert decoder.classes == CLASSES
    metric, fit = Detection(decoder), Fit(size=(SIDE, SIDE), input_size=(SIDE, SIDE))
    records = [metric.record(values, None, fit) for values in outputs]
    figures = metric.figures(records, data)
    wanted = coco_figures(data, [reference(values) for values in outputs])
    assert [figure.value for figure in figures] == pytest.approx(wanted, abs=1e-9)
    assert 0.2 < wanted[0] < wanted[1] < 1  # boxes that are about right
    assert all(figure.low <= figure.value <= figure.high for figure in figures)
    assert name == "yolox" or family([value.shape for value in outputs[0]]) == name


def test_blazeface_finds_the_box_of_its_anchor() -> None:
    """Anchor 5 of the 16 x 16 grid is the second of the third cell."""
    boxes = [np.zeros((1, 512, 16)), np.full((1, 512, 1), -50.0), np.full((1, 384, 1), -50.0), np.zeros((1, 384, 16))]
    boxes[0][0, 5, :4], boxes[1][0, 5] = (3, -2, 20, 10), 200.0
    boxes[3][0, 7, :4], boxes[2][0, 7] = (1, 1, 30, 30), 0.5
    decoder = decoder_for("auto", [], [value.shape for value in boxes], (128, 128))
    found = decoder(boxes)
    np.testing.assert_allclose(found.corners[0], [20 + 3 - 10, 4 - 2 - 5, 20 + 3 + 10, 4 - 2 + 5])
    np.testing.assert_allclose(found.corners[1], [24 + 1 - 15, 8 + 1 - 15, 24 + 1 + 15, 8 + 1 + 15])
    np.testing.assert_allclose(found.scores, [1.0, 1 / (1 + math.exp(-0.5))])


def test_boxes_go_back_to_the_picture_from_a_letterbox() -> None:
    fit = Fit((0.5, 0.5), (0.0, 16.0), (128, 64), (64, 64))
    np.testing.assert_allclose(fit.back(np.array([[32.0, 32.0]])), [[64.0, 32.0]])
