"""What outputs are worth: a record of each sample where it is computed, figures of all records at the end, each with an
interval: Wilson's for shares, the bootstrap with a fixed seed for everything else."""

from __future__ import annotations

import contextlib
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.insight.evaluating.boxes import HEADS, Decoder, overlaps, scale_of, table
from atonc.insight.evaluating.datasets import SEQUENCES, Dataset, Fit, user_function
from atonc.insight.evaluating.decoders import FAMILIES, decoder_for
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass

LEVELS = 101  # recalls 0, 0.01 ... 1
ALL = "all classes"


@dataclass(frozen=True)
class RecallCurve:
    """One class, or the mean over all that occur."""

    name: str
    positives: int  # how many there are to be found
    precision: tuple[float, ...]  # by recall

    @property
    def average(self) -> float:
        return float(np.mean(self.precision))

    def as_dict(self) -> dict[str, Any]:
        figures = {"positives": self.positives, "average_precision": round(self.average, 6)}
        return {"name": self.name, **figures, "precision": list(self.precision)}


def recall_curve(name: str, scores: NDArray[np.float64], right: NDArray[np.bool_]) -> RecallCurve:
    """One class against the rest: the score that each sample got for it, and whether it is of it. Equal scores are
    found together. As COCO has it: at 101 recalls, the best precision that any score with at least this recall reaches.
    """
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(right[order]), scores[order]
    last = np.flatnonzero(np.r_[ranked[1:] != ranked[:-1], True])  # of each score
    hits, counted = hits[last], last + 1
    positives = int(right.sum())
    best = np.maximum.accumulate((hits / counted)[::-1])[::-1]
    # in whole numbers: the first score that finds at least so many hundredths
    place = np.searchsorted(hits * (LEVELS - 1), np.arange(LEVELS) * positives)
    return RecallCurve(name, positives, tuple(round(float(value), 6) for value in best[place]))


def with_mean(curves: Sequence[RecallCurve]) -> tuple[RecallCurve, ...]:
    """The mean of all first."""
    if not curves:
        return ()
    mean = np.mean([curve.precision for curve in curves], axis=0)
    total = sum(curve.positives for curve in curves)
    return RecallCurve(ALL, total, tuple(round(float(value), 6) for value in mean)), *curves


Z = 1.959963984540054  # 95 %
ROUNDS, SEED = 1000, 20251115


def wilson(hits: int, count: int) -> tuple[float, float]:
    """E. B. Wilson 1927: where the true share lies with 95 % confidence."""
    if not count:
        return 0.0, 1.0
    share = hits / count
    middle = (share + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z / (1 + Z * Z / count) * sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if hits == 0 else low), (1.0 if hits == count else high)


def bootstrap(count: int, figure: Callable[[NDArray[np.intp]], float], rounds: int = ROUNDS) -> tuple[float, float]:
    """`figure` of drawn samples, by their numbers; the middle 95 % of many draws."""
    random = np.random.default_rng(SEED)
    found = np.array([figure(random.integers(0, count, count)) for _ in range(rounds)])
    found = found[np.isfinite(found)]
    if not found.size:
        return float("nan"), float("nan")
    low, high = np.percentile(found, (2.5, 97.5))
    return float(low), float(high)


def mean_interval(values: NDArray[Any]) -> tuple[float, float]:
    """Where a mean lies; if every value is 0 or 1 it is a share, and equal values prove no certainty."""
    if np.isin(values, (0, 1)).all():
        return wilson(int(values.sum()), len(values))
    return bootstrap(len(values), lambda drawn: float(values[drawn].mean()))


def difference_interval(one: NDArray[Any], other: NDArray[Any]) -> tuple[float, float]:
    """Where the mean of differences on the same samples lies. Shares: the intervals of both ways in which the two may
    disagree, joined as R. G. Newcombe does (1998), so that no disagreement on few samples is no proof."""
    if not np.isin(np.r_[one, other], (0, 1)).all():
        lead = one - other
        return bootstrap(len(lead), lambda drawn: float(lead[drawn].mean()))
    up, down, count = (one > other).sum(), (one < other).sum(), len(one)
    gain, loss = up / count, down / count
    (up_low, up_high), (down_low, down_high) = wilson(int(up), count), wilson(int(down), count)
    low = gain - loss - sqrt((gain - up_low) ** 2 + (down_high - loss) ** 2)
    return low, gain - loss + sqrt((up_high - gain) ** 2 + (loss - down_low) ** 2)


