"""Outputs of detectors as boxes with scores and classes: a class for each family, and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from atonc.compiler.inputs.arrays import read_arrays
from atonc.compiler.ir import Array
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

LEAST_SCORE = 0.001  # below, boxes change no figure
MOST_BEFORE, MOST_BOXES = 3000, 100
MOST_OVERLAP = 0.5
Shapes = Sequence[tuple[int, ...]]
_LARGEST = 20.0  # exponents of sizes beyond all pictures


@dataclass(frozen=True)
class Boxes:
    """Corners x1, y1, x2, y2 in pixels of the input; the best first."""

    corners: Array
    scores: Array
    classes: Array


@dataclass(frozen=True)
class Decoder:
    """Outputs of these shapes as boxes; those of another family are refused."""

    side: tuple[int, int]  # width and height of the input
    shapes: tuple[tuple[int, ...], ...]

    @property
    def classes(self) -> int:
        raise NotImplementedError

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        raise NotImplementedError

    @property
    def pixels(self) -> Array:
        """What a share of the input is worth, along x and y."""
        return np.array(self.side, np.float64)


def sigmoid(values: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-np.clip(values.astype(np.float64), -60, 60)))


def from_centres(centres: Array, sizes: Array) -> Array:
    return np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=-1)


def overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of one box with others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    areas = np.prod(np.clip(others[:, 2:] - others[:, :2], 0, None), axis=1)
    own = np.prod(np.clip(box[2:] - box[:2], 0, None))
    return shared / np.maximum(own + areas - shared, 1e-12)


def suppressed(corners: Array, scores: Array, most_overlap: float = MOST_OVERLAP, least: float = LEAST_SCORE) -> Boxes:
    """`scores` [boxes, classes]: every class by itself; of boxes that overlap more, the best stays."""
    which, classes = np.nonzero(scores > least)
    values = scores[which, classes]
    order = np.argsort(-values, kind="stable")[:MOST_BEFORE]
    which, classes, values = which[order], classes[order], values[order]
    kept: list[int] = []
    for number in np.unique(classes):
        own = np.flatnonzero(classes == number)
        while own.size:
            kept.append(int(own[0]))
            rest = own[1:]
            own = rest[overlaps(corners[which[own[0]]], corners[which[rest]]) <= most_overlap]
    best = np.array(sorted(kept, key=lambda k: (-values[k], k))[:MOST_BOXES], dtype=np.intp)
    return Boxes(corners[which[best]], values[best], classes[best])


def grid(columns: int, rows: int) -> Array:
    """Column and row of every cell: [rows, columns, 2]."""
    return np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1)


def flat(output: Array) -> Array:
    """[boxes, values]"""
    found: Array = output.reshape(output.shape[-2:]).astype(np.float64)
    return found


def table(outputs: Sequence[Array]) -> Array:
    """[boxes, values] of one output: there are more boxes than values."""
    whole: Array = outputs[0].reshape(outputs[0].shape[-2:])
    return whole.T if whole.shape[0] < whole.shape[1] else whole


def scale_of(rows: Array, side: tuple[int, int]) -> Array:
    """Pixels for each unit of the coordinates: shares of the input are hardly beyond 1, pixels are."""
    shares = float(np.abs(rows[:, :4]).max(initial=0.0)) <= 2.0
    return np.array(side if shares else (1, 1), np.float64)


@dataclass(frozen=True)
class YoloV8(Decoder):
    """YOLOv8 as its exports give it: [1, 4 + classes, boxes] or [1, boxes, 4 + classes].

    Centres and sizes are in pixels of the input, or in shares of it as TFLite exports have them; scores are
    probabilities already. (https://docs.ultralytics.com: output of an exported detection model)
    """

    def __post_init__(self) -> None:
        if len(self.shapes) != 1 or len(self.shapes[0]) < 2 or min(self.shapes[0][-2:]) < 5:
            raise InputError(
                f"outputs {list(self.shapes)} are not those of YOLOv8", rule="one output [1, 4 + classes, boxes]"
            )

    @property
    def classes(self) -> int:
        return min(self.shapes[0][-2:]) - 4

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        rows = table(outputs).astype(np.float64)
        unit = scale_of(rows, self.side)
        return suppressed(from_centres(rows[:, :2] * unit, rows[:, 2:4] * unit), rows[:, 4:])


STRIDES = (8, 16, 32)


@dataclass(frozen=True)
class Yolox(Decoder):
    """YOLOX (Ge and others 2021) as its exports give it: one output [1, boxes, 5 + classes] for the strides 8, 16, 32.

    Scores are probabilities already. A box has the centre (cell + value) * stride and the size exp(value) * stride.
    """

    def __post_init__(self) -> None:
        boxes = len(self._cells()[0])
        if len(self.shapes) != 1 or self.shapes[0][-2] != boxes or self.shapes[0][-1] < 6:
            raise InputError(
                f"outputs {list(self.shapes)} are not those of YOLOX", rule=f"one output [1, {boxes}, 5 + classes]"
            )

    @property
    def classes(self) -> int:
        return self.shapes[0][-1] - 5

    def _cells(self) -> tuple[Array, Array]:
        """Column and row of every cell of all grids, and its stride."""
        places = [grid(self.side[0] // stride, self.side[1] // stride).reshape(-1, 2) for stride in STRIDES]
        strides = [np.full((len(cells), 1), stride) for cells, stride in zip(places, STRIDES, strict=True)]
        return np.concatenate(places), np.concatenate(strides)

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        rows, (places, strides) = flat(outputs[0]), self._cells()
        centres = (rows[:, :2] + places) * strides
        sizes = np.exp(np.minimum(rows[:, 2:4], _LARGEST)) * strides
        return suppressed(from_centres(centres, sizes), rows[:, 4:5] * rows[:, 5:])


ANCHORS = ((0.5, 0.5),)


@dataclass(frozen=True)
class StYolox(Decoder):
    """ST-YOLOX, st_yolo_x of ST's model zoo: a grid for each stride, without activations.

    Each cell has x, y, w, h, objectness and classes for every anchor. The centre is (cell + sigmoid(value)) of the
    grid, the size is exp(value) * anchor, the score sigmoid(objectness) * softmax(classes); anchors are shares of the
    input, as `postprocessing.yolo_anchors` of the zoo has them.
    """

    anchors: tuple[tuple[float, float], ...] = ANCHORS

    def __post_init__(self) -> None:
        channels = {channels_of(shape) for shape in self.shapes if len(shape) == 4}
        fits = all(len(shape) == 4 for shape in self.shapes) and len(channels) == 1
        if not fits or any(count % len(self.anchors) or count // len(self.anchors) < 6 for count in channels):
            raise InputError(
                f"outputs {list(self.shapes)} are not those of ST-YOLOX with {len(self.anchors)} anchors",
                rule="each output is a grid of x, y, w, h, objectness and classes for every anchor",
                remedy="give all anchors with --anchors, or name another family with --decoder",
            )

    @property
    def classes(self) -> int:
        return channels_of(self.shapes[0]) // len(self.anchors) - 5

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        found = [self._grid(output) for output in outputs]
        return suppressed(np.concatenate([c for c, _ in found]), np.concatenate([s for _, s in found]))

    def _grid(self, output: Array) -> tuple[Array, Array]:
        cells: Array = output.reshape(output.shape[-3:])
        cells = np.moveaxis(cells, 0, -1) if channels_first(output.shape) else cells
        rows, columns, channels = cells.shape
        count = len(self.anchors)
        values = cells.reshape(rows, columns, count, channels // count).astype(np.float64)
        places = grid(columns, rows)[:, :, None]
        centres = (places + sigmoid(values[..., :2])) / np.array([columns, rows]) * self.pixels
        sizes = np.exp(np.minimum(values[..., 2:4], _LARGEST)) * np.array(self.anchors) * self.pixels
        classes = np.exp(values[..., 5:] - values[..., 5:].max(axis=-1, keepdims=True))
        scores = sigmoid(values[..., 4:5]) * classes / classes.sum(axis=-1, keepdims=True)
        return from_centres(centres, sizes).reshape(-1, 4), scores.reshape(-1, scores.shape[-1])


def channels_first(shape: tuple[int, ...]) -> bool:
    """Grids are square."""
    return len(shape) >= 3 and shape[-1] == shape[-2] != shape[-3]


def channels_of(shape: tuple[int, ...]) -> int:
    return shape[-3] if channels_first(shape) else shape[-1]


VARIANCES = (0.1, 0.2)


class SsdFamily(Decoder):
    """Scores with the background first, and offsets from anchors; everything in shares of the input."""

    def require(self, count: int, rule: str) -> None:
        rows = {shape[-2] for shape in self.shapes if len(shape) >= 2}
        fours = sum(shape[-1] == 4 for shape in self.shapes)
        if len(self.shapes) != count or len(rows) != 1 or fours < count - 1:
            raise InputError(f"outputs {list(self.shapes)} are not those of SSD", rule=rule)

    @property
    def scores_at(self) -> int:
        """Which output has the scores: the one that has not four values, or the first."""
        return next((k for k, shape in enumerate(self.shapes) if shape[-1] != 4), 0)

    @property
    def classes(self) -> int:
        return self.shapes[self.scores_at][-1] - 1

    def boxes(self, corners: Array, values: Sequence[Array]) -> Boxes:
        """`corners` in shares of the input; `values`: the outputs."""
        return suppressed(corners * np.tile(self.pixels, 2), values[self.scores_at][:, 1:])


@dataclass(frozen=True)
class StSsd(SsdFamily):
    """SSD of ST's model zoo: the third output holds the anchors as corners, and each corner moves by its offset times
    the size of the anchor."""

    def __post_init__(self) -> None:
        self.require(3, "scores, offsets and anchors, one row for each box")

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        """Offsets come before the anchors in the models of the zoo; anchors are corners in order, offsets are not."""
        values = [flat(output) for output in outputs]
        rest = [value for k, value in enumerate(values) if k != self.scores_at]
        ordered = [bool((value[:, 2:] > value[:, :2]).all()) for value in rest]
        offsets, anchors = rest if ordered[1] or not ordered[0] else rest[::-1]
        return self.boxes(anchors + offsets * np.tile(anchors[:, 2:] - anchors[:, :2], 2), values)


@dataclass(frozen=True)
class Ssd(SsdFamily):
    """SSD (Liu and others 2016): scores [1, boxes, 1 + classes] and offsets [1, boxes, 4]; an anchor (x, y, w, h) gives
    the centre x + tx * 0.1 * w and the size w * exp(tw * 0.2)."""

    anchors: tuple[tuple[float, ...], ...]  # x, y, w, h of each

    def __post_init__(self) -> None:
        self.require(2, "scores and offsets, one row for each box")
        if len(self.anchors) != self.shapes[0][-2]:
            raise InputError(
                f"{len(self.anchors)} anchors for {self.shapes[0][-2]} boxes",
                remedy="--anchors FILE.npy with x, y, w, h of each box in shares of the input",
            )

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        values = [flat(output) for output in outputs]
        offsets, anchors = values[1 - self.scores_at], np.array(self.anchors)
        centres = anchors[:, :2] + offsets[:, :2] * VARIANCES[0] * anchors[:, 2:]
        sizes = anchors[:, 2:] * np.exp(np.minimum(offsets[:, 2:] * VARIANCES[1], _LARGEST))
        return self.boxes(from_centres(centres, sizes), values)


GRIDS = ((16, 2), (8, 6))  # cells of a side, anchors of a cell
LIMIT = 100.0
FACE_OVERLAP = 0.3


@dataclass(frozen=True)
class Blazeface(Decoder):
    """BlazeFace: anchors of one size at two grids, offsets in pixels of the input, one score each.

    Published with MediaPipe: a 16 x 16 grid with 2 anchors a cell and an 8 x 8 grid with 6, for an input of 128 pixels;
    the anchor is the middle of its cell, the box is centre + offset with width and height in pixels, the score is the
    sigmoid of a value limited to 100. Behind the box are six key points.
    """

    classes = 1

    def __post_init__(self) -> None:
        shapes = self.shapes
        rows = {shape[-2] for shape in shapes if len(shape) >= 2}
        if sorted(shape[-1] for shape in shapes) not in ([1, 1, 16, 16], [1, 16]) or sum(rows) != len(self._middles()):
            rule = "512 and 384 boxes with 16 values each, and their scores"
            raise InputError(f"outputs {list(shapes)} are not those of BlazeFace", rule=rule)

    def _middles(self) -> Array:
        """Lists the centres of all anchors, in shares of the input."""
        places = [np.repeat((grid(cells, cells).reshape(-1, 2) + 0.5) / cells, count, axis=0) for cells, count in GRIDS]
        return np.concatenate(places)

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        tables = sorted((flat(output) for output in outputs), key=len, reverse=True)
        boxes = np.concatenate([value for value in tables if value.shape[1] == 16])
        scores = np.concatenate([value for value in tables if value.shape[1] == 1])
        corners = from_centres(boxes[:, :2] + self._middles() * self.pixels, boxes[:, 2:4])
        return suppressed(corners, sigmoid(np.clip(scores, -LIMIT, LIMIT)), FACE_OVERLAP)


def decoder_for(name: str, anchors: Sequence[float], shapes: Shapes, side: tuple[int, int]) -> Decoder:
    """Finds the decoder by its name, or from the shapes; raises where they do not fit."""
    name, shapes = name if name != "auto" else family(shapes), tuple(map(tuple, shapes))
    if name == "st_yolox":
        return StYolox(side, shapes, tuple(zip(anchors[::2], anchors[1::2], strict=True)) or ANCHORS)
    if name == "ssd":
        return Ssd(side, shapes, tuple(zip(*(anchors[k::4] for k in range(4)), strict=True)))
    plain: dict[str, type[Decoder]] = {"yolov8": YoloV8, "yolox": Yolox, "st_ssd": StSsd, "blazeface": Blazeface}
    return plain[name](side, shapes)


def family(shapes: Shapes) -> str:
    lasts = sorted(shape[-1] for shape in shapes)
    if lasts in ([1, 1, 16, 16], [1, 16]):
        return "blazeface"
    if len(shapes) == 3 and lasts.count(4) >= 2 and all(len(shape) <= 3 for shape in shapes):
        return "st_ssd"
    if len(shapes) == 2 and lasts.count(4) >= 1 and all(len(shape) <= 3 for shape in shapes):
        return "ssd"
    if len(shapes) > 1 and all(len(shape) == 4 and channels_of(shape) >= 6 for shape in shapes):
        return "st_yolox"
    if len(shapes) == 1 and len(shapes[0]) in (2, 3):
        return "yolov8"
    raise InputError(f"outputs {list(shapes)} are of no detector that is known", remedy="--decoder names the family")


def parse_anchors(text: str) -> list[float]:
    """Numbers separated by commas, or a file with them."""
    if not text:
        return []
    if text.lower().endswith((".npy", ".npz", ".csv")):
        values = next(iter(read_arrays(Path(text)).values())).astype(np.float64).reshape(-1).tolist()
    else:
        try:
            values = [float(word) for word in text.split(",")]
        except ValueError:
            values = []
    if not values or len(values) % 2 or not all(-10 < value < 10 for value in values):
        raise InputError(
            f"{text[:60]!r} are no anchors", remedy="write W,H,W,H,... in shares of the input, or name a .npy file"
        )
    return values
