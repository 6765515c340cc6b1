"""Inputs of a sum are rounded one after the other; those that are still free make up for what each loses."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.weights import CodeRange


def one_by_one(wanted: Array, within: Array, scales: Array, allowed: CodeRange) -> Array:
    """group x outputs x inputs -> int8 codes; the inputs that vary most first."""
    order = np.argsort(-np.einsum("gkk->gk", within), axis=1, kind="stable")
    groups = np.arange(len(within))[:, None]
    sorted_within = within[groups[:, :, None], order[:, :, None], order[:, None, :]]
    left = np.take_along_axis(wanted, order[:, None, :], 2).copy()
    upper = np.linalg.cholesky(np.linalg.inv(sorted_within)).transpose(0, 2, 1)
    codes = np.empty(left.shape)
    for k in range(left.shape[2]):
        codes[:, :, k] = np.clip(np.rint(left[:, :, k] / scales), allowed.low, allowed.high)
        lost = (left[:, :, k] - codes[:, :, k] * scales) / upper[:, k, k, None]
        left[:, :, k + 1 :] -= lost[:, :, None] * upper[:, None, k, k + 1 :]
    found = np.empty(codes.shape, np.int8)
    np.put_along_axis(found, np.broadcast_to(order[:, None, :], codes.shape), codes.astype(np.int8), 2)
    return found
