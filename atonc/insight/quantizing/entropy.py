"""The range that keeps most of what a histogram says, by relative entropy: the same choice as onnxruntime's, which
counts in Python and takes minutes for small networks."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Array

# With onnxruntime's own 128 bins there is one range to choose from, the whole one.
BINS, QUANTISED_BINS = 1024, 128
_LITTLE = 1e-4  # of one value: stands for none, whose logarithm nobody has


def entropy_range(values: Array) -> tuple[float, float]:
    """Ranges around zero, from `QUANTISED_BINS` bins on to all of them; the first of the best."""
    flat = values.astype(np.float32).reshape(-1)
    top = np.abs(flat).max()
    counts, edges = np.histogram(flat, BINS, range=(-top, top))
    middle = BINS // 2
    spans = [(middle - half, min(middle + half + 1, BINS)) for half in range(QUANTISED_BINS // 2, middle + 1)]
    start, end = spans[int(np.argmin([_divergence(counts, *span) for span in spans]))]
    return float(max(edges[start], flat.min())), float(min(edges[end], flat.max()))


def _divergence(counts: Array, start: int, end: int) -> float:
    """Between what is there, with all that lies outside at the ends, and the same in `QUANTISED_BINS` steps."""
    inside = counts[start:end]
    there = inside.copy()
    there[0] += counts[:start].sum()
    there[-1] += counts[end:].sum()
    stepped = _stepped(inside, there != 0)
    if not there.any() or not stepped.any():
        return np.inf
    p, q = (_shares(one) for one in (there, stepped))
    return float((p * np.log(p / q)).sum())


def _stepped(inside: Array, filled: Array) -> Array:
    """Bins of one step share its values, as whole numbers; bins behind the last whole step have none."""
    width = len(inside) // QUANTISED_BINS
    whole = width * QUANTISED_BINS
    sums = inside[:whole].reshape(QUANTISED_BINS, width).sum(1)
    sums[-1] += inside[whole:].sum()
    filled_bins = filled[:whole].reshape(QUANTISED_BINS, width).sum(1)
    found = np.zeros_like(inside)
    found[:whole] = np.repeat(np.where(filled_bins > 0, sums // np.maximum(filled_bins, 1), 0), width)
    return found


def _shares(counts: Array) -> Array:
    """Shares of the whole; empty bins get a little of what the others have. In single precision, so ties fall alike."""
    empty = counts == 0
    taken = _LITTLE * empty.sum() / max(1, (~empty).sum())
    found: Array = np.where(empty, _LITTLE, counts - taken).astype(np.float32)
    return found / found.sum()