@dataclass(frozen=True)
class MetricFigure:
    """A figure with the interval in which it lies with 95 % confidence."""

    name: str
    value: float
    low: float
    high: float
    samples: int

    def as_dict(self) -> dict[str, Any]:
        """JSON has no word for what is not a number."""
        return {key: None if value != value else value for key, value in vars(self).items()}


def mean_figure(name: str, values: NDArray[Any]) -> MetricFigure:
    return MetricFigure(name, float(values.mean()), *mean_interval(values), len(values))


def drawn_figures(
    count: int, figures: Mapping[str, Callable[[Any], float]], rounds: int = ROUNDS
) -> list[MetricFigure]:
    """Figures of so many samples, each a function of the numbers of samples."""
    whole = np.arange(count)
    return [
        MetricFigure(name, figure(whole), *bootstrap(count, figure, rounds), count) for name, figure in figures.items()
    ]


Drawn = Mapping[str, Callable[[Any], float]]  # figures by name, of samples by their numbers


class Metric(ABC):
    """Both halves of a metric. What is here is that of one whose answers have no classes with scores."""

    name: str
    note = ""  # how outputs are read, where they leave that open

    @abstractmethod
    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """What is kept of the outputs of one sample, as plain JSON."""

    def values(self, records: Sequence[Any], data: Dataset) -> Mapping[str, NDArray[Any]]:
        """Figures that are means over the samples, with the value of every sample: they can be compared in pairs."""
        return {}

    def drawn(self, records: Sequence[Any], data: Dataset) -> Drawn:
        """Figures of all samples together, such as mAP: no means over samples."""
        return {}

    def rounds(self, count: int, data: Dataset) -> int:
        """Says how often the bootstrap draws."""
        return ROUNDS

    def figures(self, records: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        """Works out the figures of all samples, given in the order of the data."""
        count, drawn = len(records), self.drawn(records, data)
        means = [mean_figure(name, values) for name, values in self.values(records, data).items()]
        return [*drawn_figures(count, drawn, self.rounds(count, data)), *means]

    def differences(self, ours: Sequence[Any], theirs: Sequence[Any], data: Dataset) -> list[MetricFigure]:
        """Ours less theirs, on the same samples."""
        pairs = zip(self.drawn(ours, data).items(), self.drawn(theirs, data).values(), strict=True)
        found = {name: partial(lambda a, b, some: float(a(some) - b(some)), a, b) for (name, a), b in pairs}
        means = zip(self.values(ours, data).items(), self.values(theirs, data).values(), strict=True)
        return [
            *drawn_figures(len(ours), found, self.rounds(len(ours), data)),
            *(MetricFigure(name, float((a - b).mean()), *difference_interval(a, b), len(a)) for (name, a), b in means),
        ]

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        """Numbers of the samples whose answers are furthest from the truth, the worst first, where that is known."""
        return []

    def curves(self, records: Sequence[Any], data: Dataset) -> tuple[RecallCurve, ...]:
        """Precision against recall, the mean of all classes first; none where answers have no classes with scores."""
        return ()

    def same(self, one: Any, other: Any) -> bool:
        """Whether two records are the same answer."""
        return bool(one == other)

    @abstractmethod
    def words(self, record: Any, data: Dataset) -> str:
        """The answer for people."""


KEPT = 5
MOST_SCORES = 32  # classes of which every score is kept, so that each can have its curve


class Top(Metric):
    """Classifiers: whether the right class is the first, or among the first five."""

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


IGNORED = 255


class MeanIou(Metric):
    """Segmentation: mean over the classes of intersection over union."""

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

    def drawn(self, records: Sequence[Any], data: Dataset) -> Drawn:
        table: NDArray[np.int64] = np.array(records, np.int64)  # [samples, 3, classes]

        def mean(some: Any) -> float:
            both, answer, right = table[some].sum(axis=0)
            union = answer + right - both
            return float((both[union > 0] / union[union > 0]).mean()) if (union > 0).any() else float("nan")

        def pixels(some: Any) -> float:
            both, _, right = table[some].sum(axis=0)
            return float(both.sum() / max(1, right.sum()))

        return {"mean IoU": mean, "right pixels": pixels}

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        table: NDArray[np.int64] = np.array(records, np.int64)
        right = table[:, 0].sum(axis=1) / np.maximum(1, table[:, 2].sum(axis=1))
        return [int(k) for k in np.argsort(right, kind="stable") if right[k] < 1]

    def words(self, record: Any, data: Dataset) -> str:
        both, _, right = np.array(record)
        return f"{both.sum() / max(1, right.sum()):.2%} of the pixels right"


def classes_of(values: Array, shape: tuple[int, ...]) -> tuple[Array, int]:
    """The class of every pixel of the mask: nearest pixel of the output, largest value."""
    picture: Array = values.reshape(values.shape[-3:]) if values.ndim >= 3 else values
    if picture.ndim == 3 and picture.shape[0] < min(picture.shape[1:]):
        picture = np.moveaxis(picture, 0, -1)  # channels first
    found: Array
    if picture.ndim == 2 or values.dtype.kind in "iu":  # classes already
        found, count = picture.reshape(picture.shape[-2:]).astype(np.int64), IGNORED
    elif picture.shape[2] == 1:
        found, count = (picture[..., 0] > 0.5).astype(np.int64), 2
    else:
        found, count = picture.argmax(axis=2), picture.shape[2]
    rows = np.minimum((np.arange(shape[0]) + 0.5) * found.shape[0] / shape[0], found.shape[0] - 1).astype(int)
    columns = np.minimum((np.arange(shape[1]) + 0.5) * found.shape[1] / shape[1], found.shape[1] - 1).astype(int)
    return found[rows[:, None], columns], count


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

    return drawn_figures(len(table), {"cosine": cosine, "same code": equal})


class DistanceMetric(Metric):
    """Nothing but the distances, which are measured in any case."""

    name = "distance"

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        return [int(np.argmax(value)) for value in outputs]

    def words(self, record: Any, data: Dataset) -> str:
        return f"largest at {', '.join(map(str, record[:4]))}"


class UserMetric(Metric):
    """A function of the user, from outputs and truth to a number for each sample; more may be better or worse."""

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

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, NDArray[np.float64]]:
        return {self.name: np.array(records, np.float64)}

    def words(self, record: Any, data: Dataset) -> str:
        return f"{record:g}"


