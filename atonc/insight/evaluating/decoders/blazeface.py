"""BlazeFace: anchors of one size at two grids, offsets in pixels of the input, one score each.

Published with MediaPipe: a 16 x 16 grid with 2 anchors a cell and an 8 x 8 grid with 6, for an input of 128 pixels;
the anchor is the middle of its cell, the box is centre + offset with width and height in pixels, the score is the
sigmoid of a value limited to 100. Behind the box are six key points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.insight.evaluating.decoders.boxes import Array, Boxes, from_centres, sigmoid, suppressed
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

GRIDS = ((16, 2), (8, 6))  # cells of a side, anchors of a cell
LIMIT = 100.0
MOST_OVERLAP = 0.3


def middles() -> Array:
    """Lists the centres of all anchors, in shares of the input."""
    found = []
    for cells, count in GRIDS:
        places = (np.arange(cells) + 0.5) / cells
        grid = np.stack(np.meshgrid(places, places), axis=-1).reshape(-1, 2)
        found.append(np.repeat(grid, count, axis=0))
    return np.concatenate(found)


@dataclass(frozen=True)
class Blazeface:
    side: tuple[int, int]
    shapes: tuple[tuple[int, ...], ...]
    classes = 1

    def __post_init__(self) -> None:
        shapes = self.shapes
        rows = {shape[-2] for shape in shapes if len(shape) >= 2}
        if sorted(shape[-1] for shape in shapes) not in ([1, 1, 16, 16], [1, 16]) or sum(rows) != len(middles()):
            rule = "512 and 384 boxes with 16 values each, and their scores"
            raise InputError(f"outputs {list(shapes)} are not those of BlazeFace", rule=rule)

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        flat: list[Array] = [value.reshape(value.shape[-2:]).astype(np.float64) for value in outputs]
        flat.sort(key=len, reverse=True)
        boxes = np.concatenate([value for value in flat if value.shape[1] == 16])
        scores = np.concatenate([value for value in flat if value.shape[1] == 1])
        side = np.array(self.side, np.float64)
        corners = from_centres(boxes[:, :2] + middles() * side, boxes[:, 2:4])
        return suppressed(corners, sigmoid(np.clip(scores, -LIMIT, LIMIT)), MOST_OVERLAP)
