"""Some rows of a layer, in buffers that need hold no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import gcd

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.strips import seen
from atonc.compiler.plan.streams import Area
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED

Ints = NDArray[np.int64]


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
    """Cuts an area into at most so many bands, which begin at aligned addresses."""
    unit = ALIGNED // gcd(ALIGNED, area.line)
    height = -(-area.height // count // unit) * unit
    return [Rows(row, min(row + height, area.height)) for row in range(0, area.height, height)]


def rows_seen(layer: ConvLayer, rows: Rows) -> Rows:
    """Finds the rows of the input that some rows of the result see."""
    first, end, _, _ = seen(layer, 0, rows.first, rows.count)
    return Rows(first, end)


def with_rows(layer: ConvLayer, source: Rows, target: Rows) -> ConvLayer:
    """The layer for the rows of the target; `source`: the rows that these see."""
    first, end, top, bottom = seen(layer, 0, target.first, target.count)
    assert (first, end) == (source.first, source.end), "the rows that a band sees are those that were computed for it"
    _, left, _, right = layer.padding
    area, out = layer.area.rows(first, source.count), layer.out.rows(target.first, target.count)
    found = replace(layer, area=area, out=out, padding=(top, left, bottom, right))
    found = replace(found, whole_bytes=layer.largest_bytes, whole_results=layer.results)
    if source.buffer:
        stored = partial(_behind, layer.stored, area.offset)
        found = replace(found, source=source.buffer, area=replace(area, offset=0), stored=stored)
    if target.buffer:
        found = replace(found, target=target.buffer, out=replace(out, offset=0), skipped_bytes=out.offset)
    return found


def _behind(stored: Callable[[Ints], Ints], offset: int, codes: Ints) -> Ints:
    """What a buffer holds that begins so many bytes later."""
    return stored(codes)[offset:]
