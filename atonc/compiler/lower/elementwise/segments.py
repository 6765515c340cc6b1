"""Quadratics through windows: integer coefficients whose sums stay between given bounds, for many segments at once."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]

_CURVES = (0.0, 0.5, 0.4, 0.6, 0.25, 0.75, 0.1, 0.9)  # places in the allowed range of A
_SLOPES = (0.5, 0.35, 0.65, 0.2, 0.8)
_MOST_POINTS = 16  # wider segments are thinned out while searching, and checked in full


@dataclass(frozen=True)
class Shifts:
    b: int
    c: int
    out: int
    most: int = 32767  # of a coefficient, either way


def fit_segments(low: Array, high: Array, shifts: Shifts) -> tuple[Array, Array]:
    """Rows [segments, 3] and whether they hold: low <= A*x*x + (B << SB)*x + (C << SC) <= high on every code of the
    segment. `low` and `high` are [segments, codes]; the segments lie side by side and cover -128..127."""
    segments, width = low.shape
    x = np.arange(-128, 128, dtype=np.int64).reshape(segments, width)
    low, high = _finite(low, high, shifts)
    rows = np.zeros((segments, 3), np.int64)
    done = np.zeros(segments, bool)
    points = _points(width)
    windows = x[:, points], low[:, points], high[:, points]
    straight = np.zeros((1, segments), np.int64), np.zeros(segments, bool)
    curves, hopeless = _curves(*windows, shifts.most) if width > 2 else straight
    for some in (curves[:1], curves[1:]):  # the first curve does for most segments, all others are tried at once
        left = np.flatnonzero(~(done | hopeless))
        if not left.size or not len(some):
            break
        a = some[:, None, left]
        seen = tuple(window[left] for window in windows)
        b = _slopes(some[:, left], seen[0], seen[1], seen[2], shifts)
        c, good = (one.reshape(-1, left.size) for one in _constants(a, b, x[left], low[left], high[left], shifts))
        found = np.flatnonzero(good.any(axis=0))
        first = good.argmax(axis=0)[found], found  # in the order of the candidates
        candidates = (np.broadcast_to(a, b.shape).reshape(c.shape), b.reshape(c.shape), c)
        rows[left[found]] = np.stack([one[first] for one in candidates], axis=1)
        done[left[found]] = True
    return rows, done


def _finite(low: Array, high: Array, shifts: Shifts) -> tuple[Array, Array]:
    """Sums far beyond saturation gain nothing and would need large coefficients."""
    far = 400 << shifts.out
    return np.maximum(low, -far), np.minimum(high, far)


def _points(width: int) -> Array:
    return np.unique(np.linspace(0, width - 1, min(width, _MOST_POINTS)).astype(np.int64))


def _curves(x: Array, low: Array, high: Array, limit: int) -> tuple[Array, Array]:
    """Candidates for A per segment, [candidates, segments]: zero if allowed, then inside the range that second
    differences allow; and the segments for which they allow nothing."""
    i, j, k = _triples(x.shape[1])
    xi, xj, xk = x[:, i], x[:, j], x[:, k]
    wi, wj, wk = 1 / ((xi - xj) * (xi - xk)), 1 / ((xj - xi) * (xj - xk)), 1 / ((xk - xi) * (xk - xj))  # wj < 0
    least = (low[:, i] * wi + high[:, j] * wj + low[:, k] * wk).max(axis=1)
    most = (high[:, i] * wi + low[:, j] * wj + high[:, k] * wk).min(axis=1)
    inside = [least + (most - least) * place for place in _CURVES[1:]]
    straight = np.clip(0.0, least, np.maximum(least, most))
    candidates = np.clip(np.rint(np.stack([straight, *inside])), -limit, limit).astype(np.int64)
    return candidates, least > most + 1


def _slopes(a: Array, x: Array, low: Array, high: Array, shifts: Shifts) -> Array:
    """Candidates for B once A is chosen, [curves, slopes, segments], from the differences between pairs of codes."""
    if x.shape[1] == 1:
        return np.zeros((a.shape[0], 1, a.shape[1]), np.int64)
    bend = a[..., None] * x * x
    i, j = _pairs(x.shape[1])
    run = (x[:, j] - x[:, i]).astype(np.float64)
    lowest, highest = low - bend, high - bend
    least = (lowest[..., j] - highest[..., i]).astype(np.float64)
    most = (highest[..., j] - lowest[..., i]).astype(np.float64)
    steepest_least, steepest_most = (least / run).max(axis=-1), (most / run).min(axis=-1)
    flat = np.where((steepest_least <= 0) & (steepest_most >= 0), 0.0, (steepest_least + steepest_most) / 2)
    places = [flat, *(steepest_least + (steepest_most - steepest_least) * place for place in _SLOPES)]
    scale = float(1 << shifts.b)
    return np.clip(np.rint(np.stack(places, axis=1) / scale), -shifts.most, shifts.most).astype(np.int64)


def _constants(a: Array, b: Array, x: Array, low: Array, high: Array, shifts: Shifts) -> tuple[Array, Array]:
    """The middle of the range left for C, and whether there is one; of all candidates for A and B."""
    rest = a[..., None] * x * x + (b[..., None] << shifts.b) * x
    least, most = (low - rest).max(axis=-1), (high - rest).min(axis=-1)
    least, most = -(-least >> shifts.c), most >> shifts.c
    least, most = np.maximum(least, -shifts.most), np.minimum(most, shifts.most)
    return (least + most) >> 1, least <= most


@cache
def _pairs(points: int) -> tuple[Array, Array]:
    i, j = np.triu_indices(points, 1)
    return i, j


@cache
def _triples(points: int) -> tuple[Array, Array, Array]:
    i, j, k = np.array(list(combinations(range(points), 3)), np.int64).T
    return i, j, k
