"""Transposed convolutions as plain ones: outputs with the same remainder modulo the stride see the same few taps."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.lower.conv.kernel_parts import WINDOW, Part, Phase, Weights, WindowAxis, axis_of, part_of
from atonc.compiler.plan.streams import Area


def transposed_phases(
    area: Area, weights: Weights, stride: tuple[int, int], cut: tuple[int, int], out_size: tuple[int, int]
) -> list[Phase]:
    """`cut`: rows and columns that are dropped at the top and left of the full result.

    Output y collects x[(y + cut - k) / stride] * w[k] over the taps k for which that is an integer.
    """
    phases = []
    for row in range(min(stride[0], out_size[0])):
        for column in range(min(stride[1], out_size[1])):
            height, width = -(-(out_size[0] - row) // stride[0]), -(-(out_size[1] - column) // stride[1])
            rows = _taps(weights.shape[1], stride[0], row + cut[0])
            columns = _taps(weights.shape[2], stride[1], column + cut[1])
            parts = tuple(_parts(area, weights, rows, columns, (height, width)))
            if not parts:  # no tap at all: only the bias remains, from a kernel of zeros
                parts = tuple(_parts(area, weights * 0, ([0], 0), ([0], 0), (height, width)))
            phases.append(Phase(row, column, stride[0], stride[1], height, width, parts))
    return phases


def _taps(size: int, stride: int, position: int) -> tuple[list[int], int]:
    """The taps that meet the first output of the phase, in the order of the inputs, and the first input."""
    taps = list(range(position % stride, size, stride))[::-1]
    return taps, position // stride - (len(taps) - 1)


def _parts(
    area: Area, weights: Weights, rows: tuple[list[int], int], columns: tuple[list[int], int], size: tuple[int, int]
) -> list[Part]:
    parts = []
    for y in range(0, len(rows[0]), WINDOW):
        for x in range(0, len(columns[0]), WINDOW):
            taps_y, taps_x = rows[0][y : y + WINDOW], columns[0][x : x + WINDOW]
            vertical = _axis(area.height, rows[1] + y, len(taps_y), size[0])
            horizontal = _axis(area.width, columns[1] + x, len(taps_x), size[1])
            if vertical is not None and horizontal is not None:
                parts.append(part_of(area, weights[:, taps_y][:, :, taps_x], vertical, horizontal, 1))
    return parts


def _axis(size: int, start: int, taps: int, outputs: int) -> WindowAxis | None:
    return axis_of(size, start, 1, taps, 1, outputs)


def met_together(weights: Weights, stride: tuple[int, int], size: tuple[int, int]) -> list[Weights]:
    """The parts of a kernel that one output may sum on a picture of this size, in the order of the inputs."""
    rows, columns = (list(_met(*axis)) for axis in zip(weights.shape[1:3], stride, size, strict=True))
    return [weights[:, some][:, :, others] for some in rows for others in columns]


def _met(taps: int, stride: int, size: int) -> Iterator[list[int]]:
    for rest in range(min(stride, taps)):
        own = list(range(rest, taps, stride))[::-1]
        count = min(len(own), size)
        yield from (own[first : first + count] for first in range(len(own) - count + 1))
