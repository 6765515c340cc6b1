"""Convolutions tap by tap: every tap of the kernel is a 1x1 window on a shifted part of the picture.

For what no 3x3 window was seen on: lines and columns alone, and dilations so large that a window holds a single pixel.
Outputs that see the same taps go together, so nothing is ever padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product

from atonc.compiler.lower.conv.kernel_parts import Part, Phase, Sliding, Weights, seeing, stepped
from atonc.compiler.plan.streams import Area
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Stretch:
    """Outputs along one axis, `step` apart, that see the same taps, and the input of each tap for the first of them."""

    first: int
    count: int
    inputs: tuple[tuple[int, int], ...]  # tap, input
    step: int = 1


def tap_phases(area: Area, weights: Weights, sliding: Sliding) -> list[Phase]:
    moves = sliding.stride, sliding.dilation, sliding.padding[:2], sliding.out_size
    axes = zip((area.height, area.width), weights.shape[1:3], *moves, strict=True)
    return _phases(area, weights, [list(_plain(*axis)) for axis in axes], sliding.stride)


def transposed_tap_phases(
    area: Area, weights: Weights, stride: tuple[int, int], cut: tuple[int, int], out_size: tuple[int, int]
) -> list[Phase]:
    """The same of a transposed convolution, whose outputs with one remainder modulo the stride see neighbours."""
    axes = zip((area.height, area.width), weights.shape[1:3], stride, cut, out_size, strict=True)
    return _phases(area, weights, [list(_transposed(*axis)) for axis in axes], (1, 1))


def _phases(area: Area, weights: Weights, axes: Sequence[Sequence[Stretch]], stride: tuple[int, int]) -> list[Phase]:
    found = []
    for row, column in product(*axes):
        parts = seeing(_parts(area, weights, row, column, stride))
        found.append(Phase(row.first, column.first, row.step, column.step, row.count, column.count, parts))
    return found


def _plain(size: int, taps: int, stride: int, dilation: int, before: int, outputs: int) -> Iterator[Stretch]:
    yield from _stretches(size, {tap: tap * dilation - before for tap in range(taps)}, stride, outputs)


def _transposed(size: int, taps: int, stride: int, cut: int, outputs: int) -> Iterator[Stretch]:
    for rest in range(min(stride, outputs)):
        starts = {tap: (rest + cut - tap) // stride for tap in range((rest + cut) % stride, taps, stride)}
        for found in _stretches(size, starts, 1, -(-(outputs - rest) // stride)):
            yield replace(found, first=rest + found.first * stride, step=stride)


def _stretches(size: int, starts: Mapping[int, int], stride: int, outputs: int) -> Iterator[Stretch]:
    """Outputs between places where a tap enters or leaves the input; each tap sees `starts` for the first output."""
    inside = {}
    for tap, start in starts.items():
        first, end = max(0, -(start // stride)), min(outputs, -((start - size) // stride))
        if first < end:
            inside[tap] = first, end
    edges = sorted({0, outputs, *(edge for span in inside.values() for edge in span)})
    for first, end in pairwise(edges):
        seen = [tap for tap, (since, until) in inside.items() if since <= first < until]
        yield Stretch(first, end - first, tuple((tap, first * stride + starts[tap]) for tap in seen))


def _parts(area: Area, weights: Weights, rows: Stretch, columns: Stretch, stride: tuple[int, int]) -> Iterator[Part]:
    for tap_y, y in rows.inputs:
        for tap_x, x in columns.inputs:
            view = stepped(area, y, stride[0], rows.count, x, stride[1], columns.count)
            yield Part(view, weights[:, tap_y : tap_y + 1, tap_x : tap_x + 1], (0, 0, 0, 0), 1)
