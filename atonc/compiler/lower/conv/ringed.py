"""Convolutions in windows that published programs have, on whole lines: 3x3 with padding on all sides, or with stride 2
and padding on the right and below.

No published engine leaves out columns of the lines that it reads, and windows of 3x3 without padding are rare. So the
parts of a kernel look at the same padded copy of the picture from different addresses, a line of theirs ending where
the next one of the copy begins. Each gives results too many, where it met padding of its own or the next line: a ring,
or columns and a row at the end. A copy takes what counts, one row and column in every stride that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.kernel_parts import WINDOW, KeptResults, Part, Ring, Weights, group_2x, stepped
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.pad_first import pad_first
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import Way, choose
from atonc.compiler.select.rules import CONV_MODE
from atonc.machine.base.frozen import dataclass

Lower = Callable[[ConvLayer, Context], list[TaskGroup]]
Taps = tuple[int, slice, int]  # where a window begins for the first output, its taps, where the first of them stands

ON_CODES, ON_SHIFTED = "on codes as stored", "on code + 128"


@dataclass(frozen=True)
class WholeLines:
    """How windows of 3x3 move over whole lines, and their padding: at top and left, at bottom and right."""

    stride: int
    before: int
    behind: int

    def results(self, size: int) -> int:
        """On so many rows or columns."""
        return (size + self.before + self.behind - WINDOW) // self.stride + 1


WITH_A_RING, WITH_A_STRIDE = WholeLines(1, 1, 1), WholeLines(2, 0, 1)
_NAMES = {WITH_A_RING: "windows with a ring", WITH_A_STRIDE: "windows with stride 2"}


def every_second(layer: ConvLayer) -> ConvLayer:
    """A convolution of 1x1 without its stride, on the pixels that it looks at."""
    if layer.weights.shape[1:3] != (1, 1) or layer.stride == (1, 1) or any(layer.padding):
        raise Refusal(CONV_MODE, "a window", "1x1 with a stride and without padding", "cut it into windows of 3x3")
    rows, columns = layer.stride
    area = stepped(layer.area, 0, rows, layer.out.height, 0, columns, layer.out.width)
    return replace(layer, area=area, stride=(1, 1))


def lower_ringed(layer: ConvLayer, lower: Lower, context: Context) -> list[TaskGroup]:
    if layer.weights.shape[1:3] == (1, 1):
        raise Refusal(CONV_MODE, "a kernel of 1x1", "larger ones", "read it as it is")
    features = {ON_CODES: False} if layer.features_shifted else {ON_CODES: False, ON_SHIFTED: True}
    moves = [WITH_A_RING, *([WITH_A_STRIDE] if layer.stride == (2, 2) and layer.dilation == (1, 1) else [])]
    return choose(
        context,
        [
            Way[Context](partial(windows, layer, lower, lines, shifted), f"{_NAMES[lines]} {name}")
            for lines, (name, shifted) in product(moves, features.items())
        ],
    )


def windows(layer: ConvLayer, lower: Lower, lines: WholeLines, shifted: bool, context: Context) -> list[TaskGroup]:
    padding, around = on_whole_lines(layer, _needed(layer), shifted, context)
    ringed = _ringed(around, lines, context)
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


def _ringed(layer: ConvLayer, lines: WholeLines, context: Context) -> ConvLayer:
    rows = (layer.out.height - 1) * layer.stride[0] + WINDOW
    area = replace(layer.area, height=rows)
    out = Area.whole(lines.results(rows), lines.results(area.width), layer.outputs, layer.out_bytes)
    left = [step // lines.stride for step in layer.stride]
    ring = Ring(tuple(_parts(area, layer, lines)), layer.out, KeptResults(lines.before, left[0], left[1]))
    all_count = replace(out, offset=layer.out.offset) == layer.out
    target = layer.target if all_count else context.scratch(out.height * out.line, "results with a ring")
    return replace(layer, target=target, out=layer.out if all_count else out, ring=ring)


def _parts(area: Area, layer: ConvLayer, lines: WholeLines) -> Iterator[Part]:
    """Neighbouring taps in one window; with a dilation every tap in the middle of its own. Groups as `kernel_parts`
    has them, where a kernel is cut as ST's releases 2.x do."""
    sides = (lines.before, lines.before, lines.behind, lines.behind)
    for (row, rows, above), (column, columns, before) in product(*_axes(layer)):
        weights = np.zeros((layer.outputs, WINDOW, WINDOW, layer.weights.shape[3]), layer.weights.dtype)
        taps: Weights = layer.weights[:, rows, columns]
        weights[:, above : above + taps.shape[1], before : before + taps.shape[2]] = taps
        offset = area.offset + row * area.line + column * area.pixel
        group = group_2x(rows, columns) if layer.cut else (0, 0)
        yield Part(replace(area, offset=offset), weights, sides, lines.stride, group)


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
    assert ringed.ring is not None
    kept, out = ringed.ring.kept, ringed.out
    if ringed.target == layer.target:
        return []
    shape = (layer.out.height, layer.out.width, layer.outputs * layer.out_bytes)  # bytes of a result lie side by side
    steps = (kept.rows * out.line, kept.columns * out.pixel, 1)
    inner = StridedView(ringed.target, shape, steps, kept.first * (out.line + out.pixel))
    target = StridedView(layer.target, shape, (layer.out.line, layer.out.pixel, 1), layer.out.offset)
    return copy(context, [Move(inner, target)], layer.origin, f"results of {layer.op.name}")
