"""Pooling and means: exact sums, one division with 8 fractional bits, one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.pool.means import Line, divisor_of, joining, parts_of
from atonc.compiler.lower.semantics.arithmetic import Ints, clipped, ints, limited, pair, shifted
from atonc.compiler.lower.semantics.moves import changed
from atonc.compiler.lower.units.pool import channel_groups, division, frame_of
from atonc.compiler.ops.conv import Geometry

Codes = Callable[[Sequence[Any]], list[Ints]]
Windows = tuple[Geometry, tuple[int, int]]  # and the size of the output


def maximum(op: Op, x: Tensor, y: Tensor, windows: Windows) -> Codes:
    change = changed(op, x, y)

    def codes(values: Sequence[Any]) -> list[Ints]:
        found = _taps(_picture(values[0]), windows, -128).max(axis=0)
        return [change(found).reshape(y.shape)]

    return codes


def largest(op: Op, x: Tensor, y: Tensor) -> Codes:
    """Over axes."""
    change = changed(op, x, y)
    return lambda values: [change(ints(values[0]).max(axis=tuple(op.attrs["axes"]))).reshape(y.shape)]


def average_of_four(op: Op, x: Tensor, y: Tensor, windows: Windows) -> Codes:
    """Rounded to codes of the input first."""
    change = changed(op, x, y)

    def codes(values: Sequence[Any]) -> list[Ints]:
        sums = _taps(_picture(values[0]), windows, 0).sum(axis=0)
        return [change(limited(shifted(sums, 2), 8)).reshape(y.shape)]

    return codes


def averages(y: Tensor, windows: Windows, area: int, line_of: Callable[[int], Line]) -> Codes:
    """`area`: the divisor for all windows, or 0 where only pixels inside count; the line follows from their number."""

    def codes(values: Sequence[Any]) -> list[Ints]:
        x = _picture(values[0])
        sums = _taps(x, windows, 0).sum(axis=0)
        inside = _taps(np.ones((*x.shape[:2], 1), np.int64), windows, 0).sum(axis=0)[..., 0]
        result = np.zeros(sums.shape, np.int64)
        for pixels in np.unique(inside).tolist():
            for first, batch, count in channel_groups(x.shape[2], 8):
                some = slice(first, first + batch * count)
                where = inside == pixels
                if frame_of(pixels, batch) is None:
                    assert inside.size == 1  # the recipe refuses several windows of so many pixels
                    flat = x.reshape(-1, x.shape[2])[:, some]
                    result[where, some] = _from_parts(flat, batch, line_of(pixels))
                else:
                    result[where, some] = divided(sums[where, some], area or pixels, line_of(pixels))
        return [result.reshape(y.shape)]

    return codes


def means(x: Tensor, y: Tensor, axes: set[int], line: Line, channels: int) -> Codes:
    """`channels`: how many neighbours are kept at the end of the shape."""
    order = (*(a for a in range(len(x.shape)) if a not in axes), *sorted(axes))
    pixels = prod(x.shape[axis] for axis in axes)

    def codes(values: Sequence[Any]) -> list[Ints]:
        rows = ints(values[0]).transpose(order).reshape(-1, pixels)  # one for every result
        result = np.zeros(rows.shape[0], np.int64)
        places = np.arange(rows.shape[0]) % channels
        for first, batch, count in channel_groups(channels, 8):
            some = (places >= first) & (places < first + batch * count)
            if frame_of(pixels, batch) is None:
                result[some] = _from_parts(rows[some].T, batch, line)
            else:
                result[some] = divided(rows[some].sum(axis=1), pixels, line)
        return [result.reshape(y.shape)]

    return codes


def divided(sums: Ints, divisor: int, line: Line) -> Ints:
    return _finished(_mean(sums, divisor, line), line)


def _mean(sums: Ints, divisor: int, line: Line) -> Ints:
    multiplier, shift = division(divisor, line.most)
    return limited(shifted(sums * multiplier, shift), 16)


def _finished(mean: Ints, line: Line) -> Ints:
    return clipped(limited(shifted(shifted(mean * line.a, 8) + line.c, line.shift), 8), line.clip)


def _from_parts(pixels: Ints, batch: int, line: Line) -> Ints:
    """[pixels, results]: parts, then two at a time."""
    whole = pixels.shape[0]
    sizes = parts_of(whole, batch)
    ends = np.cumsum(sizes)[:-1]
    divided = (
        (_mean(part.sum(axis=0), divisor_of(len(part), whole), line), len(part)) for part in np.split(pixels, ends)
    )
    parts = list(divided)
    while len(parts) > 1:
        joined = []
        for (a, m), (b, n) in zip(parts[::2], parts[1::2], strict=False):
            joined.append((pair(joining(m, n, whole), a, b), m + n))
        parts = joined + (parts[-1:] if len(parts) % 2 else [])
    return _finished(parts[0][0], line)


def _picture(values: Any) -> Ints:
    return ints(values).reshape((-1, *values.shape[-2:]))


def _taps(picture: Ints, windows: Windows, fill: int) -> Ints:
    """[taps, rows, columns, channels]"""
    geometry, size = windows
    padded = geometry.pad(picture[None], fill)
    return np.stack([tap[0] for _, _, tap in geometry.taps(padded, size)])
