"""Windows over pictures: as matrices for kernels over all channels, tap by tap for depthwise ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from atonc.compiler.lower.conv.kernel_parts import Part, Sides, out_size
from atonc.compiler.plan.streams import Area
from atonc.insight.evaluating.kernels.finish import in_rows, row
from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]
Float = type[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Grid:
    """Numbers in a row that are a picture [samples, lines, columns, channels], with more lines and columns than are
    wanted."""

    flat: Array
    shape: tuple[int, ...]

    def picture(self, lines: int, columns: int) -> Array:
        return self.flat[: prod(self.shape)].reshape(self.shape)[:, :lines, :columns]


class WindowSums(Protocol):
    def sums(self, features: Array, rows: slice) -> Grid:
        """Sums up these output rows; the array is the caller's."""
        ...

    @property
    def line_elements(self) -> int:
        """That an output pixel takes on the way."""
        ...


@dataclass(frozen=True, eq=False)
class Frame:
    """Where windows are, and the number that stands for zero."""

    area: Area
    window: tuple[int, int]
    padding: Sides
    stride: int
    zero: int
    columns: int  # of the output
    dtype: Float

    @staticmethod
    def of(part: Part, area: Area, zero: int, dtype: Float) -> Frame:
        return Frame(area, part.window, part.padding, part.stride, zero, out_size(part)[1], dtype)

    @property
    def plain(self) -> bool:
        return self.window == (1, 1) and self.stride == 1 and not any(self.padding)

    def lines(self, features: Array, rows: slice) -> tuple[Array, int]:
        """The view of the lines that these output rows need, and how many above are padding."""
        first = rows.start * self.stride - self.padding[0]
        last = (rows.stop - 1) * self.stride - self.padding[0] + self.window[0]
        return pictures(features, self.area)[:, max(first, 0) : max(0, min(last, self.area.height))], max(0, -first)

    def centred(self, view: Array, out: Array) -> None:
        """What the codes are without their zero; the most usual zero is the lowest code."""
        if self.zero == -128 and view.dtype == np.int8:
            out[...] = view.view(np.uint8) ^ np.uint8(128)
            return
        out[...] = view
        if self.zero:
            out -= self.dtype(self.zero)

    def phases(self, features: Array, rows: slice, step: int) -> tuple[list[list[Array]], tuple[int, ...]]:
        """Centred lines with zeros around them: every n-th line and column for a stride of n, once from each of the
        first n on. All have the shape [samples, lines, columns, channels] and are flat, with room for the last window
        behind the end."""
        view, above = self.lines(features, rows)
        count, left = rows.stop - rows.start, self.padding[1]
        more = [(size - 1) // step for size in self.window]
        shape = (view.shape[0], count + more[0], self.columns + more[1], view.shape[3])
        room = more[1] * shape[3]
        starts = [[(above - i, left - j) for j in range(step)] for i in range(step)]
        return [[self._phase(view, start, step, shape, room) for start in line] for line in starts], shape

    def _phase(self, view: Array, before: tuple[int, int], step: int, shape: tuple[int, ...], room: int) -> Array:
        """`before`: lines and columns of padding before the first pixel, where some are before the phase."""
        flat = np.empty(prod(shape) + room, self.dtype)
        flat[flat.size - room :] = 0
        lines, from_lines = _every(before[0], step, view.shape[1], shape[1])
        columns, from_columns = _every(before[1], step, view.shape[2], shape[2])
        self.framed(view[:, from_lines, from_columns], flat[: flat.size - room].reshape(shape), lines, columns)
        return flat

    def framed(self, view: Array, buffer: Array, lines: slice, columns: slice) -> None:
        """The view in these lines and columns of the buffer, zeros in the others."""
        buffer[:, : lines.start] = 0
        buffer[:, lines.stop :] = 0
        inner = buffer[:, lines]
        inner[:, :, : columns.start] = 0
        inner[:, :, columns.stop :] = 0
        if view.size:
            self.centred(view, inner[:, :, columns])


def _every(before: int, step: int, pixels: int, size: int) -> tuple[slice, slice]:
    """Where in a buffer of this size the pixels at multiples of the step go, and which pixels they are."""
    place = max(0, -(-before // step))
    start = place * step - before
    count = max(0, min(size - place, -(-(pixels - start) // step)))
    return slice(place, place + count), slice(start, start + (count - 1) * step + 1 if count else start, step)


@dataclass(frozen=True, eq=False)
class Dense:
    frame: Frame
    matrix: Array  # [rows * columns * channels, outputs]

    @staticmethod
    def of(part: Part, zero: int, weights: Array, first: int, dtype: Float) -> Dense:
        """`weights` [outputs, rows, columns, channels], of the channels from `first` on."""
        area = part.area.channels_from(first, weights.shape[3])
        matrix = np.ascontiguousarray(weights.reshape(weights.shape[0], -1).T.astype(dtype))
        return Dense(Frame.of(part, area, zero, dtype), matrix)

    @property
    def line_elements(self) -> int:
        return self.matrix.shape[0]

    def sums(self, features: Array, rows: slice) -> Grid:
        frame = self.frame
        if frame.plain:
            view = frame.lines(features, rows)[0]
            left = np.empty(view.shape, frame.dtype)
            frame.centred(view, left)
        else:
            left = _windows(self._padded(features, rows), frame, rows.stop - rows.start)
        found = left.reshape(-1, self.matrix.shape[0]) @ self.matrix
        return Grid(found.reshape(-1), (features.shape[0], rows.stop - rows.start, frame.columns, found.shape[1]))

    def _padded(self, features: Array, rows: slice) -> Array:
        """[samples, lines, columns, channels] as the windows see them."""
        frame = self.frame
        view, above = frame.lines(features, rows)
        lines = (rows.stop - rows.start - 1) * frame.stride + frame.window[0]
        columns = (frame.columns - 1) * frame.stride + frame.window[1]
        buffer = np.empty((view.shape[0], lines, columns, view.shape[3]), frame.dtype)
        left = frame.padding[1]
        width = min(view.shape[2], columns - left)
        frame.framed(view[:, :, :width], buffer, slice(above, above + view.shape[1]), slice(left, left + width))
        return buffer


@dataclass(frozen=True, eq=False)
class Depthwise:
    frame: Frame
    taps: Array  # [rows, columns, channels over and over]
    channels: Array | None  # of the input, one for each output; None: as they are

    @staticmethod
    def of(part: Part, zero: int, weights: Array, channels: Array, dtype: Float) -> Depthwise:
        """`weights` [outputs, rows, columns]."""
        alike = np.array_equal(channels, np.arange(channels[0], channels[0] + channels.size))
        area = part.area.channels_from(int(channels[0]), channels.size) if alike else part.area
        taps = np.stack([[row(weights[:, i, j]) for j in range(weights.shape[2])] for i in range(weights.shape[1])])
        return Depthwise(Frame.of(part, area, zero, dtype), taps.astype(dtype), None if alike else channels)

    @property
    def line_elements(self) -> int:
        return 2 * self.frame.area.channels

    def sums(self, features: Array, rows: slice) -> Grid:
        frame, count = self.frame, rows.stop - rows.start
        phases, shape = frame.phases(features, rows, frame.stride)
        if self.channels is not None:
            channels = self.channels
            phases = [[one.reshape(-1, shape[3])[:, channels].reshape(-1) for one in line] for line in phases]
            shape = (*shape[:3], channels.size)
        line = shape[2] * shape[3]
        elements = prod(shape) - (shape[1] - count) * line  # the last lines are there for windows only
        total = np.empty(prod(shape), frame.dtype)
        total[elements:] = 0
        product = np.empty(elements, frame.dtype)
        for part, length in in_rows(elements, shape[3], self.taps.shape[2]):
            sums, now = total[part].reshape(-1, length), product[part].reshape(-1, length)
            for number, (i, j, here) in enumerate(self._places(phases)):
                start = i // frame.stride * line + j // frame.stride * shape[3] + part.start
                some = here[start : start + now.size].reshape(now.shape)
                np.multiply(some, self.taps[i, j, :length], out=now if number else sums)
                if number:
                    sums += now
        return Grid(total, shape)

    def _places(self, phases: list[list[Array]]) -> Iterator[tuple[int, int, Array]]:
        step = self.frame.stride
        for i, j in np.ndindex(*self.frame.window):
            yield i, j, phases[i % step][j % step]


def pictures(flat: Array, area: Area) -> Array:
    """The view [samples, height, width, channels] of an area in [samples, bytes]."""
    shape = (flat.shape[0], area.height, area.width, area.channels)
    if area.contiguous and not area.offset and area.height * area.line == flat.shape[1]:
        return flat.reshape(shape)
    step = flat.itemsize
    strides = (flat.strides[0], area.line * step, area.pixel * step, step)
    return as_strided(flat[:, area.offset :], shape, strides)


def _windows(padded: Array, frame: Frame, rows: int) -> Array:
    """[samples, rows, columns, window rows, window columns, channels], as a copy."""
    sample, line, pixel, item = padded.strides
    shape = (padded.shape[0], rows, frame.columns, *frame.window, padded.shape[3])
    strides = (sample, line * frame.stride, pixel * frame.stride, line, pixel, item)
    return np.ascontiguousarray(as_strided(padded, shape, strides))
