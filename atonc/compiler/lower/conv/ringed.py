"""Convolutions in windows that published programs have: 3x3 with padding on all sides, on whole lines.

No published engine leaves out columns of the lines that it reads, and windows of 3x3 without padding are rare. So the
parts of a kernel look at the same padded copy of the picture from different addresses, a line of theirs ending where
the next one of the copy begins. Each gives a ring of results too many, where it met padding of its own or the next
line. A copy takes what counts, one row and column in every stride.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.kernel_parts import WINDOW, Part, Ring, Weights, group_2x, stepped
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.pad_first import pad_first
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import Way, choose

Lower = Callable[[ConvLayer, Context], list[TaskGroup]]
Taps = tuple[int, slice, int]  # where a window begins for the first output, its taps, where the first of them stands

AS_STORED, SHIFTED = "windows with a ring on codes as stored", "windows with a ring on code + 128"


def every_second(layer: ConvLayer) -> ConvLayer:
    """A convolution of 1x1 without its stride, on the pixels that it looks at."""
    if layer.weights.shape[1:3] != (1, 1) or layer.stride == (1, 1) or any(layer.padding):
        raise Refusal("CONV-MODE", "a window", "1x1 with a stride and without padding", "cut it into windows of 3x3")
    rows, columns = layer.stride
    area = stepped(layer.area, 0, rows, layer.out.height, 0, columns, layer.out.width)
    return replace(layer, area=area, stride=(1, 1))


def lower_ringed(layer: ConvLayer, lower: Lower, context: Context) -> list[TaskGroup]:
    if layer.weights.shape[1:3] == (1, 1):
        raise Refusal("CONV-MODE", "a kernel of 1x1", "larger ones", "read it as it is")
    ways = [Way[Context](partial(with_a_ring, layer, lower, False), AS_STORED)]
    if not layer.features_shifted:
        ways.append(Way(partial(with_a_ring, layer, lower, True), SHIFTED))
    return choose(context, ways)


def with_a_ring(layer: ConvLayer, lower: Lower, shifted: bool, context: Context) -> list[TaskGroup]:
    padding, around = on_whole_lines(layer, _needed(layer), shifted, context)
    ringed = _ringed(around, context)
    return [*padding, *lower(ringed, context), *what_counts(layer, ringed, context)]


def on_whole_lines(
    layer: ConvLayer, needed: tuple[int, int], shifted: bool, context: Context
) -> tuple[list[TaskGroup], ConvLayer]:
    """Epochs that write a copy with the padding around it, and the layer on it, unless all is there already.
    `needed`: rows and columns of the copy, `shifted`: as code + 128."""
    top, left, bottom, right = layer.padding
    rows, columns = needed
    below = max(0, rows - top - layer.area.height - bottom)
    beside = max(0, columns - left - layer.area.width - right)
    if not shifted and not any(layer.padding) and layer.area.contiguous and below == beside == 0:
        return [], layer
    # windows take every column, whatever the stride is, so the copy needs no longer lines for it
    larger = replace(layer, padding=(top, left, bottom + below, right + beside), stride=(1, 1))
    groups, padded = pad_first(larger, context, shifted=shifted)
    return groups, replace(padded, stride=layer.stride, border=(0, 0, 0, 0))


def _needed(layer: ConvLayer) -> tuple[int, int]:
    """Rows and columns of the copy: lines that begin later than others end in a row below."""
    first_row, first_column = (max(place for place, *_ in taps) for taps in _axes(layer))
    rows, columns = (
        (size - 1) * step + WINDOW for size, step in zip((layer.out.height, layer.out.width), layer.stride, strict=True)
    )
    return first_row + rows + (first_column > 0), columns


def _ringed(layer: ConvLayer, context: Context) -> ConvLayer:
    rows = (layer.out.height - 1) * layer.stride[0] + WINDOW
    area = replace(layer.area, height=rows)
    out = Area.whole(rows, area.width, layer.outputs, layer.out_bytes)
    target = context.scratch(out.height * out.line, "results with a ring")
    ring = Ring(tuple(_parts(area, layer)), layer.out, layer.stride)
    return replace(layer, target=target, out=out, ring=ring)


def _parts(area: Area, layer: ConvLayer) -> Iterator[Part]:
    """Neighbouring taps in one window; with a dilation every tap in the middle of its own. Groups as `kernel_parts`
    has them, where a kernel is cut as ST's releases 2.x do."""
    for (row, rows, above), (column, columns, before) in product(*_axes(layer)):
        weights = np.zeros((layer.outputs, WINDOW, WINDOW, layer.weights.shape[3]), layer.weights.dtype)
        taps: Weights = layer.weights[:, rows, columns]
        weights[:, above : above + taps.shape[1], before : before + taps.shape[2]] = taps
        offset = area.offset + row * area.line + column * area.pixel
        group = group_2x(rows, columns) if layer.cut else (0, 0)
        yield Part(replace(area, offset=offset), weights, (1, 1, 1, 1), 1, group)


def _axes(layer: ConvLayer) -> list[list[Taps]]:
    sizes = layer.weights.shape[1:3]
    return [list(taps_of(size, step)) for size, step in zip(sizes, layer.dilation, strict=True)]


def taps_of(size: int, dilation: int) -> Iterator[Taps]:
    step = WINDOW if dilation == 1 else 1
    for first in range(0, size, step):
        tap = first * dilation  # place of the first one
        place = min(tap, max(0, size - WINDOW)) if dilation == 1 else max(0, tap - 1)
        yield place, slice(first, min(first + step, size)), tap - place


def what_counts(layer: ConvLayer, ringed: ConvLayer, context: Context) -> list[TaskGroup]:
    rows, columns = layer.stride
    shape = (layer.out.height, layer.out.width, layer.outputs * layer.out_bytes)  # bytes of a result lie side by side
    inner = StridedView(
        ringed.target,
        shape,
        (rows * ringed.out.line, columns * ringed.out.pixel, 1),
        ringed.out.line + ringed.out.pixel,
    )
    target = StridedView(layer.target, shape, (layer.out.line, layer.out.pixel, 1), layer.out.offset)
    return copy(context, [Move(inner, target)], layer.origin, f"results of {layer.op.name}")
