"""Outputs of a detector as boxes: float32, every operation written down. `generate --post` writes the same steps as C
(machine/templates/network/post.c), and both give the same bits; the rules are rows of `decoders.FAMILIES`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.machine.base.frozen import dataclass

Single = NDArray[np.float32]
Pair = tuple[float, float]
PLAIN, SIGMOID, SOFTMAX, EXPONENTIAL = "plain", "sigmoid", "softmax", "exponential"
LIST, APART, ONE_GRID, GRIDS, GIVEN, OUTPUT, FACES = "list", "apart", "one grid", "grids", "given", "output", "faces"
HEADS = "heads"  # what the last convolutions give, in outputs of their own
LISTS = (LIST, APART)  # boxes that need no place: coordinates of the input
SHARES, PIXELS = "shares", "pixels"
VARIANCE = 0.1  # of SSD: what an offset of the centre is worth, in sizes of the anchor

# --- numbers: constants are the shortest decimals of float32 values, as C reads them

LOG2_E, LN2_HIGH, LN2_LOW = np.float32(1.442695), np.float32(0.693359375), np.float32(-0.00021219444)
FACTORS = tuple(np.float32(1 / k) for k in (5040, 720, 120, 24, 6, 2, 1, 1))
LEAST, LARGEST = np.float32(-86), np.float32(20)  # below, exp is 0; sizes beyond are limited, larger than all pictures


def exponential(x: Single) -> Single:
    """For x up to 20."""
    inner = np.where((x > LEAST) & (x <= LARGEST), x, np.float32(0))
    half = np.where(inner < 0, np.float32(-0.5), np.float32(0.5))
    k = (inner * LOG2_E + half).astype(np.int32)
    whole = k.astype(np.float32)
    r = (inner - whole * LN2_HIGH) - whole * LN2_LOW
    total: Single = np.full(r.shape, FACTORS[0], np.float32)
    for factor in FACTORS[1:]:
        total = total * r + factor
    value = total * ((k + 127) << 23).astype(np.int32).view(np.float32)
    return np.where(x > LEAST, value, np.where(x < 0, np.float32(0), x))


def sigmoid(x: Single) -> Single:
    small = exponential(-np.abs(x))
    return np.where(x >= 0, np.float32(1), small) / (np.float32(1) + small)


def softmax(x: Single) -> Single:
    """Along the last axis, summed in its order."""
    small = exponential(x - x.max(axis=-1, keepdims=True))
    total: Single = np.add.accumulate(small, axis=-1)[..., -1:]
    return small / total


def expected(x: Single) -> Single:
    """The mean of 0, 1, ... along the last axis, weighted by its softmax; summed in its order."""
    small = exponential(x - x.max(axis=-1, keepdims=True))
    weighted = small * np.arange(x.shape[-1], dtype=np.float32)
    total, whole = (np.add.accumulate(part, axis=-1)[..., -1] for part in (weighted, small))
    return np.asarray(total / whole, np.float32)


def _plain(x: Single) -> Single:
    return x


def probability(x: Single) -> Single:
    """Limited, so that no product of two is above either of them."""
    return np.where(x > 1, np.float32(1), np.where(x < 0, np.float32(0), x))


def _size(x: Single) -> Single:
    return exponential(np.where(x > LARGEST, LARGEST, x))


_OF_SCORES = {PLAIN: probability, SIGMOID: sigmoid, SOFTMAX: softmax}
_OF_BOXES = {PLAIN: _plain, SIGMOID: sigmoid, EXPONENTIAL: _size}


def score_of(kind: str, x: Single) -> Single:
    return _OF_SCORES[kind](x)


# --- what a detector gives, and where it stands


@dataclass(frozen=True)
class Boxes:
    """Corners x1, y1, x2, y2 in pixels of the input; the best first."""

    corners: Array
    scores: Array
    classes: Array
    points: Array  # [boxes, points, 2], of families that have them
    more: Array  # [boxes, values]: scores of the points, or coefficients of the mask

    def some(self, which: Array) -> Boxes:
        return Boxes(*(part[which] for part in (self.corners, self.scores, self.classes, self.points, self.more)))


@dataclass(frozen=True)
class BoxLimits:
    """`candidates`: so many of the best pairs of box and class are compared; `most`: so many boxes are given."""

    score: float = 0.001  # below, boxes change no figure
    overlap: float = 0.5
    most: int = 100
    candidates: int = 3000


@dataclass(frozen=True)
class DetectorFamily:
    """How outputs mean boxes. A value v of a box becomes place + f(v * factor) * step; the score of a class is
    g(class), times that of the object where there is one."""

    name: str
    title: str
    placed: str
    rule: str  # the outputs that it has
    score: str = PLAIN
    objectness: str = ""
    first: int = 4  # value of the first class
    centre: str = PLAIN
    size: str = PLAIN
    factor: float = 1.0  # of sizes
    corners: bool = False  # the four values are corners, not centre and size
    points: int = 0  # behind the box
    point_step: float = 1.0  # of HEADS: what a point's value is worth, in strides
    point_offset: float = 0.0  # of HEADS: where points of 0 stand in the cell
    overlap: float = 0.5
    anchors: tuple[Pair, ...] = ()  # width and height in shares of the input, where none are given


@dataclass(frozen=True)
class Values:
    """Where the values of boxes stand in an output: numbers of elements."""

    output: int
    start: int
    cell: int  # from one to the next
    anchor: int
    value: int

    def of(self, outputs: Sequence[Single], head: DetectorHead, first: int, count: int) -> Single:
        """[boxes, values]"""
        cells = np.arange(head.cells)[:, None, None] * self.cell + np.arange(len(head.sizes))[:, None] * self.anchor
        places = self.start + cells + np.arange(first, first + count) * self.value
        found: Single = outputs[self.output][places.reshape(-1, count)]
        return found


@dataclass(frozen=True)
class DetectorHead:
    """A grid of cells with some anchors each; a list of boxes is a grid without a stride."""

    boxes: Values
    scores: Values
    cells: int
    columns: int
    stride: Pair = (0.0, 0.0)  # pixels from cell to cell
    offset: float = 0.0  # of the place in the cell
    step: Pair = (1.0, 1.0)
    sizes: tuple[Pair, ...] = ((1.0, 1.0),)  # of each anchor
    more: Values | None = None  # of HEADS: points x, y, score, or coefficients of masks

    @property
    def count(self) -> int:
        return self.cells * len(self.sizes)

    def places(self) -> tuple[Single, Single]:
        """Place and step of the four values of every box; sizes have no place."""
        cell = np.arange(self.cells).repeat(len(self.sizes))
        at = np.stack([cell % self.columns, cell // self.columns], axis=1).astype(np.float32)
        at = (at + np.float32(self.offset)) * np.array(self.stride, np.float32)
        sizes = np.tile(np.array(self.sizes, np.float32), (self.cells, 1))
        steps = np.broadcast_to(np.array(self.step, np.float32), sizes.shape)
        return np.concatenate([at, np.zeros_like(at)], axis=1), np.concatenate([steps, sizes], axis=1)


@dataclass(frozen=True)
class MaskPrototypes:
    """Pictures whose sum, weighted by the coefficients of a box, is above 0 where its object is."""

    values: Values  # a cell is a pixel
    count: int
    columns: int
    rows: int


@dataclass(frozen=True)
class Decoder:
    """A family with the outputs of one model."""

    family: DetectorFamily
    side: tuple[int, int]  # width and height of the input
    heads: tuple[DetectorHead, ...]
    classes: int
    limits: BoxLimits
    anchors: tuple[tuple[float, ...], ...] = ()  # of SSD: x, y, w, h in pixels
    anchors_at: int = -1  # the output that has them; -1: told by the values
    unit: str = ""  # of a list: shares of the input or pixels; empty: told by the values
    bins: int = 1  # of HEADS: each distance is the mean of 0 .. bins - 1, weighted by the softmax of so many values
    points: int = 0
    masks: MaskPrototypes | None = None

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        """`outputs`: real values, in the order of the model."""
        flat = [np.ascontiguousarray(output, np.float32).reshape(-1) for output in outputs]
        with np.errstate(all="ignore"):
            return suppressed(self.told_by(flat).candidates(flat), self.limits)

    def within(self, **limits: Any) -> Decoder:
        """The same with other limits."""
        return replace(self, limits=replace(self.limits, **limits))

    def mask(self, outputs: Sequence[Array], found: Boxes, number: int) -> NDArray[np.bool_]:
        """[rows, columns] of the prototypes: the pixels of one box, inside of it only."""
        assert self.masks is not None
        held, flat = self.masks, [np.ascontiguousarray(output, np.float32).reshape(-1) for output in outputs]
        pixels = np.arange(held.rows * held.columns)
        places = held.values.start + pixels * held.values.cell
        total: Single = np.zeros(len(pixels), np.float32)
        with np.errstate(all="ignore"):
            for k in range(held.count):  # in this order, as C adds them
                total += found.more[number, k] * flat[held.values.output][places + k * held.values.value]
        steps = np.asarray(np.array([held.columns, held.rows] * 2, np.float32) / np.array(self.side * 2, np.float32))
        x1, y1, x2, y2 = found.corners[number] * steps
        x, y = (part.astype(np.float32) for part in (pixels % held.columns, pixels // held.columns))
        inside = (x >= x1) & (x < x2) & (y >= y1) & (y < y2)
        return ((total > 0) & inside).reshape(held.rows, held.columns)

    def told_by(self, flat: Sequence[Single]) -> Decoder:
        """What only values tell: the unit of coordinates; of two outputs of corners, the anchors are in order."""
        if self.family.placed in LISTS and not self.unit:
            rows = self.heads[0].boxes.of(flat, self.heads[0], 0, 4)
            return self.in_unit(SHARES if (scale_of(rows, self.side) == self.side).all() else PIXELS)
        if self.family.placed == OUTPUT and self.anchors_at < 0:
            head, rest = self.heads[0], [k for k in range(3) if k != self.heads[0].scores.output]
            both = [flat[k].reshape(-1, 4) for k in rest]
            ordered = [bool((one[:, 2:] > one[:, :2]).all()) for one in both]
            return self.with_anchors_at(rest[1] if ordered[1] or not ordered[0] else rest[0], head)
        return self

    def in_unit(self, unit: str) -> Decoder:
        scale = (float(self.side[0]), float(self.side[1])) if unit == SHARES else (1.0, 1.0)
        return replace(self, unit=unit, heads=tuple(replace(h, step=scale, sizes=(scale,)) for h in self.heads))

    def with_anchors_at(self, output: int, head: DetectorHead) -> Decoder:
        offsets = next(k for k in range(3) if k not in (output, head.scores.output))
        moved = replace(head, boxes=replace(head.boxes, output=offsets))
        return replace(self, anchors_at=output, heads=(moved,))

    def candidates(self, flat: Sequence[Single]) -> Boxes:
        """The best pairs of box and class, in order."""
        scores = np.concatenate([self._scores(head, flat) for head in self.heads])
        which, classes = np.nonzero(scores > np.float32(self.limits.score))
        values = scores[which, classes]
        order = np.argsort(-values, kind="stable")[: self.limits.candidates]
        corners, points, more = self._boxes(flat, which[order])
        valid = np.isfinite(corners).all(axis=1) & np.isfinite(points).all(axis=(1, 2)) & np.isfinite(more).all(axis=1)
        return Boxes(corners, values[order], classes[order], points, more).some(np.flatnonzero(valid))

    def _scores(self, head: DetectorHead, flat: Sequence[Single]) -> Single:
        family = self.family
        scores = score_of(family.score, head.scores.of(flat, head, family.first, self.classes))
        if not family.objectness:
            return scores
        return score_of(family.objectness, head.scores.of(flat, head, 4, 1)) * scores

    def _boxes(self, flat: Sequence[Single], which: Array) -> tuple[Single, Single, Single]:
        """Corners [boxes, 4], points [boxes, points, 2], more [boxes, values]."""
        if self.family.placed == HEADS:
            return self._of_heads(flat, which)
        family, count = self.family, 4 + 2 * self.points
        values: Single = np.concatenate([head.boxes.of(flat, head, 0, count) for head in self.heads])[which]
        place, step = (part[which] for part in self._places(flat))
        points: Single = place[:, None, :2] + values[:, 4:].reshape(len(values), self.points, 2) * step[:, None, :2]
        if family.corners:
            moved: Single = place + values[:, :4] * step
            return moved, points, np.zeros((len(values), 0), np.float32)
        centre = place[:, :2] + _OF_BOXES[family.centre](values[:, :2]) * step[:, :2]
        half = _OF_BOXES[family.size](values[:, 2:4] * np.float32(family.factor)) * step[:, 2:] * np.float32(0.5)
        corners: Single = np.concatenate([centre - half, centre + half], axis=1)
        return corners, points, np.zeros((len(values), 0), np.float32)

    def _of_heads(self, flat: Sequence[Single], which: Array) -> tuple[Single, Single, Single]:
        """Distances of the four sides from the middle of the cell, in strides."""
        first = np.cumsum([0, *(head.cells for head in self.heads)])
        grid = np.searchsorted(first, which, side="right") - 1
        width = self.masks.count if self.masks is not None else 3 * self.points
        values, more = (np.zeros((len(which), n), np.float32) for n in (4 * self.bins, width))
        places, strides, cells = (np.zeros((len(which), 2), np.float32) for _ in range(3))
        for number, head in enumerate(self.heads):
            own = np.flatnonzero(grid == number)
            cell = which[own] - first[number]
            values[own] = head.boxes.of(flat, head, 0, 4 * self.bins)[cell]
            cells[own] = np.stack([cell % head.columns, cell // head.columns], axis=1)
            strides[own] = head.stride
            places[own] = (cells[own] + np.float32(head.offset)) * strides[own]
            if head.more is not None:
                more[own] = head.more.of(flat, head, 0, width)[cell]
        distances = values if self.bins == 1 else expected(values.reshape(-1, 4, self.bins))
        corners: Single = np.concatenate([places - distances[:, :2] * strides, places + distances[:, 2:] * strides], 1)
        if not self.points:
            return corners, np.zeros((len(which), 0, 2), np.float32), more
        given, step, offset = more.reshape(len(which), self.points, 3), self.family.point_step, self.family.point_offset
        points: Single = given[..., :2] * np.float32(step) + (cells + np.float32(offset))[:, None]
        return corners, points * strides[:, None], sigmoid(given[..., 2])

    @property
    def more(self) -> int:
        """Values of `Boxes.more`."""
        return self.masks.count if self.masks is not None else self.points if self.family.placed == HEADS else 0

    def _places(self, flat: Sequence[Single]) -> tuple[Single, Single]:
        """Gives place and step of every box, as `DetectorHead.places`; anchors come from the model or were given."""
        side: Single = np.array(self.side, np.float32)
        if self.family.placed == OUTPUT:
            anchors = flat[self.anchors_at].reshape(-1, 4)
            sizes: Single = (anchors[:, 2:] - anchors[:, :2]) * side
            corners: Single = anchors * np.concatenate([side, side])
            return corners, np.concatenate([sizes, sizes], axis=1)
        if self.family.placed == GIVEN:
            given: Single = np.array(self.anchors, np.float32)
            sizes = given[:, 2:]
            place = np.concatenate([given[:, :2], np.zeros_like(sizes)], axis=1)
            steps: Single = np.concatenate([sizes * np.float32(VARIANCE), sizes], axis=1)
            return place, steps
        both = [head.places() for head in self.heads]
        return np.concatenate([place for place, _ in both]), np.concatenate([step for _, step in both])


def overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of one box with others."""
    size = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.where((size > 0).all(axis=1), size[:, 0] * size[:, 1], 0)
    whole = (areas(box[None]) + areas(others)) - shared
    return np.divide(shared, whole, out=np.zeros_like(shared), where=shared > 0)


