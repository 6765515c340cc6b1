"""What sums of products reach at some positions of a typical picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SAMPLES = 256  # positions at which sums are looked at
STOPS = 24  # between channels, where a pass might end


def sample_patches(
    picture: NDArray[np.int64], window: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> NDArray[np.float64]:
    """Windows [position, row, column, channel] spread over a picture (positions at the border are left out)."""
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    rows = np.arange(0, max(1, picture.shape[0] - reach[0] + 1), stride[0])
    columns = np.arange(0, max(1, picture.shape[1] - reach[1] + 1), stride[1])
    where = np.linspace(0, rows.size * columns.size - 1, min(SAMPLES, rows.size * columns.size)).astype(int)
    ys, xs = rows[where // columns.size], columns[where % columns.size]
    dy, dx = (np.arange(k) * d for k, d in zip(window, dilation, strict=True))
    y = np.minimum(ys[:, None, None] + dy[None, :, None], picture.shape[0] - 1)
    x = np.minimum(xs[:, None, None] + dx[None, None, :], picture.shape[1] - 1)
    return picture[y, x].astype(np.float64)


def largest_part(patches: NDArray[np.float64], weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """Per output the largest sum over some first or some last channels; a few dozen places to stop are looked at."""
    positions, outputs, channels = patches.shape[0], weights.shape[0], weights.shape[3]
    step = -(-channels // STOPS)
    sums = [np.zeros((positions, outputs))]
    for first in range(0, channels, step):
        some = slice(first, first + step)
        left, right = (part[..., some].reshape(len(part), -1) for part in (patches, weights))
        sums.append(sums[-1] + left @ right.T.astype(np.float64))
    largest = np.zeros(outputs)
    for part in sums:
        for one in (part, sums[-1] - part):
            largest = np.maximum(largest, np.abs(one).max(axis=0, initial=0.0))
    return largest