SHOWN = 0.5  # the score of boxes that count as an answer
SAME = 0.5  # overlap of boxes that are one
_ROUNDS, _MANY = 100, 200_000  # of the bootstrap; of pictures times classes, beyond which there are fewer


class Detection(Metric):
    """Detectors: mean average precision as COCO defines it, computed by pycocotools."""

    name = "map"

    def __init__(self, decoder: Decoder) -> None:
        if find_spec("pycocotools") is None:  # better known now than after hours
            raise ToolError("pycocotools is not installed", remedy="pip install 'atonc[evaluate]'")
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

    def drawn(self, records: Sequence[Any], data: Dataset) -> Drawn:
        evaluation = self._evaluated(records, data)
        return {name: partial(precision, evaluation, overlap) for name, overlap in (("mAP", None), ("mAP50", 0))}

    def rounds(self, count: int, data: Dataset) -> int:
        return _ROUNDS if count * len(data.classes) <= _MANY else _ROUNDS // 5

    def curves(self, records: Sequence[Any], data: Dataset) -> tuple[RecallCurve, ...]:
        """At an overlap of 0.5."""
        evaluation = self._evaluated(records, data)
        precision(evaluation, 0, np.arange(len(records)))
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
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        # annotations of others' tools leave out what can be worked out
        # and pycocotools takes what has the id 0 for not found
        told = enumerate(data.coco["annotations"], 1)
        filled = [{"iscrowd": 0, "area": a["bbox"][2] * a["bbox"][3], **a, "id": k} for k, a in told]
        truth.dataset = {**data.coco, "annotations": filled}
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


def precision(evaluation: Any, overlap: int | None, some: Any) -> float:
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


# COCO's constants for its 17 points: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles
COCO = np.array([26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89]) / 1000
WITHOUT_EYES = COCO[[0, *range(5, 17)]]  # the 13 points of ST's models
OTHERS = 0.05
NEAR = 0.2, 0.05  # of the longer side of a person's box: what counts as a correct key point
LEAST_SCORE, MOST_PERSONS = 0.25, 20
CHANGED = 0.9


