"""Convolutions tap by tap: every tap of the kernel is a 1x1 window on a shifted part of the picture.

For what no 3x3 window was seen on: lines and columns alone, and dilations so large that a window holds a single pixel.
Outputs that see the same taps go together, so nothing is ever padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from atonc.compiler.lower.conv.kernel_parts import Part, Phase, Sliding, Weights, seeing, stepped
from atonc.compiler.plan.streams import Area
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Stretch:
    """Neighbouring outputs along one axis that see the same taps, and the input of each tap for the first of them."""

    first: int
    count: int
    inputs: tuple[tuple[int, int], ...]  # tap, input


def tap_phases(area: Area, weights: Weights, sliding: Sliding) -> list[Phase]:
    moves = sliding.stride, sliding.dilation, sliding.padding[:2], sliding.out_size
    axes = zip((area.height, area.width), weights.shape[1:3], *moves, strict=True)
    rows, columns = (list(_stretches(*axis)) for axis in axes)
    found = []
    for row in rows:
        for column in columns:
            parts = seeing(_parts(area, weights, row, column, sliding.stride))
            found.append(Phase(row.first, column.first, 1, 1, row.count, column.count, parts))
    return found


def _stretches(size: int, taps: int, stride: int, dilation: int, before: int, outputs: int) -> Iterator[Stretch]:
    """Outputs between places where a tap enters or leaves the input."""
    inside = {}
    for tap in range(taps):
        start = tap * dilation - before  # the input that it sees for the first output
        first, end = max(0, -(start // stride)), min(outputs, -((start - size) // stride))
        if first < end:
            inside[tap] = first, end
    edges = sorted({0, outputs, *(edge for span in inside.values() for edge in span)})
    for first, end in pairwise(edges):
        seen = [tap for tap, (since, until) in inside.items() if since <= first < until]
        yield Stretch(first, end - first, tuple((tap, first * stride - before + tap * dilation) for tap in seen))


def _parts(area: Area, weights: Weights, rows: Stretch, columns: Stretch, stride: tuple[int, int]) -> Iterator[Part]:
    for tap_y, y in rows.inputs:
        for tap_x, x in columns.inputs:
            view = stepped(area, y, stride[0], rows.count, x, stride[1], columns.count)
            yield Part(view, weights[:, tap_y : tap_y + 1, tap_x : tap_x + 1], (0, 0, 0, 0), 1)
