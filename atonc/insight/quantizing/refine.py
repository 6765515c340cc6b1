"""Sixteen codes are few: the scale of a channel and the codes of its weights are worked out together.

Several scales are rounded one input after the other. Then the scale that fits the codes best is taken, and every code
is looked at again while all others stay; neither ever makes the error of the layer's output larger.
"""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.one_by_one import one_by_one
from atonc.insight.quantizing.weights import CodeRange

STARTS = (1.0, 0.85, 1.15)  # times the scale of the least error without regard to the other inputs
ROUNDS = 4  # of codes and scales; hardly any code moves after them


def refined(wanted: Array, within: Array, scales: Array, allowed: CodeRange) -> tuple[Array, Array]:
    """group x outputs x inputs -> int8 codes, and scales (group x outputs)."""
    best = np.zeros(wanted.shape), scales.astype(np.float64)
    least = np.full(scales.shape, np.inf)
    for start in STARTS:
        trial = scales.astype(np.float64) * start
        codes, trial = _settled(wanted, within, one_by_one(wanted, within, trial, allowed), trial, allowed)
        lost = output_error(wanted - codes * trial[:, :, None], within)
        better = lost < least
        best = np.where(better[:, :, None], codes, best[0]), np.where(better, trial, best[1])
        least = np.minimum(least, lost)
    return best[0].astype(np.int8), best[1].astype(np.float32)


def output_error(lost: Array, within: Array) -> Array:
    """Mean squares of what the outputs lose over the rows: group x outputs."""
    return np.asarray(np.einsum("gok,gok->go", lost @ within, lost))


def _settled(wanted: Array, within: Array, start: Array, scales: Array, allowed: CodeRange) -> tuple[Array, Array]:
    codes = start.astype(np.float64)
    diagonal = np.einsum("gkk->gk", within)
    for _ in range(ROUNDS):
        scales = _fitting(wanted, within, codes, scales)
        pull = (wanted - codes * scales[:, :, None]) @ within
        before = codes.copy()
        for k in range(codes.shape[2]):
            nearest = np.rint(codes[:, :, k] + pull[:, :, k] / (diagonal[:, k, None] * scales))
            step = np.clip(nearest, allowed.low, allowed.high) - codes[:, :, k]
            if step.any():
                codes[:, :, k] += step
                pull -= (step * scales)[:, :, None] * within[:, None, k]
        if np.array_equal(codes, before):
            break
    return codes, scales


def _fitting(wanted: Array, within: Array, codes: Array, scales: Array) -> Array:
    """By least squares; what would turn the signs or has no codes stays as it was."""
    seen = codes @ within
    power, common = (np.einsum("gok,gok->go", seen, other) for other in (codes, wanted))
    usable = (power > 0) & (common > 0)
    return np.where(usable, common / np.where(usable, power, 1.0), scales)
