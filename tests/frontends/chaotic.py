"""Networks that make every rounding larger."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite_models import O, T, build

CHANNELS, SCALE = 16, 1 / 32


def chaotic(depth: int, gain: float, seed: int = 0) -> bytes:
    """1x1 convolutions that saturate: each makes a difference of one code larger, until the outputs have nothing in
    common."""
    rng = np.random.default_rng(seed)
    shape = (1, 4, 4, CHANNELS)
    tensors, ops = [T("t0", shape, scale=SCALE)], []
    for k in range(depth):
        weights = rng.normal(0, 1, (CHANNELS, 1, 1, CHANNELS))
        step = np.abs(weights).max() / 127
        scale = step * gain / np.sqrt(CHANNELS)
        tensors += [
            T(f"w{k}", weights.shape, scale=scale, data=np.rint(weights / step).astype(np.int8)),
            T(f"b{k}", (CHANNELS,), "int32", scale=SCALE * scale, data=rng.integers(-300, 300, CHANNELS)),
            T(f"t{k + 1}", shape, scale=SCALE),
        ]
        options = {0: ("b", 1), 1: ("i", 1), 2: ("i", 1)}
        ops.append(O("CONV_2D", [f"t{k}", f"w{k}", f"b{k}"], [f"t{k + 1}"], "Conv2DOptions", options))
    return build(tensors, ops, ["t0"], [f"t{depth}"])