def areas(boxes: Array) -> Array:
    size = boxes[:, 2:] - boxes[:, :2]
    return np.where((size > 0).all(axis=1), size[:, 0] * size[:, 1], 0)


def suppressed(found: Boxes, limits: BoxLimits) -> Boxes:
    """Every class by itself; of boxes that overlap more, the best stays. Scores are in order."""
    kept: list[int] = []
    for number in np.unique(found.classes):
        own = np.flatnonzero(found.classes == number)
        while own.size:
            kept.append(int(own[0]))
            rest = own[1:]
            own = rest[overlaps(found.corners[own[0]], found.corners[rest]) <= np.float32(limits.overlap)]
    return found.some(np.array(sorted(kept)[: limits.most], dtype=np.intp))


# --- what other figures of detectors and poses are made with


def table(outputs: Sequence[Array]) -> Array:
    """[boxes, values] of one output: there are more boxes than values."""
    whole: Array = outputs[0].reshape(outputs[0].shape[-2:])
    return whole.T if whole.shape[0] < whole.shape[1] else whole


def scale_of(rows: Array, side: tuple[int, int]) -> Array:
    """Pixels for each unit of the coordinates: shares of the input are hardly beyond 1, pixels are."""
    shares = float(np.abs(rows[:, :4]).max(initial=0.0)) <= 2.0
    return np.array(side if shares else (1, 1), np.float64)
