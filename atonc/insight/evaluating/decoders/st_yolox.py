"""ST-YOLOX, st_yolo_x of ST's model zoo: a grid for each stride, without activations.

Each cell has x, y, w, h, objectness and classes for every anchor. The centre is (cell + sigmoid(value)) of the grid,
the size is exp(value) * anchor, the score sigmoid(objectness) * softmax(classes); anchors are shares of the input, as
`postprocessing.yolo_anchors` of the zoo has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.insight.evaluating.decoders.boxes import Array, Boxes, from_centres, sigmoid, suppressed
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

ANCHORS = ((0.5, 0.5),)
_LARGEST = 20.0


@dataclass(frozen=True)
class StYolox:
    side: tuple[int, int]
    shapes: tuple[tuple[int, ...], ...]
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
        grid: Array = output.reshape(output.shape[-3:])
        grid = np.moveaxis(grid, 0, -1) if channels_first(output.shape) else grid
        rows, columns, channels = grid.shape
        count = len(self.anchors)
        values = grid.reshape(rows, columns, count, channels // count).astype(np.float64)
        places = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1)[:, :, None]
        side = np.array(self.side, np.float64)
        centres = (places + sigmoid(values[..., :2])) / np.array([columns, rows]) * side
        sizes = np.exp(np.minimum(values[..., 2:4], _LARGEST)) * np.array(self.anchors) * side
        classes = np.exp(values[..., 5:] - values[..., 5:].max(axis=-1, keepdims=True))
        scores = sigmoid(values[..., 4:5]) * classes / classes.sum(axis=-1, keepdims=True)
        return from_centres(centres, sizes).reshape(-1, 4), scores.reshape(-1, scores.shape[-1])


def channels_first(shape: tuple[int, ...]) -> bool:
    """Grids are square."""
    return len(shape) >= 3 and shape[-1] == shape[-2] != shape[-3]


def channels_of(shape: tuple[int, ...]) -> int:
    return shape[-3] if channels_first(shape) else shape[-1]
