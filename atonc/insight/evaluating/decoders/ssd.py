"""SSD: scores with the background first, and offsets from anchors; everything in shares of the input.

Ssd (Liu and others 2016): outputs are scores [1, boxes, 1 + classes] and offsets [1, boxes, 4]; an anchor (x, y, w, h)
gives the centre x + tx * 0.1 * w and the size w * exp(tw * 0.2). StSsd, of ST's model zoo: the third output holds the
anchors as corners, and each corner moves by its offset times the size of the anchor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.insight.evaluating.decoders.boxes import Array, Boxes, from_centres, suppressed
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

VARIANCES = (0.1, 0.2)
_LARGEST = 20.0


def _tables(outputs: Sequence[Array]) -> list[Array]:
    return [value.reshape(value.shape[-2:]).astype(np.float64) for value in outputs]


def _require(shapes: Sequence[tuple[int, ...]], count: int, rule: str) -> None:
    rows = {shape[-2] for shape in shapes if len(shape) >= 2}
    fours = sum(shape[-1] == 4 for shape in shapes)
    if len(shapes) != count or len(rows) != 1 or fours < count - 1:
        raise InputError(f"outputs {list(shapes)} are not those of SSD", rule=rule)


def _scores_at(shapes: Sequence[tuple[int, ...]]) -> int:
    """Which output has the scores: the one that has not four values, or the first."""
    return next((k for k, shape in enumerate(shapes) if shape[-1] != 4), 0)


@dataclass(frozen=True)
class StSsd:
    side: tuple[int, int]
    shapes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        _require(self.shapes, 3, "scores, offsets and anchors, one row for each box")

    @property
    def classes(self) -> int:
        return self.shapes[_scores_at(self.shapes)][-1] - 1

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        """Offsets come before the anchors in the models of the zoo; anchors are corners in order, offsets are not."""
        values, at = _tables(outputs), _scores_at(self.shapes)
        rest = [value for k, value in enumerate(values) if k != at]
        ordered = [bool((value[:, 2:] > value[:, :2]).all()) for value in rest]
        offsets, anchors = rest if ordered[1] or not ordered[0] else rest[::-1]
        sizes = np.tile(anchors[:, 2:] - anchors[:, :2], 2)
        corners = (anchors + offsets * sizes) * np.tile(np.array(self.side, np.float64), 2)
        return suppressed(corners, values[at][:, 1:])


@dataclass(frozen=True)
class Ssd:
    side: tuple[int, int]
    shapes: tuple[tuple[int, ...], ...]
    anchors: tuple[tuple[float, ...], ...]  # x, y, w, h of each

    def __post_init__(self) -> None:
        _require(self.shapes, 2, "scores and offsets, one row for each box")
        if len(self.anchors) != self.shapes[0][-2]:
            raise InputError(
                f"{len(self.anchors)} anchors for {self.shapes[0][-2]} boxes",
                remedy="--anchors FILE.npy with x, y, w, h of each box in shares of the input",
            )

    @property
    def classes(self) -> int:
        return self.shapes[_scores_at(self.shapes)][-1] - 1

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        values, at = _tables(outputs), _scores_at(self.shapes)
        offsets, anchors = values[1 - at], np.array(self.anchors)
        centres = anchors[:, :2] + offsets[:, :2] * VARIANCES[0] * anchors[:, 2:]
        sizes = anchors[:, 2:] * np.exp(np.minimum(offsets[:, 2:] * VARIANCES[1], _LARGEST))
        corners = from_centres(centres, sizes) * np.tile(np.array(self.side, np.float64), 2)
        return suppressed(corners, values[at][:, 1:])
