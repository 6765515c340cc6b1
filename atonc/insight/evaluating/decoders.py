"""Families of detectors: one table of what their outputs are, and which outputs fit. What is done with them is in
`boxes`; the evaluator and `generate --post` both ask here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from atonc.compiler.frontends.tails import CENTRES
from atonc.compiler.inputs.arrays import read_arrays
from atonc.compiler.ir import Graph
from atonc.insight.evaluating.boxes import (
    APART,
    EXPONENTIAL,
    FACES,
    GIVEN,
    GRIDS,
    HEADS,
    LIST,
    ONE_GRID,
    OUTPUT,
    PLAIN,
    SIGMOID,
    SOFTMAX,
    BoxLimits,
    Decoder,
    DetectorFamily,
    DetectorHead,
    MaskPrototypes,
    Values,
)
from atonc.machine.base.errors import InputError

Shape = tuple[int, ...]
Shapes = Sequence[tuple[int, ...]]
Side = tuple[int, int]
_LIST_RULE = "one output [1, {} + classes, boxes] or [1, boxes, {} + classes]"
_GRID_RULE = "each output is a grid of x, y, w, h, objectness and classes for every anchor"
_FACES_RULE = "512 and 384 boxes with 16 values each, and their scores"

# https://docs.ultralytics.com: output of an exported detection model. Coordinates are pixels of the input, or shares of
# it as TFLite exports have them. Heads of YOLO11 and YOLO26 that are exported without their own suppression are alike.
YOLOV8 = DetectorFamily("yolov8", "YOLOv8", LIST, _LIST_RULE.format(4, 4))
YOLOV5 = DetectorFamily("yolov5", "YOLOv5", LIST, _LIST_RULE.format(5, 5), objectness=PLAIN, first=5)
# Ge and others 2021, as its exports give it: scores are probabilities, the strides are 8, 16, 32
YOLOX = DetectorFamily(
    "yolox", "YOLOX", ONE_GRID, "one output [1, boxes, 5 + classes]", objectness=PLAIN, first=5, size=EXPONENTIAL
)
# ST's model zoo: grids without activations; anchors are shares of the input, as `postprocessing.yolo_anchors` has them
ST_YOLOX = DetectorFamily(
    "st_yolox", "ST-YOLOX", GRIDS, _GRID_RULE, SOFTMAX, SIGMOID, 5, SIGMOID, size=EXPONENTIAL, anchors=((0.5, 0.5),)
)
YOLOV2 = DetectorFamily(
    "yolov2", "YOLOv2", GRIDS, _GRID_RULE, SOFTMAX, SIGMOID, 5, SIGMOID, size=EXPONENTIAL,
    anchors=((0.076023, 0.258508), (0.163031, 0.413531), (0.234769, 0.702585), (0.427054, 0.715892),
             (0.748154, 0.857092)),
)  # fmt: skip
# Liu and others 2016: scores with the background first, and offsets from anchors
SSD = DetectorFamily(
    "ssd", "SSD", GIVEN, "scores [1, boxes, 1 + classes] and offsets [1, boxes, 4]", first=1, size=EXPONENTIAL,
    factor=0.2,
)  # fmt: skip
# ST's model zoo: an output has the anchors as corners, and each corner moves by its offset times the anchor's size
ST_SSD = DetectorFamily(
    "st_ssd", "ST-SSD", OUTPUT, "scores, offsets and anchors, one row for each box", first=1, corners=True
)
# Published with MediaPipe: offsets in pixels from the middle of the cell, and six key points behind the box
BLAZEFACE = DetectorFamily("blazeface", "BlazeFace", FACES, _FACES_RULE, SIGMOID, first=0, points=6, overlap=0.3)

# What the last convolutions of these networks give, without the arithmetic behind them: the distances of the four sides
# in strides, each the mean of as many places as it has values (Li and others 2020), or itself; scores before their
# sigmoid; points, or coefficients of the prototypes of masks. YOLO26 needs no suppression: one cell answers an object
_HEADS_RULE = (
    "boxes [1, rows, columns, 4 x bins] of each grid, then scores of each, then 3 values of each point or coefficients "
    "of masks of each, then the prototypes of masks; channels first or last"
)
YOLOV8_HEADS = DetectorFamily(
    "yolov8_heads", "YOLOv8 and YOLO11 before their decoding", HEADS, _HEADS_RULE, SIGMOID, first=0, overlap=0.7,
    point_step=2.0,
)  # fmt: skip
YOLO26_HEADS = DetectorFamily(
    "yolo26_heads", "YOLO26 before its decoding", HEADS, _HEADS_RULE, SIGMOID, first=0, overlap=1.0, point_offset=0.5
)

# What NonMaxSuppression of ONNX reads, where a model is cut in front of it; scores may lack their sigmoid
_APART = (
    DetectorFamily(
        form + ("_logits" if score == SIGMOID else ""), f"NonMaxSuppression of {form}", APART,
        f"boxes [1, boxes, 4] as {values}, and scores [1, classes, boxes] or [1, boxes, classes]"
        + (" before their sigmoid" if score == SIGMOID else ""), score, first=0, corners=form == "corners",
    )
    for form, values in (("corners", "x1, y1, x2, y2"), ("centres", "x, y, width, height"))
    for score in (PLAIN, SIGMOID)
)  # fmt: skip

FAMILIES: Mapping[str, DetectorFamily] = {
    family.name: family for family in (YOLOV8, YOLOV5, YOLOV2, YOLOX, ST_YOLOX, SSD, ST_SSD, BLAZEFACE, YOLOV8_HEADS,
                                     YOLO26_HEADS, *_APART)
}
STRIDES = (8, 16, 32)  # of YOLOX
FACE_GRIDS = ((16, 2), (8, 6))  # of BlazeFace: cells of a side, anchors of a cell


class _Misfit(Exception):
    """The outputs are not those of the family."""


def _require(holds: bool) -> None:
    if not holds:
        raise _Misfit


class Fitted(NamedTuple):
    """Where the values of a family stand in the outputs of one model."""

    heads: tuple[DetectorHead, ...]
    classes: int
    bins: int = 1
    points: int = 0
    masks: MaskPrototypes | None = None


def _list(family: DetectorFamily, shapes: Shapes, side: Side, anchors: int) -> Fitted:
    _require(len(shapes) == 1 and prod(shapes[0][:-2]) == 1)
    boxes, values = shapes[0][-2:] if shapes[0][-2] >= shapes[0][-1] else shapes[0][:-3:-1]
    _require(values > family.first)
    at = Values(0, 0, values, 0, 1) if boxes == shapes[0][-2] else Values(0, 0, 1, 0, boxes)
    return Fitted((DetectorHead(at, at, boxes, boxes),), values - family.first)


def _apart(family: DetectorFamily, shapes: Shapes, side: Side, anchors: int) -> Fitted:
    """Boxes are the output of rows of four; where both may be, there are more boxes than classes."""
    _require(len(shapes) == 2 and all(prod(shape[:-2]) == 1 for shape in shapes))
    fits = [(k, shapes[1 - k][-2:]) for k in (0, 1) if shapes[k][-1] == 4 and shapes[k][-2] in shapes[1 - k][-2:]]
    _require(bool(fits))
    at, (rows, columns) = max(fits, key=lambda one: shapes[one[0]][-2])
    count = shapes[at][-2]
    by_box = rows == count
    scores = Values(1 - at, 0, columns, 0, 1) if by_box else Values(1 - at, 0, 1, 0, count)
    return Fitted((DetectorHead(Values(at, 0, 4, 0, 1), scores, count, count),), columns if by_box else rows)


def _one_grid(family: DetectorFamily, shapes: Shapes, side: Side, anchors: int) -> Fitted:
    grids = [(side[0] // stride, side[1] // stride) for stride in STRIDES]
    count, values = shapes[0][-2:]
    _require(len(shapes) == 1 and prod(shapes[0]) == count * values and values > family.first)
    _require(count == sum(map(prod, grids)))
    heads, start = [], 0
    for stride, (columns, rows) in zip(STRIDES, grids, strict=True):
        at, step = Values(0, start * values, values, 0, 1), (float(stride), float(stride))
        heads.append(DetectorHead(at, at, rows * columns, columns, step, 0.0, step, (step,)))
        start += rows * columns
    return Fitted(tuple(heads), values - family.first)


def _grids(family: DetectorFamily, shapes: Shapes, side: Side, anchors: int) -> Fitted:
    """Cells are as wide as high where the order of the channels is right; all outputs have the same order."""
    _require(all(len(shape) == 4 and shape[0] == 1 for shape in shapes))
    first = any(not _square(shape[1:3], side) for shape in shapes)
    grids = [shape[2:] if first else shape[1:3] for shape in shapes]
    channels = {shape[1] if first else shape[3] for shape in shapes}
    _require(len(channels) == 1 and all(_square(grid, side) for grid in grids))
    values, over = divmod(channels.pop(), anchors)
    _require(not over and values > family.first)
    heads = []
    for number, (rows, columns) in enumerate(grids):
        cells = rows * columns
        steps = (1, values * cells, cells) if first else (anchors * values, values, 1)
        at, stride = Values(number, 0, *steps), (side[0] / columns, side[1] / rows)
        heads.append(DetectorHead(at, at, cells, columns, stride, 0.0, stride, ((1.0, 1.0),) * anchors))
    return Fitted(tuple(heads), values - family.first)


def _square(grid: Sequence[int], side: Side) -> bool:
    return grid[1] * side[1] == grid[0] * side[0]


def _anchored(family: DetectorFamily, shapes: Shapes, side: Side, anchors: int) -> Fitted:
    """Scores are the output that has not four values, or the first."""
    rows = {shape[-2] for shape in shapes}
    _require(len(shapes) == (3 if family.placed == OUTPUT else 2) and len(rows) == 1)
    scores = next((k for k, shape in enumerate(shapes) if shape[-1] != 4), 0)
    others = [k for k in range(len(shapes)) if k != scores]
    _require(all(shapes[k][-1] == 4 for k in others) and all(prod(shape[:-2]) == 1 for shape in shapes))
    count, classes = rows.pop(), shapes[scores][-1]
    _require(classes > family.first)
    at = Values(others[0], 0, 4, 0, 1)
    return Fitted((DetectorHead(at, Values(scores, 0, classes, 0, 1), count, count),), classes - family.first)


def _faces(family: DetectorFamily, shapes: Shapes, side: Side, anchors: int) -> Fitted:
    """Both grids in outputs of their own, or one behind the other."""
    counts = [cells * cells * per_cell for cells, per_cell in FACE_GRIDS]
    heads, start = [], 0
    _require(all(prod(shape[:-2]) == 1 for shape in shapes) and len(shapes) in (2, 4))
    for (cells, per_cell), count in zip(FACE_GRIDS, counts, strict=True):
        wanted = count if len(shapes) == 4 else sum(counts)
        found = {shape[-1]: k for k, shape in enumerate(shapes) if shape[-2] == wanted}
        _require(set(found) == {1, 16})
        at = [Values(found[n], start * n, per_cell * n, n, 1) for n in (16, 1)]
        stride = (side[0] / cells, side[1] / cells)
        heads.append(DetectorHead(at[0], at[1], cells * cells, cells, stride, 0.5, sizes=((1.0, 1.0),) * per_cell))
        start += count if len(shapes) == 2 else 0
    return Fitted(tuple(heads), 1)


class HeadShapes(NamedTuple):
    """Outputs of HEADS: the same grids for boxes, for scores and for what else there is."""

    grids: list[tuple[int, ...]]  # rows and columns
    channels: list[int]  # of boxes, of scores, of points or coefficients
    prototypes: tuple[tuple[int, ...], int] | None  # grid and number


def _head_shapes(shapes: Shapes, channel: int) -> HeadShapes:
    """`channel`: the axis of the channels, 1 or 3."""
    _require(len(shapes) > 3 and all(len(shape) == 4 and shape[0] == 1 for shape in shapes))
    shapes = _single_last(shapes) if channel == 3 else shapes
    found = [(shape[2:] if channel == 1 else shape[1:3], shape[channel]) for shape in shapes]
    grids = [grid for grid, _ in found]
    _require(grids[0] in grids[1:])
    own = grids.index(grids[0], 1)
    _require(own > 1 and len(found) in (2 * own, 3 * own, 3 * own + 1))
    groups = [found[start : start + own] for start in range(0, len(found) // own * own, own)]
    _require(all([grid for grid, _ in group] == grids[:own] for group in groups))
    channels = [{count for _, count in group} for group in groups]
    _require(all(len(one) == 1 for one in channels) and found[0][1] % 4 == 0)
    return HeadShapes(grids[:own], [one.pop() for one in channels], found[-1] if len(found) % own else None)


def _single_last(shapes: Shapes) -> Shapes:
    """A program whose outputs end with their channels may have a single one in front: the bytes are the same."""
    return [(1, *shape[2:], 1) if shape[1] == 1 else shape for shape in shapes]


def _heads(family: DetectorFamily, shapes: Shapes, side: Side, anchors: int) -> Fitted:
    _require(all(len(shape) == 4 for shape in shapes))
    last = all(_square(shape[1:3], side) for shape in _single_last(shapes))
    told = _head_shapes(shapes, 3 if last else 1)
    (width, classes, *more), own = told.channels, len(told.grids)
    _require(all(_square(grid, side) for grid in told.grids) and (width > 4) == (family.point_offset == 0))

    def values(output: int, grid: tuple[int, ...], count: int) -> Values:
        return Values(output, 0, count, 0, 1) if last else Values(output, 0, 1, 0, prod(grid))

    heads = []
    for number, grid in enumerate(told.grids):
        at = [values(number + k * own, grid, count) for k, count in enumerate(told.channels)]
        stride = (side[0] / grid[1], side[1] / grid[0])
        heads.append(DetectorHead(at[0], at[1], prod(grid), grid[1], stride, 0.5, more=at[2] if more else None))
    if told.prototypes is not None:
        grid, count = told.prototypes
        _require(more == [count] and _square(grid, side))
        masks = MaskPrototypes(values(3 * own, grid, count), count, grid[1], grid[0])
        return Fitted(tuple(heads), classes, width // 4, 0, masks)
    _require(not more or more[0] % 3 == 0)
    return Fitted(tuple(heads), classes, width // 4, more[0] // 3 if more else 0)




_FITS: Mapping[str, Callable[[DetectorFamily, Shapes, Side, int], Fitted]] = {
    LIST: _list, APART: _apart, ONE_GRID: _one_grid, GRIDS: _grids, GIVEN: _anchored, OUTPUT: _anchored, FACES: _faces,
    HEADS: _heads,
}  # fmt: skip


def _fitted(family: DetectorFamily, shapes: Shapes, side: Side, anchors: int) -> Fitted | None:
    try:
        _require(bool(shapes) and all(len(shape) >= 2 and min(shape) > 0 for shape in shapes))
        return _FITS[family.placed](family, shapes, side, anchors)
    except _Misfit:
        return None


def fitting(shapes: Shapes, side: Side, anchors: int = 0) -> list[str]:
    """Names of the families that outputs of these shapes may be of."""
    return [f.name for f in FAMILIES.values() if _fitted(f, shapes, side, anchors or len(f.anchors) or 1) is not None]


def _left(source: Graph) -> tuple[dict[str, float], set[str]]:
    """Numbers and kinds of the operators that a detector was cut in front of."""
    left = source.tail.operators if source.tail else ()
    return {key: value for one in left for key, value in one.values.items()}, {one.kind for one in left}


def _may_be(source: Graph) -> list[str]:
    """Families that the shapes of the outputs fit; of what NonMaxSuppression of ONNX reads, the one form that the
    operators tell."""
    numbers, kinds = _left(source)
    shapes, inputs = [source.tensors[name].shape for name in source.outputs], source.tensors[source.inputs[0]].shape
    suppressed = "IoU" in numbers or "NonMaxSuppression" in kinds
    names = fitting(shapes, (inputs[-1], inputs[-2])) if suppressed and len(inputs) == 4 else []
    form = ("centres" if numbers.get(CENTRES) else "corners") + ("_logits" if "Sigmoid" in kinds else "")
    told = {form} if "NonMaxSuppression" in kinds and "Softmax" not in kinds else set()
    return [name for name in names if FAMILIES[name].placed != APART or name in told]


def told_form(source: Graph) -> str:
    """The form of boxes and scores that the operators behind the cut tell; empty where they tell none."""
    return next((name for name in _may_be(source) if FAMILIES[name].placed == APART), "")


def told_limits(source: Graph) -> dict[str, float]:
    """Thresholds of the suppression that was left, by the options for them; one below 1 % keeps all boxes."""
    numbers, flags = _left(source)[0], {"IoU": "--post-iou", "score": "--post-score"}
    return {flag: float(f"{numbers[key]:.3g}") for key, flag in flags.items() if 0.01 <= numbers.get(key, 0) < 1}


def told_family(source: Graph, wanted: str) -> str:
    """The family for `--post`: a form that contradicts the operators behind the cut is refused."""
    told = told_form(source)
    if wanted == "auto":
        return told or wanted
    if told not in ("", wanted) and FAMILIES[wanted].placed == APART:
        left = source.tail.operators if source.tail else ()
        shown = "; ".join(str(one) for one in left if one.kind in ("Sigmoid", "NonMaxSuppression"))
        raise InputError(
            f"by the operators behind them the outputs are {told}, not {wanted}",
            where=f"--post {wanted}",
            rule=f"behind the outputs the model has {shown}" + ("" if "Sigmoid" in shown else ", and no Sigmoid"),
            remedy=f"--post {told}",
        )
    return wanted


def post_notes(source: Graph) -> list[str]:
    """What `--post` has for a detector that was cut before its suppression; shapes do not say what values mean."""
    said = "".join(f" {flag} {value:g}" for flag, value in told_limits(source).items())
    return [
        f"by their shapes the outputs may be of {name}: generate --post {name}{said} writes the rest as C, where "
        "values are what docs/post_processing.md says of it"
        for name in _may_be(source)[:1]
    ]


def decoder_for(
    name: str, anchors: Sequence[float], shapes: Shapes, side: Side, where: str = ""
) -> Decoder:
    """Finds the decoder by its name, or from the shapes; raises where they do not fit. `where`: whose outputs."""
    shapes = tuple(map(tuple, shapes))
    known = FAMILIES[name if name != "auto" else family(shapes)]
    pairs = () if known.placed == GIVEN else tuple(zip(anchors[::2], anchors[1::2], strict=True)) or known.anchors
    fitted = _fitted(known, shapes, side, len(pairs) or 1)
    if fitted is None:
        said = f" with {len(pairs)} anchors" if pairs else ""
        others = ", ".join(fitting(shapes, side))
        raise InputError(
            f"outputs {list(shapes)} are not those of {known.title}{said}",
            where=where,
            rule=known.rule,
            remedy=(f"name another family: they fit {others}" if others else "no family that is known has such outputs")
            + ("; or give all anchors with --anchors" if known.placed == GRIDS else ""),
        )
    heads = fitted.heads
    if known.placed == GRIDS:
        sizes = tuple((w * side[0], h * side[1]) for w, h in pairs)
        heads = tuple(DetectorHead(**{**vars(head), "sizes": sizes}) for head in heads)
    given = _given(anchors, heads[0].count, side, where) if known.placed == GIVEN else ()
    found = Decoder(known, side, heads, fitted.classes, BoxLimits(overlap=known.overlap), given)
    return replace(found, bins=fitted.bins, points=known.points or fitted.points, masks=fitted.masks)


def _given(anchors: Sequence[float], boxes: int, side: Side, where: str) -> tuple[tuple[float, ...], ...]:
    """Anchors of SSD in pixels."""
    if len(anchors) != 4 * boxes:
        raise InputError(
            f"{len(anchors) // 4} anchors for {boxes} boxes",
            where=where,
            remedy="--anchors FILE.npy with x, y, w, h of each box in shares of the input",
        )
    rows: np.ndarray = np.array(anchors, np.float64).reshape(-1, 4) * np.tile(np.array(side, np.float64), 2)
    return tuple(map(tuple, rows.tolist()))


POSE_ROWS = 4 + 1 + 17 * 3


def family(shapes: Shapes) -> str:
    """The name of the family that such outputs are most likely of."""
    lasts = sorted(shape[-1] for shape in shapes if shape)
    if lasts in ([1, 1, 16, 16], [1, 16]):
        return BLAZEFACE.name
    if len(shapes) == 3 and lasts.count(4) >= 2 and all(len(shape) <= 3 for shape in shapes):
        return ST_SSD.name
    flat = all(len(shape) in (2, 3) for shape in shapes)
    if len(shapes) == 2 and lasts.count(4) >= 1 and flat and len({shape[-2] for shape in shapes}) == 1:
        return SSD.name
    for channel in (3, 1):
        with suppress(_Misfit):
            return YOLO26_HEADS.name if _head_shapes(shapes, channel).channels[0] == 4 else YOLOV8_HEADS.name
    if shapes and all(len(shape) == 4 and max(shape[1], shape[3]) >= 6 for shape in shapes):
        return ST_YOLOX.name if len(shapes) > 1 else YOLOV2.name
    if len(shapes) == 1 and len(shapes[0]) in (2, 3):
        if POSE_ROWS in shapes[0][-2:]:
            what = f"{POSE_ROWS} values a box: its corners, a score and 17 key points, as networks for poses have"
            remedy = "key points are not read; --post yolov8 takes all values behind the corners as classes"
            raise InputError(what, rule="the family of a detector follows from its outputs", remedy=remedy)
        return YOLOV8.name
    raise InputError(
        f"outputs {list(shapes)} are of no detector that is known",
        remedy=f"name the family with --decoder or --post: {', '.join(FAMILIES)}",
    )


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