class Keypoints(Metric):
    """Poses: object keypoint similarity, as COCO defines it, of every person and the nearest answer."""

    name = "keypoints"

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], side: tuple[int, int], decoder: Decoder | None = None
    ) -> None:
        """`decoder`: of a network whose boxes have points."""
        self.side, self.decoder, shape = side, decoder, shapes[0]
        if decoder is not None:
            return
        self._single = shape[-1] == 3 and len(shape) == 4 and shape[1] == 1
        self._map = len(shape) == 4 and not self._single
        many = len(shape) == 3 and min(shape[-2:]) > 5 and (min(shape[-2:]) - 5) % 3 == 0
        if len(shapes) != 1 or not (self._single or self._map or many):
            raise InputError(
                f"outputs {list(shapes)} are of no pose model that is known",
                rule="heat maps [1, rows, columns, points], points [1, 1, points, 3], or [1, 5 + 3 * points, boxes]",
            )

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """Persons: a score and points x, y in pixels of the picture."""
        return [
            [round(float(score), 6), [[round(float(v), 2) for v in point] for point in fit.back(points)]]
            for score, points in self._persons(outputs)
        ]

    def _persons(self, outputs: Sequence[Array]) -> list[tuple[float, Array]]:
        """Points in pixels of the input."""
        if self.decoder is not None:
            found = self.decoder(outputs)
            return [(float(score), points) for score, points in zip(found.scores, found.points, strict=True)]
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

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, NDArray[np.float64]]:
        """Gives for every person that the annotations have the nearest answer's similarity, and the share of its points
        that are near."""
        people: dict[Any, list[Any]] = {}
        for annotation in data.coco["annotations"]:
            if any(annotation.get("keypoints", [])[2::3]):
                people.setdefault(annotation["image_id"], []).append(annotation)
        found = []
        for entry, record in zip(data.entries, records, strict=True):
            seen = people.get(entry.truth["image"], [])
            for person in seen:
                alike, points = max(((similarity(p, person), p) for _, p in record), default=(0.0, None))
                found.append([alike, *(0.0 if points is None else near_points(points, person, s) for s in NEAR)])
        if not found:
            raise InputError("no person with visible points in these images")
        return dict(zip(("OKS", *(f"PCK@{share:g}" for share in NEAR)), np.array(found).T, strict=True))

    def same(self, one: Any, other: Any) -> bool:
        return len(one) == len(other) and all(_near(a, b) for (_, a), (_, b) in zip(one, other, strict=True))

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


def near_points(points: Any, person: Any, share: float) -> float:
    """PCK of Y. Yang and D. Ramanan 2013: which share of the labelled points is at most so far away."""
    truth = np.array(person["keypoints"], np.float64).reshape(-1, 3)
    away = np.hypot(*(np.array(points, np.float64) - truth[:, :2]).T)
    return float((away <= share * max(person["bbox"][2:]))[truth[:, 2] > 0].mean())


class EditDistance(Metric):
    """Sequences of classes (characters, phonemes, words), of any length, by greedy CTC decoding."""

    name = "edit"

    def __init__(self, shapes: Sequence[tuple[int, ...]], blank: int) -> None:
        steps, self.classes = prod(shapes[0][:-1]), shapes[0][-1]
        self.blank = blank if blank >= 0 else self.classes + blank
        if sum(size > 1 for size in shapes[0]) > 2 or not 0 <= self.blank < self.classes or self.classes < 2:
            raise InputError(
                f"an output {shapes[0]} with class {blank} as the blank",
                rule="the metric edit reads steps x classes, the classes along the last axis",
                remedy="--blank: the number of the blank class; -1: the last one",
            )
        self.note = f"the first output is read as {steps} steps of {self.classes} classes, {self.blank} is the blank"

    def record(self, outputs: Sequence[Array], truth: Any, fit: Fit) -> Any:
        """Edits that make the answer the truth, length of the truth, the answer."""
        labels = [int(label) for label in np.ravel(truth) if label >= 0]
        if self.blank in labels or max(labels, default=0) >= self.classes:
            raise InputError(
                f"a label of {labels[:20]} is the blank ({self.blank}), or none of {self.classes} classes",
                rule="labels [samples, length] are classes of the model, filled up with -1",
                remedy="say which class is the blank: --blank N (-1: the last)",
            )
        best = outputs[0].reshape(-1, self.classes).argmax(axis=1)
        runs = best[np.r_[True, best[1:] != best[:-1]]]
        answer = [int(k) for k in runs if k != self.blank]
        return [edits(answer, labels), len(labels), answer]

    def drawn(self, records: Sequence[Any], data: Dataset) -> Drawn:
        table = np.array([record[:2] for record in records], np.float64)

        def rate(some: Any) -> float:
            wrong, length = table[some].sum(axis=0)
            return float(wrong / length) if length else float("nan")

        return {"error rate": rate}

    def values(self, records: Sequence[Any], data: Dataset) -> dict[str, NDArray[np.float64]]:
        return {"all right": np.array([record[0] == 0 for record in records], np.float64)}

    def worst(self, records: Sequence[Any], data: Dataset) -> list[int]:
        return sorted((k for k, record in enumerate(records) if record[0]), key=lambda k: -records[k][0])

    def same(self, one: Any, other: Any) -> bool:
        return bool(one[2] == other[2])

    def words(self, record: Any, data: Dataset) -> str:
        return f"{' '.join(map(str, record[2])) or 'nothing'} ({record[0]} of {record[1]} wrong)"


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """V. I. Levenshtein 1966: the fewest insertions, deletions and substitutions that make one of the other."""
    row = list(range(len(other) + 1))
    for count, a in enumerate(one, 1):
        before, row = row, [count]
        for k, b in enumerate(other):
            row.append(min(before[k + 1] + 1, row[k] + 1, before[k] + (a != b)))
    return row[-1]


