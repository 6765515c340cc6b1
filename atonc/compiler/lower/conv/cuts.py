"""Layers in pieces, one after the other: columns, rows, groups of channels; and rows in buffers that hold no others.

Pictures too wide for the line buffers of the units go in strips of columns; pictures whose sums between passes would
fill the memory in bands of rows. What a piece sees of the input follows from its outputs (`seen`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import gcd

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.prepare import CopiedRows
from atonc.compiler.lower.conv.weight_sums import Codes
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.plan.streams import Area
from atonc.compiler.select.enumerate import AS_IT_IS, Pieces
from atonc.compiler.select.rules import CONV_LINES, CONV_MODE, CONV_PADDING
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED

Ints = NDArray[np.int64]
Seen = tuple[int, int, int, int]  # first and end of the pixels that outputs see on one axis, padding before and behind

HIGH = 128  # rows: lower pictures were seen with all units


def seen(layer: ConvLayer, axis: int, place: int, count: int) -> Seen:
    """Finds what so many outputs from `place` on see of the input."""
    size = (layer.area.height, layer.area.width)[axis]
    start = place * layer.stride[axis] - layer.padding[axis]
    end = start + (count - 1) * layer.stride[axis] + (layer.weights.shape[1 + axis] - 1) * layer.dilation[axis] + 1
    inside = max(0, start), min(end, size)
    if inside[0] >= inside[1]:
        raise Refusal(CONV_PADDING, "outputs that see only padding", "at least one input each", "pad first")
    return *inside, max(0, -start), max(0, end - size)


def some_columns(layer: ConvLayer, first: int, count: int) -> ConvLayer:
    """The same layer for some columns of the output, on the columns that they see."""
    top, _, bottom, _ = layer.padding
    start, end, left, right = seen(layer, 1, first, count)
    area, out = layer.area.columns(start, end - start), layer.out.columns(first, count)
    return replace(layer, area=area, out=out, padding=(top, left, bottom, right))


def some_rows(layer: ConvLayer, first: int, count: int) -> ConvLayer:
    _, left, _, right = layer.padding
    start, end, top, bottom = seen(layer, 0, first, count)
    area, out = layer.area.rows(start, end - start), layer.out.rows(first, count)
    return replace(layer, area=area, out=out, padding=(top, left, bottom, right), whole_bytes=layer.largest_bytes)


def aligned_rows(area: Area, count: int) -> list[tuple[int, int]]:
    """Cuts an area into at most so many bands, which begin at aligned addresses: first rows and how many."""
    unit = ALIGNED // gcd(ALIGNED, area.line)
    height = -(-area.height // count // unit) * unit
    return [(row, min(height, area.height - row)) for row in range(0, area.height, height)]


@dataclass(frozen=True)
class Strips:
    """So many strips of columns."""

    count: int

    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        width = -(-layer.out.width // self.count)
        starts = range(0, layer.out.width, width)
        strips = (some_columns(layer, column, min(width, layer.out.width - column)) for column in starts)
        return Pieces(tuple((strip, AS_IT_IS) for strip in strips))


@dataclass(frozen=True)
class Bands:
    """So many bands of rows. `copied`: each on a copy of its rows; `either`: a copy is an alternative."""

    count: int
    copied: bool = False
    either: bool = False

    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        found = [some_rows(layer, *rows) for rows in aligned_rows(layer.out, self.count)]
        steps = (CopiedRows(),) if self.copied else AS_IT_IS
        return Pieces(tuple((Band(band) if self.either else band, steps) for band in found))


@dataclass(frozen=True, eq=False)
class Band:
    """Rows whose features may lie in a copy or not: that is decided next."""

    layer: ConvLayer


@dataclass(frozen=True)
class OfBand:
    def prepare(self, band: Band, draft: Context) -> ConvLayer:
        return band.layer


@dataclass(frozen=True)
class HalfRows:
    """Pictures higher than units were seen with, in halves."""

    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        if layer.weights.shape[1:3] != (1, 1) or layer.area.height < HIGH:
            raise Refusal(CONV_MODE, "a window or few rows", "many rows of 1x1", "read them at once")
        return Bands(2).prepare(layer, draft)


@dataclass(frozen=True)
class WhatItSees:
    """Without the last row or column, which a stride leaves out: on a copy engines then read whole lines."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        sizes = (layer.out.height, layer.out.width)
        (top, bottom, above, below), (left, right, before, behind) = (
            seen(layer, axis, 0, size) for axis, size in enumerate(sizes)
        )
        area = layer.area.rows(top, bottom - top).columns(left, right - left)
        if (area.height, area.width) == (layer.area.height, layer.area.width):
            raise Refusal(CONV_LINES, "all rows and columns are looked at", "some that are not", "read it as it is")
        return replace(layer, area=area, padding=(above, before, below, behind))


