"""How the codes of a weight tensor are spread: a histogram for each channel, small enough to lie in every page."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Array, Tensor
from atonc.machine.base.frozen import dataclass

BINS = 32  # over the codes of a byte
MOST_ROWS = 32  # channels; of more, neighbours share a row
LEVELS = 9  # a row is a string of digits: 0 nothing, 9 as many codes as the fullest bin of the row


@dataclass(frozen=True)
class Spread:
    """`saturated`: codes at an end of their range, which for signed ones is -127 to 127."""

    channels: int
    rows: tuple[str, ...]  # a digit for each bin, from the smallest code to the largest
    lows: tuple[int, ...]  # smallest and largest code of each row
    highs: tuple[int, ...]
    saturated: int
    elements: int


def spread(tensor: Tensor) -> Spread | None:
    """None for what has no codes of a byte: biases, floats, single values."""
    data = tensor.data
    if data is None or tensor.dtype not in ("int8", "uint8") or data.size < BINS or data.ndim < 2:
        return None
    axis = tensor.quant.axis if tensor.quant is not None and not tensor.quant.is_per_tensor else 0
    codes = np.moveaxis(data, axis or 0, 0).reshape(data.shape[axis or 0], -1).astype(np.int64)
    low, high = tensor.code_range
    group = -(-len(codes) // MOST_ROWS)
    starts = np.arange(0, len(codes), group)
    return Spread(
        channels=len(codes),
        rows=tuple(_digits(codes[start : start + group] - low) for start in starts),
        lows=tuple(np.minimum.reduceat(codes.min(axis=1), starts).tolist()),
        highs=tuple(np.maximum.reduceat(codes.max(axis=1), starts).tolist()),
        saturated=int(np.count_nonzero((codes <= low + (low < 0)) | (codes == high))),
        elements=int(codes.size),
    )


def _digits(above: Array) -> str:
    """`above`: codes from zero on. What occurs at all is not nothing."""
    counts = np.bincount(above.ravel() * BINS // 256, minlength=BINS)
    levels = np.where(counts > 0, np.maximum(1, counts * LEVELS // counts.max()), 0)
    return "".join(map(str, levels.tolist()))
