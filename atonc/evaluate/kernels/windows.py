"""Windows over pictures: as matrices for kernels over all channels, tap by tap for depthwise ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from atonc.lower.convolution import Part, Sides, out_size
from atonc.plan.streams import Area

Array = NDArray[Any]
Float = type[np.floating[Any]]


class Window(Protocol):
    def sums(self, features: Array, rows: slice) -> Array:
        """[samples * rows, columns * channels] of these output rows; the array is the caller's."""
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

    def lines(self, features: Array, rows: slice) -> tuple[Array, tuple[int, int]]:
        """The view of the lines that these output rows need, and how many above and below are padding."""
        first = rows.start * self.stride - self.padding[0]
        last = (rows.stop - 1) * self.stride - self.padding[0] + self.window[0]
        view = _pictures(features, self.area)[:, max(first, 0) : max(0, min(last, self.area.height))]
        return view, (max(0, -first), last - first - max(0, -first) - view.shape[1])

    def padded(self, features: Array, rows: slice, step: int = 1) -> list[Array]:
        """Centred lines with zeros around, [samples, lines, columns, channels]; with `step` every so manieth column from
        each of the first ones."""
        view, (above, below) = self.lines(features, rows)
        left, right = self.padding[1], self.padding[3]
        samples, lines, width, channels = view.shape
        whole = left + width + right
        found = []
        for phase in range(step):
            columns = -(-(whole - phase) // step)
            buffer = np.empty((samples, above + lines + below, columns, channels), self.dtype)
            skipped = (left - phase + step - 1) // step if left > phase else 0  # columns of padding
            start = phase + skipped * step - left  # the first pixel
            taken = len(range(start, width, step))
            inner = buffer[:, above : above + lines, skipped : skipped + taken]
            inner[...] = view[:, :, start::step]
            if self.zero:
                inner -= self.dtype(self.zero)
            buffer[:, :above] = 0
            buffer[:, above + lines :] = 0
            buffer[:, :, :skipped] = 0
            buffer[:, :, skipped + taken :] = 0
            found.append(buffer)
        return found


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

    def sums(self, features: Array, rows: slice) -> Array:
        frame = self.frame
        if frame.plain:
            left = frame.lines(features, rows)[0].astype(frame.dtype)
            if frame.zero:
                left -= frame.dtype(frame.zero)
        else:
            left = _windows(frame.padded(features, rows)[0], frame, rows.stop - rows.start)
        found = left.reshape(-1, self.matrix.shape[0]) @ self.matrix
        return found.reshape(-1, frame.columns * self.matrix.shape[1])


@dataclass(frozen=True, eq=False)
class Depthwise:
    frame: Frame
    taps: Array  # [rows, columns, pixels * channels]: along a line of the output
    channels: Array | None  # of the input, one for each output; None: as they are

    @staticmethod
    def of(part: Part, zero: int, weights: Array, channels: Array, dtype: Float) -> Depthwise:
        """`weights` [outputs, rows, columns]."""
        alike = np.array_equal(channels, np.arange(channels[0], channels[0] + channels.size))
        area = part.area.channels_from(int(channels[0]), channels.size) if alike else part.area
        frame = Frame.of(part, area, zero, dtype)
        taps = np.tile(weights.transpose(1, 2, 0), (1, 1, frame.columns)).astype(dtype)
        return Depthwise(frame, taps, None if alike else channels)

    @property
    def line_elements(self) -> int:
        return self.taps.shape[2] // self.frame.columns * 2

    def sums(self, features: Array, rows: slice) -> Array:
        frame, count = self.frame, rows.stop - rows.start
        phases = frame.padded(features, rows, frame.stride)
        if self.channels is not None:
            phases = [np.ascontiguousarray(phase[..., self.channels]) for phase in phases]
        total: Array | None = None
        product = np.empty((phases[0].shape[0], count, self.taps.shape[2]), frame.dtype)
        for i, j in np.ndindex(*frame.window):
            view = _tap(phases[j % frame.stride], i, j // frame.stride, frame.stride, count, self.taps.shape[2])
            if total is None:
                total = view * self.taps[i, j]
            else:
                total += np.multiply(view, self.taps[i, j], out=product)
        assert total is not None
        return total.reshape(-1, self.taps.shape[2])


def _pictures(flat: Array, area: Area) -> Array:
    step = flat.itemsize
    strides = (flat.strides[0], area.line * step, area.pixel * step, step)
    shape = (flat.shape[0], area.height, area.width, area.channels)
    return as_strided(flat[:, area.offset :], shape, strides)


def _tap(buffer: Array, row: int, column: int, stride: int, rows: int, elements: int) -> Array:
    """[samples, rows, columns * channels]: what every output sees at one place of the window."""
    sample, line, pixel, item = buffer.strides
    start = buffer[:, row:, column:]
    return as_strided(start, (buffer.shape[0], rows, elements), (sample, line * stride, item))


def _windows(padded: Array, frame: Frame, rows: int) -> Array:
    """[samples, rows, columns, window rows, window columns, channels], as a copy."""
    sample, line, pixel, item = padded.strides
    shape = (padded.shape[0], rows, frame.columns, *frame.window, padded.shape[3])
    strides = (sample, line * frame.stride, pixel * frame.stride, line, pixel, item)
    return np.ascontiguousarray(as_strided(padded, shape, strides))
