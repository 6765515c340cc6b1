"""Rounds weights so that the layer's output, not each weight, comes nearest to float.

The inputs of a sum are rounded one after the other, and what each rounding loses is made up by the weights that are
still free, by least squares over the rows that the layer reads (as in optimal brain surgery). That needs only second
moments of the rows. What the mean loses goes into the bias. (To mend the errors of the layers before in the same way
was tried: with a hundred samples it learns their noise and loses 2 to 10 dB.)
"""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.weights import FREE, LIMIT, Bounds, channel_scales
from atonc.machine.base.frozen import dataclass

DAMPING = 0.05  # of the mean variance of the inputs: few samples must not make weights wild


@dataclass
class Moments:
    """Sums over the rows that a layer reads: group x inputs, group x inputs x inputs."""

    count: int
    sums: Array
    products: Array

    @staticmethod
    def empty(groups: int, inputs: int) -> Moments:
        return Moments(0, np.zeros((groups, inputs)), np.zeros((groups, inputs, inputs)))

    def add(self, rows: Array) -> None:
        grouped = rows.transpose(1, 0, 2).astype(np.float64)
        self.count += len(rows)
        self.sums += grouped.sum(1)
        self.products += grouped.transpose(0, 2, 1) @ grouped

    def centred(self) -> tuple[Array, Array]:
        """Mean and covariance."""
        mean = self.sums / max(self.count, 1)
        return mean, self.products / max(self.count, 1) - mean[:, :, None] * mean[:, None, :]


def rounded(weights: Array, moments: Moments, bounds: Bounds = FREE) -> tuple[Array, Array, Array]:
    """group x outputs x inputs -> codes, scales (group x outputs) and what to add to the bias."""
    mean, within = moments.centred()
    inputs = weights.shape[2]
    diagonal = np.einsum("gkk->gk", within)
    damping = np.maximum(DAMPING * diagonal.mean(1), 1e-12)
    within = within + damping[:, None, None] * np.eye(inputs)
    importance = np.repeat(diagonal + damping[:, None], weights.shape[1], axis=0)
    scales = channel_scales(weights.reshape(-1, inputs), importance, bounds).reshape(weights.shape[:2])
    codes = _one_by_one(weights, within, scales)
    shift = np.einsum("gok,gk->go", weights - codes * scales[:, :, None], mean)
    return codes, scales, shift


def _one_by_one(wanted: Array, within: Array, scales: Array) -> Array:
    """The inputs that vary most first; the rest makes up for what each loses."""
    order = np.argsort(-np.einsum("gkk->gk", within), axis=1, kind="stable")
    groups = np.arange(len(within))[:, None]
    sorted_within = within[groups[:, :, None], order[:, :, None], order[:, None, :]]
    left = np.take_along_axis(wanted, order[:, None, :], 2).copy()
    upper = np.linalg.cholesky(np.linalg.inv(sorted_within)).transpose(0, 2, 1)
    codes = np.empty(left.shape)
    for k in range(left.shape[2]):
        codes[:, :, k] = np.clip(np.rint(left[:, :, k] / scales), -LIMIT, LIMIT)
        lost = (left[:, :, k] - codes[:, :, k] * scales) / upper[:, k, k, None]
        left[:, :, k + 1 :] -= lost[:, :, None] * upper[:, None, k, k + 1 :]
    found = np.empty(codes.shape, np.int8)
    np.put_along_axis(found, np.broadcast_to(order[:, None, :], codes.shape), codes.astype(np.int8), 2)
    return found
