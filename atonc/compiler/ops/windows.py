"""Sliding windows over channel-last pictures, shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """Kernel, stride, dilation in (height, width); padding as (top, left, bottom, right)."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: tuple[int, int, int, int]

    @staticmethod
    def of(attrs: Mapping[str, Any], kernel: Pair) -> Geometry:
        return Geometry(kernel, attrs["stride"], attrs.get("dilation", (1, 1)), attrs["padding"])

    def output_size(self, height: int, width: int) -> Pair:
        top, left, bottom, right = self.padding
        reach = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        rows = (height + top + bottom - reach[0]) // self.stride[0] + 1
        columns = (width + left + right - reach[1]) // self.stride[1] + 1
        if rows < 1 or columns < 1:
            raise ModelError(f"a {self.kernel} window does not fit a {height}x{width} picture")
        return rows, columns

    def pad(self, picture: Array, fill: float) -> Array:
        top, left, bottom, right = self.padding
        if not any(self.padding):
            return picture
        return np.pad(picture, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)

    def taps(self, padded: Array, size: Pair) -> Iterator[tuple[int, int, Array]]:
        """For each kernel position the values that every output pixel sees there: [n, rows, columns, channels]."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                y, x = i * self.dilation[0], j * self.dilation[1]
                stop_y, stop_x = y + (size[0] - 1) * self.stride[0] + 1, x + (size[1] - 1) * self.stride[1] + 1
                yield i, j, padded[:, y : stop_y : self.stride[0], x : stop_x : self.stride[1], :]

    def along(self, axis: int, size: int, outputs: int) -> Iterator[tuple[slice, slice]]:
        """In one direction: for each kernel position that meets the picture, which outputs do and which pixels."""
        step, spread, border = self.stride[axis], self.dilation[axis], self.padding[axis]
        first = max(0, -(-(border - (outputs - 1) * step) // spread))
        last = min(self.kernel[axis] - 1, (border + size - 1) // spread)
        for position in range(first, last + 1):
            offset = position * spread - border
            start = max(0, -(offset // step))
            stop = min(outputs, (size - 1 - offset) // step + 1)
            if start < stop:
                begin = start * step + offset
                yield slice(start, stop), slice(begin, begin + (stop - start - 1) * step + 1, step)

    def fold(self, picture: Array, size: Pair, function: np.ufunc, start: float) -> Array:
        """The function over each window, first down the columns, then along the rows: for what is exact in any order,
        and hardly slower for windows as large as the picture."""
        count, height, width, channels = picture.shape
        columns = np.full((count, size[0], width, channels), start)
        for outputs, pixels in self.along(0, height, size[0]):
            function(columns[:, outputs], picture[:, pixels], out=columns[:, outputs])
        result = np.full((count, *size, channels), start)
        for outputs, pixels in self.along(1, width, size[1]):
            function(result[:, :, outputs], columns[:, :, pixels], out=result[:, :, outputs])
        return result


def channel_last(values: Array, layout: str) -> Array:
    """A view [n, height, width, channels]; sequences [n, length, channels] get height 1."""
    if layout == "NCHW":
        values = np.moveaxis(values, 1, -1)
    return values[:, None] if values.ndim == 3 else values


def restore_layout(values: Array, layout: str, rank: int) -> Array:
    """The inverse of channel_last."""
    if rank == 3:
        values = values[:, 0]
    return np.moveaxis(values, -1, 1) if layout == "NCHW" else values


def pair(values: tuple[int, ...]) -> Pair:
    """(height, width) of a kernel attribute; sequences have height 1."""
    return (1, values[0]) if len(values) == 1 else (values[0], values[1])
