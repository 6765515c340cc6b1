"""Weights as training leaves them: bell-shaped, outputs of about unit size, channels of different strength."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Quantisation
from tests.compiler.random_graphs import Net

Array = NDArray[Any]


def plain_weights(net: Net, x: str, shape: tuple[int, ...]) -> tuple[str, str]:
    """Weights and bias of a layer that reads x; per channel or per tensor."""
    outputs = shape[0]
    real = net.rng.normal(0, 1, shape) + (net.rng.uniform(0, 1) if net.chance(0.4) else 0.0)
    strength = np.exp(net.rng.normal(0, 0.4, outputs))
    size = max(float(np.sqrt((net.real(x) ** 2).mean())), 1e-6)
    per_channel = strength / (np.sqrt((real.reshape(outputs, -1) ** 2).sum(axis=1)) * size)
    real = real * per_channel.reshape(-1, *[1] * (len(shape) - 1))
    peaks = np.abs(real.reshape(outputs, -1)).max(axis=1)
    scales = (peaks if net.chance(0.7) else peaks.max(keepdims=True)) / 127.0
    axis = 0 if scales.size > 1 else None
    steps = scales.reshape(-1, *[1] * (len(shape) - 1))
    codes = np.clip(np.rint(real / steps), -127, 127).astype(np.int8)
    weights = net.constant(codes, Quantisation(scales, np.zeros(scales.size, np.int64), axis), "w")
    if net.chance(0.15):
        return weights, ""
    bias = net.rng.normal(0, 0.3, outputs) * strength / (scales * net.tensors[x].scale)
    return weights, net.constant(np.rint(bias).astype(np.int32), None, "b")
