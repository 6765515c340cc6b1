"""Pictures too wide for the line buffers of the units: strips of columns, one after the other. And pictures whose sums
between passes would fill the memory: bands of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import gcd

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.dense_chain import BETWEEN_PASSES
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.ringed import every_second, lower_ringed
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import picture
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import Offer, Way, attempt, choose, in_order, take_best
from atonc.compiler.select.form import Form
from atonc.compiler.select.preferences import FEWEST_STRIPS
from atonc.compiler.select.rules import CONV_LINES, CONV_MODE, CONV_PADDING
from atonc.machine.hw.limits import ALIGNED, READ_ALIGNMENT

Lower = Callable[[ConvLayer, Context], list[TaskGroup]]
Seen = tuple[int, int, int, int]  # first and end of the pixels that outputs see on one axis, padding before and behind

WIDE = 256  # pixels: narrower pictures fit, whatever else is refused
HIGH = 128  # rows: lower pictures were seen with all units
COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)


def lower_wide(layer: ConvLayer, context: Context, lower: Lower) -> list[TaskGroup]:
    """As `lower` does it; where it refuses a wide picture, in as few strips as it takes; where that needs much memory
    between passes, in bands of rows if they cost less, and where no memory would do, in any case. Engines that must
    read whole lines come last, on copies."""
    counts = COUNTS if layer.area.width >= WIDE and layer.op.kind == "conv" else ()
    draws = [partial(lower, layer), *(partial(_in_strips, layer, lower, count) for count in counts)]
    if layer.op.kind == "conv" and layer.numerics != "2.x":
        draws += [partial(_in_rows, lower, layer), partial(_on_its_pixels, lower, layer)]
        draws.append(partial(_on_what_it_sees, lower, layer))
        draws.append(partial(lower_ringed, layer, lower))
    whole = attempt(context, lambda draft: choose(draft, in_order(FEWEST_STRIPS, draws)))
    bands_help = layer.numerics != "2.x" and layer.op.kind == "conv" and context.room.band_bytes > 0
    if not isinstance(whole, Form) or not bands_help:
        return context.take(whole)
    if _has_no_place(whole, context) and layer.area.contiguous:
        count = -(-layer.area.height * layer.area.line // context.room.band_bytes)
        banded = attempt(context, partial(_in_copied_bands, lower, layer, count))
        return context.take(banded if isinstance(banded, Form) else whole)
    count = _bands(context, whole)
    banded = attempt(context, partial(_in_bands, lower, layer, count)) if count > 1 else whole
    if banded is not whole and isinstance(banded, Form):
        return take_best(context, [Offer(banded, "bands of rows"), Offer(whole, "all rows at once")])
    return context.take(whole)


def _bands(context: Context, form: Form) -> int:
    """How many keep the sums between passes small enough to lie in the NPU's own RAM beside all else."""
    sums = [b.size_bytes for name, b in form.buffers.items() if name.startswith(BETWEEN_PASSES)]
    return -(-max(sums, default=0) // context.room.band_bytes)


def _has_no_place(form: Form, context: Context) -> bool:
    """An engine reads between aligned addresses, which only the NPU's own RAM allows, and that is too small."""
    uses = [use for group in form.groups for task in group.tasks for use in task.engines.values()]
    odd = {use.buffer for use in uses if not use.config.to_memory and use.config.address % READ_ALIGNMENT}
    known = [(form.buffers if name in form.buffers else context.buffers)[name] for name in odd]
    return any(buffer.size_bytes > context.room.npu_ram_bytes for buffer in known)


def _in_strips(layer: ConvLayer, lower: Lower, count: int, context: Context) -> list[TaskGroup]:
    return [group for strip in strips(layer, count) for group in lower(strip, context)]


def _in_bands(lower: Lower, layer: ConvLayer, count: int, context: Context) -> list[TaskGroup]:
    """Features that the NPU's own RAM cannot hold are read once, into a copy, where chains read them several times."""
    found: list[TaskGroup] = []
    for band in bands(layer, count):
        ways = [Way[Context](partial(lower, band), "features as stored")]
        if _lies_outside(layer, context):
            ways.append(Way(partial(_on_a_copy, lower, band), "on a copy of its rows"))
        found += choose(context, ways)
    return found


def _in_copied_bands(lower: Lower, layer: ConvLayer, count: int, context: Context) -> list[TaskGroup]:
    return [group for band in bands(layer, count) for group in _on_a_copy(lower, band, context)]


def _in_rows(lower: Lower, layer: ConvLayer, context: Context) -> list[TaskGroup]:
    """Pictures higher than units were seen with, in halves."""
    if layer.weights.shape[1:3] != (1, 1) or layer.area.height < HIGH:
        raise Refusal(CONV_MODE, "a window or few rows", "many rows of 1x1", "read them at once")
    return [group for band in bands(layer, 2) for group in lower(band, context)]


def _on_its_pixels(lower: Lower, layer: ConvLayer, context: Context) -> list[TaskGroup]:
    return _on_a_copy(lower, every_second(layer), context)


def _on_what_it_sees(lower: Lower, layer: ConvLayer, context: Context) -> list[TaskGroup]:
    """On a copy without the last row or column, which a stride leaves out: engines then read whole lines."""
    (top, bottom, above, below), (left, right, before, behind) = (
        seen(layer, axis, 0, size) for axis, size in enumerate((layer.out.height, layer.out.width))
    )
    area = layer.area.rows(top, bottom - top).columns(left, right - left)
    if (area.height, area.width) == (layer.area.height, layer.area.width):
        raise Refusal(CONV_LINES, "all rows and columns are looked at", "some that are not", "read it as it is")
    return _on_a_copy(lower, replace(layer, area=area, padding=(above, before, below, behind)), context)


def _lies_outside(layer: ConvLayer, context: Context) -> bool:
    return layer.area.height * layer.area.line > context.room.npu_ram_bytes and layer.area.contiguous


def _on_a_copy(lower: Lower, band: ConvLayer, context: Context) -> list[TaskGroup]:
    if band.coarse:
        raise Refusal(CONV_LINES, "features of two bytes", "no copy of them", "read them byte by byte")
    area = Area.whole(band.area.height, band.area.width, band.area.channels)
    shape, strides = (area.height, area.width, area.channels), (area.line, area.pixel, 1)
    copied = context.scratch(area.height * area.line, "rows of features")
    source = StridedView(band.source, shape, (band.area.line, band.area.pixel, 1), band.area.offset)
    moves = [Move(source, StridedView(copied, shape, strides))]
    moved = copy(context, moves, band.origin, f"features of {band.op.name}")

    def stored(codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return picture(band.stored(codes), band.area).reshape(-1)

    return [*moved, *lower(replace(band, source=copied, area=area, stored=stored), context)]


def strips(layer: ConvLayer, count: int) -> Iterator[ConvLayer]:
    """The same layer for some columns of the output at a time, on the columns that they see."""
    width = -(-layer.out.width // count)
    top, _, bottom, _ = layer.padding
    for column in range(0, layer.out.width, width):
        some = min(width, layer.out.width - column)
        first, end, left, right = seen(layer, 1, column, some)
        area, out = layer.area.columns(first, end - first), layer.out.columns(column, some)
        yield replace(layer, area=area, out=out, padding=(top, left, bottom, right))


def bands(layer: ConvLayer, count: int) -> Iterator[ConvLayer]:
    """The same for rows, from aligned addresses on."""
    unit = ALIGNED // gcd(ALIGNED, layer.out.line)
    height = -(-layer.out.height // count // unit) * unit
    _, left, _, right = layer.padding
    for row in range(0, layer.out.height, height):
        some = min(height, layer.out.height - row)
        first, end, top, bottom = seen(layer, 0, row, some)
        area, out = layer.area.rows(first, end - first), layer.out.rows(row, some)
        padding = (top, left, bottom, right)
        yield replace(layer, area=area, out=out, padding=padding, whole_bytes=layer.largest_bytes)


def seen(layer: ConvLayer, axis: int, place: int, count: int) -> Seen:
    """Finds what so many outputs from `place` on see of the input."""
    size = (layer.area.height, layer.area.width)[axis]
    start = place * layer.stride[axis] - layer.padding[axis]
    end = start + (count - 1) * layer.stride[axis] + (layer.weights.shape[1 + axis] - 1) * layer.dilation[axis] + 1
    inside = max(0, start), min(end, size)
    if inside[0] >= inside[1]:
        raise Refusal(CONV_PADDING, "outputs that see only padding", "at least one input each", "pad first")
    return *inside, max(0, -start), max(0, end - size)
