"""Kernels of seven columns as ST's releases 2.x cut them: six columns summed at once, then the seventh.

No unit takes six columns with every format, but three columns of pairs of pixels are the same: every second output
sees the same pairs, so there is one phase for even columns and one for odd ones. Lines need their padding in memory.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.lower.conv.kernel_parts import WINDOW, Phase, Sides, Weights, axis_of, part_of
from atonc.compiler.plan.streams import Area

TOGETHER = 2 * WINDOW
MOST_CHANNELS = 4  # of which pairs fit a unit


def has_pairs(weights: Weights, stride: tuple[int, int], dilation: tuple[int, int], padding: tuple[int, ...]) -> bool:
    wide = weights.shape[2] == TOGETHER + 1 and weights.shape[3] <= MOST_CHANNELS
    return wide and stride == dilation == (1, 1) and not (padding[1] or padding[3])


def paired_phases(
    area: Area, weights: Weights, padding: Sides, out_size: tuple[int, int], border: Sides
) -> list[Phase]:
    """Parts of one group are summed before anything is rounded; here every part is a group."""
    found = []
    for column in range(min(2, out_size[1])):
        width = -(-(out_size[1] - column) // 2)
        parts = []
        for number, first in enumerate(range(0, weights.shape[1], WINDOW)):
            taps = slice(first, min(first + WINDOW, weights.shape[1]))
            high = taps.stop - taps.start
            rows = axis_of(area.height, first - padding[0], 1, high, 1, out_size[0], border[::2])
            if rows is None:
                continue  # these rows only ever meet padding
            some = weights[:, taps]
            pairs = some[:, :, :TOGETHER].reshape(*some.shape[:2], WINDOW, -1)
            views = ((_pairs(area, column, width), pairs), (_alone(area, column, width), some[:, :, TOGETHER:]))
            for kind, (view, own) in enumerate(views):
                columns = axis_of(view.width, 0, 1, own.shape[2], 1, width)
                assert columns is not None
                parts.append(replace(part_of(view, own, rows, columns, 1), group=(number, kind)))
        found.append(Phase(0, column, 1, 2, out_size[0], width, tuple(parts)))
    return found


def _pairs(area: Area, column: int, width: int) -> Area:
    """Every pixel is two of the old ones, side by side."""
    start = area.columns(column, width + WINDOW - 1)
    return replace(start, channels=2 * area.channels, pixel=2 * area.pixel)


def _alone(area: Area, column: int, width: int) -> Area:
    """Every second pixel, from the seventh on."""
    return replace(area.columns(column + TOGETHER, width), pixel=2 * area.pixel)
