"""The fallback for paddings that no unit setting covers: a padded copy of the input first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.lower.context import Context
from atonc.lower.copies import Move, pipelines
from atonc.lower.layer import Layer
from atonc.lower.meaning.sums import picture
from atonc.lower.padding import borders, inside, pad_view
from atonc.lower.pipelines import pack
from atonc.lower.registry import Refusal
from atonc.lower.views import View
from atonc.plan.streams import Area
from atonc.plan.types import StepPlan


def lower_padded(
    layer: Layer, context: Context, lower: Callable[[Layer, Context], list[StepPlan]]
) -> list[StepPlan]:
    """As `lower` does it; where it refuses the padding or the lines, on a padded copy."""
    try:
        return lower(layer, context)
    except Refusal as refusal:
        if not (any(layer.padding) or refusal.rule == "CONV-LINES") or layer.op.kind == "transpose_conv":
            raise
        padding, padded = pad_first(layer, context)
        return [*padding, *lower(padded, context)]


def pad_first(layer: Layer, context: Context, most_rows: int = 0) -> tuple[list[StepPlan], Layer]:
    """Epochs that write the padded copy, and the layer that reads it without padding, or only up to so many rows."""
    left_over = (min(layer.padding[0], most_rows), 0, min(layer.padding[2], most_rows), 0)
    top, left, bottom, right = (p - kept for p, kept in zip(layer.padding, left_over, strict=True))
    area = layer.area
    height, width = area.height + top + bottom, area.width + left + right
    line = -(-width // layer.stride[1]) * layer.stride[1]  # so that lines of every so manieth pixel do not overlap
    copy = context.scratch(height * line * area.channels, "padded input")
    shape = (area.height, area.width, area.channels)
    source = View(layer.source, shape, (area.line, area.pixel, area.element_bytes), area.offset)
    target = View.whole(copy, (height, line, area.channels)).cut(1, 0, width)
    pads = ((top, bottom), (left, right), (0, 0))
    work = pad_view(borders(target, pads), layer.zero, layer.source, area.height * area.line)
    work += pipelines([Move(source, inside(target, pads))])
    view = replace(Area.whole(height, line, area.channels), width=width)

    def stored(codes: NDArray[np.int64]) -> NDArray[np.int64]:
        values = np.zeros((height, line, area.channels), np.int64)
        values[:, :width] = layer.zero
        values[top : top + area.height, left : left + area.width] = picture(layer.stored(codes), area)
        return values.reshape(-1)

    padded = replace(layer, source=copy, area=view, padding=left_over, stored=stored)
    return pack(work, layer.origin, f"padding of {layer.op.name}"), padded
