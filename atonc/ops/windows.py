"""Sliding windows over channel-last pictures, shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from atonc.errors import ModelError
from atonc.ir import Array

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
