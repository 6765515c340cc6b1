"""From what a tensor was seen to hold to its scale and zero point."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.entropy import entropy_range
from atonc.insight.quantizing.types import Scale
from atonc.machine.base.frozen import dataclass

LOW, HIGH = -128, 127
STEPS = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4)  # shares of the widest range that are tried
CAREFUL = 0.75  # of it that stays, where other data than the samples' is thought of
ROUNDS = 3
# Of the values that are looked at (some hundred a sample) so many stay within the range. A harder cut than that of
# onnxruntime: 99.999 of all values.
PERCENTILE = 99.99


@dataclass(frozen=True)
class Seen:
    """A tensor over all samples: its extremes and a few of its values, channels last, with what an error costs."""

    low: float
    high: float
    values: Array  # rows x channels
    weights: Array | None = None  # per channel: how much of an error reaches the outputs of the layers that read it
    tops: Array | None = None  # per channel: the largest value, without its sign

    @cached_property
    def by_entropy(self) -> tuple[float, float]:
        """Asked for in every step of a calibration, and dear."""
        low, high = entropy_range(self.values)
        return max(low, self.low), min(high, self.high)


def scale_of(low: float, high: float) -> Scale:
    """Codes from -128 to 127 over the range; zero itself is always a code."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / (HIGH - LOW), 1e-9)
    return Scale(float(np.float32(scale)), int(np.clip(round(LOW - low / scale), LOW, HIGH)))


def symmetric(low: float, high: float) -> Scale:
    """The zero point that the NPU reads without its 16-bit path: -128 for one sign, else 0."""
    if low >= 0:
        return scale_of(0.0, high)
    return Scale(float(np.float32(max(high / HIGH, low / LOW, 1e-9))), 0)


def rounded(values: Array, scale: Scale) -> Array:
    """Values as int8 would hold them."""
    codes = np.clip(np.rint(values / scale.scale) + scale.zero, LOW, HIGH)
    return (codes - scale.zero) * scale.scale


def error(seen: Seen, scale: Scale) -> float:
    """Mean squared error; weighed by channel it is, to first order, that of the layers behind."""
    squares = np.square(rounded(seen.values, scale) - seen.values)
    if seen.weights is None:
        return float(squares.mean())
    return float((squares.mean(0) * seen.weights).sum())


def choose(seen: Seen, method: str, is_symmetric: bool = False) -> tuple[float, float]:
    """The range: lowest and highest value that codes can say. `careful` is `output` that cuts a quarter at most."""
    if method == "minmax":
        return seen.low, seen.high
    if method == "percentile":
        cut = (100 - PERCENTILE) / 2
        low, high = np.percentile(seen.values, (cut, 100 - cut))
        return float(low), float(high)
    if method == "entropy":
        return seen.by_entropy
    plain = Seen(seen.low, seen.high, seen.values) if method == "mse" or seen.weights is None else seen
    make = symmetric if is_symmetric else scale_of
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    best, least = (low, high), error(plain, make(low, high))
    steps = [share for share in STEPS if share >= CAREFUL] if method == "careful" else STEPS
    for _ in range(ROUNDS):
        before = best
        for share in steps:
            for trial in ((low * share, best[1]), (best[0], high * share), (low * share, high * share)):
                found = error(plain, make(*trial))
                if found < least:
                    best, least = trial, found
        if best == before:
            break
    return best
