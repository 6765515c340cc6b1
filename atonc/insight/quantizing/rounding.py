"""Rounds weights so that the layer's output, not each weight, comes nearest to float.

The inputs of a sum are rounded one after the other, and what each rounding loses is made up by the weights that are
still free, by least squares over the rows that the layer reads (as in optimal brain surgery). That needs only second
moments of the rows. What the mean loses goes into the bias. Weights of 4 bits lose enough that a layer can mend what
those before it lost, held to its own weights by a ridge. (At 8 bits that was tried: with a hundred samples it learns
their noise and loses 2 to 10 dB.)
"""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.one_by_one import one_by_one
from atonc.insight.quantizing.refine import refined
from atonc.insight.quantizing.weights import EIGHT, FREE, Bounds, CodeRange, channel_scales
from atonc.machine.base.frozen import dataclass

DAMPING = 0.05  # of the mean variance of the inputs: few samples must not make weights wild
RIDGE = 0.3  # the same, for weights that mend: of 0.1 to 10 the best over four networks


@dataclass
class Moments:
    """Sums over the rows that a layer reads: group x inputs, group x inputs x inputs."""

    count: int
    sums: Array
    products: Array
    real_sums: Array | None = None  # of what it would read in float
    crossed: Array | None = None  # products of that with what it reads

    @staticmethod
    def empty(groups: int, inputs: int) -> Moments:
        return Moments(0, np.zeros((groups, inputs)), np.zeros((groups, inputs, inputs)))

    def add(self, rows: Array, real: Array | None = None) -> None:
        """`real`: the same rows in float; given always or never."""
        grouped = rows.transpose(1, 0, 2).astype(np.float64)
        self.count += len(rows)
        self.sums += grouped.sum(1)
        self.products += grouped.transpose(0, 2, 1) @ grouped
        if real is not None:
            exact = real.transpose(1, 0, 2).astype(np.float64)
            self.real_sums = exact.sum(1) + (0.0 if self.real_sums is None else self.real_sums)
            self.crossed = exact.transpose(0, 2, 1) @ grouped + (0.0 if self.crossed is None else self.crossed)

    def centred(self) -> tuple[Array, Array]:
        """Mean and covariance."""
        mean = self.sums / max(self.count, 1)
        return mean, self.products / max(self.count, 1) - mean[:, :, None] * mean[:, None, :]

    def mending(self, weights: Array) -> Array:
        """Weights whose outputs of what is read come nearest to those of float, and that stay near the given ones."""
        if self.crossed is None or self.real_sums is None:
            return weights
        mean, within = self.centred()
        real_mean = self.real_sums / max(self.count, 1)
        across = self.crossed / max(self.count, 1) - real_mean[:, :, None] * mean[:, None, :]
        ridge = _on_diagonal(within, RIDGE)
        return np.linalg.solve(within + ridge, (weights @ (across + ridge)).transpose(0, 2, 1)).transpose(0, 2, 1)


def rounded(
    weights: Array, moments: Moments, bounds: Bounds = FREE, allowed: CodeRange = EIGHT
) -> tuple[Array, Array, Array]:
    """group x outputs x inputs -> codes, scales (group x outputs) and what to add to the bias."""
    mean, within = moments.centred()
    within = within + _on_diagonal(within, DAMPING)
    wanted = weights if allowed is EIGHT else moments.mending(weights)
    importance = np.repeat(np.einsum("gkk->gk", within), weights.shape[1], axis=0)
    flat = wanted.reshape(-1, weights.shape[2])
    scales = channel_scales(flat, importance, bounds, allowed).reshape(weights.shape[:2])
    if allowed is EIGHT:
        codes = one_by_one(wanted, within, scales, allowed)
    else:
        codes, scales = refined(wanted, within, scales, allowed)
    shift = np.einsum("gok,gk->go", weights - codes * scales[:, :, None], mean)
    return codes, scales, shift


def _on_diagonal(within: Array, share: float) -> Array:
    """So much of the mean variance."""
    extra = np.maximum(share * np.einsum("gkk->gk", within).mean(1), 1e-12)
    return np.asarray(extra[:, None, None] * np.eye(within.shape[1]))
