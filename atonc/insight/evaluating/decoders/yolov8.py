"""YOLOv8 as its exports give it: [1, 4 + classes, boxes] or [1, boxes, 4 + classes].

Centres and sizes are in pixels of the input, or in shares of it as TFLite exports have them; scores are probabilities
already. (https://docs.ultralytics.com: output of an exported detection model)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.insight.evaluating.decoders.boxes import Array, Boxes, from_centres, suppressed
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass


def table(outputs: Sequence[Array]) -> Array:
    """[boxes, values]: there are more boxes than values."""
    whole: Array = outputs[0].reshape(outputs[0].shape[-2:])
    return whole.T if whole.shape[0] < whole.shape[1] else whole


def scale_of(rows: Array, side: tuple[int, int]) -> Array:
    """Pixels for each unit of the coordinates: shares of the input are hardly beyond 1, pixels are."""
    shares = float(np.abs(rows[:, :4]).max(initial=0.0)) <= 2.0
    return np.array(side if shares else (1, 1), np.float64)


@dataclass(frozen=True)
class YoloV8:
    side: tuple[int, int]
    shapes: tuple[tuple[int, ...], ...]

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
