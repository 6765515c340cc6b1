"""Boxes with scores and classes, and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]

LEAST_SCORE = 0.001  # below, boxes change no figure
MOST_BEFORE, MOST_BOXES = 3000, 100
MOST_OVERLAP = 0.5


@dataclass(frozen=True)
class Boxes:
    """Corners x1, y1, x2, y2 in pixels of the input; the best first."""

    corners: Array
    scores: Array
    classes: Array


class Decoder(Protocol):
    @property
    def classes(self) -> int: ...

    def __call__(self, outputs: Sequence[Array]) -> Boxes: ...


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
