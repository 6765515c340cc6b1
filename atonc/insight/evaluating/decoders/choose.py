"""Which family the outputs are of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from atonc.compiler.inputs.arrays import read_arrays
from atonc.insight.evaluating.decoders.blazeface import Blazeface
from atonc.insight.evaluating.decoders.boxes import Decoder
from atonc.insight.evaluating.decoders.ssd import Ssd, StSsd
from atonc.insight.evaluating.decoders.st_yolox import ANCHORS, StYolox, channels_of
from atonc.insight.evaluating.decoders.yolov8 import YoloV8
from atonc.insight.evaluating.decoders.yolox import Yolox
from atonc.machine.base.errors import InputError

Shapes = Sequence[tuple[int, ...]]


def decoder_for(name: str, anchors: Sequence[float], shapes: Shapes, side: tuple[int, int]) -> Decoder:
    """Finds the decoder by its name, or from the shapes; raises where they do not fit."""
    name, shapes = name if name != "auto" else family(shapes), tuple(map(tuple, shapes))
    if name == "yolov8":
        return YoloV8(side, shapes)
    if name == "yolox":
        return Yolox(side, shapes)
    if name == "st_yolox":
        return StYolox(side, shapes, tuple(zip(anchors[::2], anchors[1::2], strict=True)) or ANCHORS)
    if name == "st_ssd":
        return StSsd(side, shapes)
    if name == "ssd":
        return Ssd(side, shapes, tuple(zip(*(anchors[k::4] for k in range(4)), strict=True)))
    return Blazeface(side, shapes)


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
