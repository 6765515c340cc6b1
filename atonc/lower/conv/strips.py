"""Pictures too wide for the line buffers of the units: strips of columns, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from atonc.lower.context import Context
from atonc.lower.conv.layer import Layer
from atonc.lower.registry import Refusal
from atonc.plan.task import TaskGroup
from atonc.select.choose import choose, in_order
from atonc.select.preferences import FEWEST_STRIPS

Lower = Callable[[Layer, Context], list[TaskGroup]]

WIDE = 256  # pixels: narrower pictures fit, whatever else is refused
COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)


def lower_wide(layer: Layer, context: Context, lower: Lower) -> list[TaskGroup]:
    """As `lower` does it; where it refuses a wide picture, in as few strips as it takes."""
    counts = COUNTS if layer.area.width >= WIDE and layer.op.kind == "conv" else ()
    draws = [partial(lower, layer), *(partial(_in_strips, layer, lower, count) for count in counts)]
    return choose(context, in_order(FEWEST_STRIPS, draws))


def _in_strips(layer: Layer, lower: Lower, count: int, context: Context) -> list[TaskGroup]:
    return [group for strip in strips(layer, count) for group in lower(strip, context)]


def strips(layer: Layer, count: int) -> Iterator[Layer]:
    """The same layer for some columns of the output at a time, on the columns that they see."""
    width = -(-layer.out.width // count)
    top, left, bottom, _ = layer.padding
    for first in range(0, layer.out.width, width):
        some = min(width, layer.out.width - first)
        start = first * layer.stride[1] - left
        end = start + (some - 1) * layer.stride[1] + (layer.weights.shape[2] - 1) * layer.dilation[1] + 1
        inside = max(0, start), min(end, layer.area.width)
        if inside[0] >= inside[1]:
            raise Refusal("CONV-PADDING", "outputs that see only padding", "at least one input each", "pad first")
        yield replace(
            layer,
            area=layer.area.columns(inside[0], inside[1] - inside[0]),
            out=layer.out.columns(first, some),
            padding=(top, max(0, -start), bottom, max(0, end - layer.area.width)),
        )
