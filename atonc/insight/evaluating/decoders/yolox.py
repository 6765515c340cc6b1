"""YOLOX (Ge and others 2021) as its exports give it: one output [1, boxes, 5 + classes] for the strides 8, 16 and 32.

Scores are probabilities already. A box has the centre (cell + value) * stride and the size exp(value) * stride.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.insight.evaluating.decoders.boxes import Array, Boxes, from_centres, suppressed
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

STRIDES = (8, 16, 32)
_LARGEST = 20.0  # exponents of sizes beyond all pictures


def cells(side: tuple[int, int]) -> tuple[Array, Array]:
    """Column and row of every cell of all grids, and its stride."""
    places, strides = [], []
    for stride in STRIDES:
        columns, rows = side[0] // stride, side[1] // stride
        grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1).reshape(-1, 2)
        places.append(grid)
        strides.append(np.full((len(grid), 1), stride))
    return np.concatenate(places), np.concatenate(strides)


@dataclass(frozen=True)
class Yolox:
    side: tuple[int, int]
    shapes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        boxes = len(cells(self.side)[0])
        if len(self.shapes) != 1 or self.shapes[0][-2] != boxes or self.shapes[0][-1] < 6:
            raise InputError(
                f"outputs {list(self.shapes)} are not those of YOLOX", rule=f"one output [1, {boxes}, 5 + classes]"
            )

    @property
    def classes(self) -> int:
        return self.shapes[0][-1] - 5

    def __call__(self, outputs: Sequence[Array]) -> Boxes:
        rows = outputs[0].reshape(outputs[0].shape[-2:]).astype(np.float64)
        places, strides = cells(self.side)
        centres = (rows[:, :2] + places) * strides
        sizes = np.exp(np.minimum(rows[:, 2:4], _LARGEST)) * strides
        return suppressed(from_centres(centres, sizes), rows[:, 4:5] * rows[:, 5:])
