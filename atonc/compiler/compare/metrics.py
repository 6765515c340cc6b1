"""How close are two results? Figures in codes, and the ones that ST's validation prints."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]


def _pair(a: Array, b: Array) -> tuple[Real, Real]:
    if a.size != b.size:
        raise InputError(f"cannot compare {a.shape} with {b.shape}")
    return a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)


_COSINE_DIGITS = 9


def cosine(a: Array, b: Array) -> float:
    """1 for equal directions; two zero vectors are equal. Rounded, since processors sum in different orders."""
    x, y = _pair(a, b)
    norm = float(np.linalg.norm(x) * np.linalg.norm(y))
    return round(float(x @ y) / norm, _COSINE_DIGITS) if norm else float(np.array_equal(x, y))


def lsb_histogram(a: Array, b: Array) -> dict[int, int]:
    """How many values of a lie how many codes above b."""
    x, y = _pair(a, b)
    steps, counts = np.unique((x - y).astype(np.int64), return_counts=True)
    return {int(step): int(count) for step, count in zip(steps, counts, strict=True)}


def within_percent(a: Array, b: Array, codes: float = 1) -> float:
    x, y = _pair(a, b)
    return 100.0 * float(np.mean(np.abs(x - y) <= codes)) if x.size else 100.0


def nse(reference: Array, result: Array) -> float:
    """Nash-Sutcliffe efficiency: 1 is perfect, 0 as good as the mean."""
    x, y = _pair(reference, result)
    spread = float(np.sum(np.square(x - x.mean())))
    error = float(np.sum(np.square(x - y)))
    if spread == 0.0:
        return 1.0 if error == 0.0 else float("-inf")
    return 1.0 - error / spread


def acc(reference: Array, result: Array) -> float:
    """Fraction of rows whose largest value is at the same place."""
    if reference.shape != result.shape:
        raise InputError(f"cannot compare {reference.shape} with {result.shape}")
    if reference.ndim == 0 or reference.size == 0:
        return 1.0
    x, y = (v.reshape(-1, v.shape[-1]) for v in (reference, result))
    return float(np.mean(x.argmax(axis=1) == y.argmax(axis=1)))


@dataclass(frozen=True)
class Metrics:
    """ST's row for one output, plus cosine and the percentages in codes."""

    acc: float
    rmse: float
    mae: float
    l2r: float
    mean: float
    std: float
    nse: float
    cos: float
    exact_percent: float
    within_1_percent: float


def measure(reference: Array, result: Array, scale: float = 1.0) -> Metrics:
    """`scale`: the size of one code, so that percentages count codes even when the values are real."""
    x, y = _pair(reference, result)
    difference = x - y
    half = 0.5 * scale  # real values of equal codes may differ in the last float digits
    return Metrics(
        acc=acc(reference, result),
        rmse=float(np.sqrt(np.mean(np.square(difference)))),
        mae=float(np.mean(np.abs(difference))),
        l2r=float(np.linalg.norm(difference) / (np.linalg.norm(x) + np.finfo(np.float32).eps)),  # relative to |x|
        mean=float(difference.mean()),
        std=float(difference.std()),
        nse=nse(reference, result),
        cos=cosine(reference, result),
        exact_percent=within_percent(reference, result, half),
        within_1_percent=within_percent(reference, result, scale + half),
    )