@dataclass(frozen=True)
class LastColumns:
    """Strided columns of an odd width end in the next line: the columns from `first` on go by themselves."""

    first: int

    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        top, left, bottom, right = layer.padding
        out, first = layer.out, self.first
        rest = replace(layer, out=out.columns(first, out.width - first), padding=(top, left + first, bottom, right))
        return Pieces(((replace(layer, out=out.columns(0, first)), AS_IT_IS), (rest, AS_IT_IS)))


@dataclass(frozen=True)
class ChannelGroups:
    """Each group is a convolution of its own on a slice of the channels."""

    count: int

    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        inputs, outputs = layer.area.channels // self.count, layer.outputs // self.count
        groups = (some_channels(layer, (g * inputs, inputs), (g * outputs, outputs)) for g in range(self.count))
        return Pieces(tuple((group, AS_IT_IS) for group in groups))


def some_channels(layer: ConvLayer, inputs: tuple[int, int], outputs: tuple[int, int]) -> ConvLayer:
    """The layer for some outputs, on the inputs that these see: the first of each and how many."""
    some = slice(outputs[0], sum(outputs))
    return replace(
        layer,
        area=layer.area.channels_from(*inputs),
        out=layer.out.channels_from(*outputs),
        weights=layer.weights[some],
        scale=layer.scale[some],
        offset=layer.offset[some],
        typical=partial(_channels, layer.typical, *inputs),
    )


def _channels(pictures: Callable[[], tuple[Codes, ...]], first: int, count: int) -> tuple[Codes, ...]:
    """What is typical of some of the channels."""
    return tuple(codes[..., first : first + count] for codes in pictures())


# ------------------------------------------------------------------------------------- rows in buffers of their own


@dataclass(frozen=True)
class Rows:
    """Rows of a tensor; `buffer` holds these only, or is empty where they lie in the buffer of the whole tensor."""

    first: int
    end: int
    buffer: str = ""

    @property
    def count(self) -> int:
        return self.end - self.first


def cut_rows(area: Area, count: int) -> list[Rows]:
    return [Rows(first, first + rows) for first, rows in aligned_rows(area, count)]


def rows_seen(layer: ConvLayer, rows: Rows) -> Rows:
    """Finds the rows of the input that some rows of the result see."""
    first, end, _, _ = seen(layer, 0, rows.first, rows.count)
    return Rows(first, end)


def with_rows(layer: ConvLayer, source: Rows, target: Rows) -> ConvLayer:
    """The layer for the rows of the target; `source`: the rows that these see."""
    assert rows_seen(layer, target) == replace(source, buffer=""), "a row tile sees the rows that were computed for it"
    found = replace(some_rows(layer, target.first, target.count), whole_results=layer.results)
    if source.buffer:
        stored = partial(_behind, layer.stored, found.area.offset)
        found = replace(found, source=source.buffer, area=replace(found.area, offset=0), stored=stored)
    if target.buffer:
        skipped = found.out.offset
        found = replace(found, target=target.buffer, out=replace(found.out, offset=0), skipped_bytes=skipped)
    return found


def _behind(stored: Callable[[Ints], Ints], offset: int, codes: Ints) -> Ints:
    """What a buffer holds that begins so many bytes later."""
    return stored(codes)[offset:]