def metric_name(asked: str, data: Dataset) -> str:
    if asked != "auto":
        return asked
    if data.kind == "coco":
        points = any(a.get("keypoints") for a in data.coco["annotations"])
        return "keypoints" if points else "map"
    if data.kind == "masks":
        return "iou"
    if not data.labelled:
        return "distance"
    if data.kind == SEQUENCES:
        return "edit"
    return "top" if isinstance(data.entries[0].truth, int) else "iou"


def metric_for(
    name: str, words: Mapping[str, Any], outputs: Sequence[tuple[int, ...]], side: tuple[int, int]
) -> Metric:
    """`words`: decoder, anchors, iou, blank; `outputs`: shapes; `side`: width and height of the input."""
    if name == "map":
        decoder = decoder_for(words["decoder"], words["anchors"], outputs, side)
        return Detection(decoder.within(overlap=words["iou"] or decoder.limits.overlap))
    if name == "edit":
        return EditDistance(outputs, words["blank"])
    if name == "keypoints" and FAMILIES.get(words["decoder"], FAMILIES["yolov8"]).placed == HEADS:
        decoder = decoder_for(words["decoder"], words["anchors"], outputs, side)
        overlap = words["iou"] or decoder.limits.overlap
        return Keypoints(outputs, side, decoder.within(score=LEAST_SCORE, most=MOST_PERSONS, overlap=overlap))
    if name == "keypoints":
        return Keypoints(outputs, side)
    plain = {metric.name: metric for metric in (Top, MeanIou, DistanceMetric)}
    return plain[name]() if name in plain else UserMetric(name)


def require_categories(metric: Metric, data: Dataset, where: str) -> None:
    if isinstance(metric, Detection) and metric.decoder.classes != len(data.classes):
        raise InputError(
            f"{len(data.classes)} categories, the model has {metric.decoder.classes} classes",
            where=where,
            rule="the categories in the order of their ids are the classes of the model",
        )


def require_comparison(name: str, data: Dataset, options: EvaluateOptions) -> None:
    where = options.data
    if name == "distance" and not options.int8 and not options.float_model:
        raise InputError(
            "there is nothing to compare with",
            where=where,
            rule="without labels the NPU's outputs are compared with those of the int8 kernels or of the float model",
            remedy="leave out --no-int8, give --float MODEL, or samples with labels",
        )
    if name == "iou" and data.kind == "masks" and options.resize != "stretch":
        raise InputError("masks need --resize stretch", where=where)


def require_fit(name: str, data: Dataset, values: int, where: str) -> None:
    """Labels have classes, and the metric has what it needs. `values`: of the first output."""
    if name == "top":
        _require_classes(data, max(2, values), where)
    if name in ("map", "keypoints") and data.kind != "coco":
        raise InputError(f"the metric {name} needs boxes", where=where, remedy="give a COCO .json")
    if name == "keypoints" and not any(a.get("keypoints") for a in data.coco["annotations"]):
        raise InputError("no annotation has keypoints", where=where)
    if name == "edit" and data.kind != SEQUENCES:
        raise InputError("the metric edit needs sequences", where=where, remedy="give labels [N, length] in a .npz")
    if name == "iou" and (not data.labelled or data.kind == SEQUENCES or isinstance(data.entries[0].truth, int)):
        raise InputError("the metric iou needs masks", where=where, remedy="give images/ and masks/, or labels [N,H,W]")


def _require_classes(data: Dataset, count: int, where: str) -> None:
    labels = [entry.truth for entry in data.entries]
    if not all(isinstance(label, int) for label in labels):
        remedy = "give an array `labels`, or --metric distance"
        raise InputError("the samples have no labels", where=where, remedy=remedy)
    wrong = next((label for label in labels if not 0 <= label < count), None)
    if wrong is not None:
        raise InputError(
            f"there is a label {wrong}, the model has {count} classes",
            where=where,
            rule="labels are 0 up to the number of classes",
            remedy="number them as the model does; folders count in the order of their names",
        )
    if data.classes and len(data.classes) != count:
        raise InputError(
            f"{len(data.classes)} folders of classes, the model has {count} classes",
            where=where,
            rule="the folders in the order of their names are the classes of the model",
            remedy="make a folder for each class, empty ones too",
        )
