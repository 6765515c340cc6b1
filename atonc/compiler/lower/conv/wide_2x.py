"""Kernels of four to seven columns as ST's releases 2.x cut them: up to six columns summed at once, then the seventh.

No published unit takes that many columns of signed bytes, nor do two of them in a chain, but three columns of pairs of
pixels are the same: every second output sees the same pairs, so there is one picture of pairs for even columns and one
for odd ones. What a pair has too much meets no weight. Windows have a ring as in `ringed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.kernel_parts import WINDOW, KeptResults, Part, Ring, Weights
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.ringed import on_whole_lines, taps_of, what_counts
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import CONV_MODE

Lower = Callable[[ConvLayer, Context], list[TaskGroup]]

TOGETHER = 2 * WINDOW
MOST_CHANNELS = 4  # of which pairs fit a unit


def lower_pairs(layer: ConvLayer, lower: Lower, context: Context) -> list[TaskGroup]:
    _, rows, columns, channels = layer.weights.shape
    fits = WINDOW < columns <= TOGETHER + 1 and channels <= MOST_CHANNELS and layer.out_bytes == 1
    alone = rows <= WINDOW and columns <= TOGETHER  # one chain: it reads the layer's channels, not pairs
    if not fits or alone or not layer.stride == layer.dilation == (1, 1):
        seen = f"a kernel of {rows}x{columns} on {channels} channels"
        raise Refusal(CONV_MODE, seen, "several pieces of 4 to 7 columns, 4 channels", "change the kernel size")
    line = layer.area.width + layer.padding[1] + layer.padding[3]
    high = layer.out.height + max(place for place, *_ in taps_of(rows, 1)) + WINDOW  # lines end in the row below
    padding, around = on_whole_lines(layer, (high, line + line % 2), False, context)
    return [*padding, *(group for column in (0, 1) for group in _columns(layer, around, column, lower, context))]


def _columns(layer: ConvLayer, around: ConvLayer, column: int, lower: Lower, context: Context) -> list[TaskGroup]:
    """Every second column of the results, from this one on."""
    out = layer.out.columns(column, -(-(layer.out.width - column) // 2))
    some = replace(layer, out=replace(out, pixel=2 * out.pixel))
    if not out.width:
        return []
    area = around.area.columns(column, around.area.width // 2)
    rows = out.height - 1 + WINDOW
    pairs = replace(area, height=rows, channels=2 * area.channels, pixel=2 * area.pixel)
    ring = Ring(tuple(_parts(pairs, layer.weights)), some.out, KeptResults(1, 1, 1))
    target = context.scratch(rows * pairs.width * layer.outputs, "results with a ring")
    ringed = replace(around, target=target, out=Area.whole(rows, pairs.width, layer.outputs), ring=ring)
    return [*lower(ringed, context), *what_counts(some, ringed, context)]


def _parts(pairs: Area, weights: Weights) -> Iterator[Part]:
    """Three rows of six columns, then of the seventh: all parts are groups of their own, rounded by themselves."""
    outputs, rows, columns, channels = weights.shape
    whole = np.zeros((outputs, rows, 2 * TOGETHER, channels), weights.dtype)
    whole[:, :, :columns] = weights
    for number, (row, taps, above) in enumerate(taps_of(rows, 1)):
        for kind, first in enumerate(range(0, columns, TOGETHER)):
            own = whole[:, taps, first : first + TOGETHER].reshape(outputs, -1, WINDOW, 2 * channels)
            window = np.zeros((outputs, WINDOW, WINDOW, 2 * channels), weights.dtype)
            window[:, above : above + own.shape[1]] = own
            offset = pairs.offset + row * pairs.line + kind * WINDOW * pairs.pixel
            yield Part(replace(pairs, offset=offset), window, (1, 1, 1, 1), 1, (number, kind))
