"""Formats and weights of random networks, in two classes.

*Plain*: formats are calibrated on several examples and no output has finer steps than its inputs can tell apart, so a
layer does not enlarge the roundings of those before it. *Steep*: formats fit one example, too tight or too wide, and
nothing keeps a network from turning one code into a hundred. (Trained networks are between the two.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Quantisation

if TYPE_CHECKING:
    from tests.compiler.random_graphs import Net

Array = NDArray[Any]

FEWEST_CODES = 24  # that the values of a new tensor shall span
SUMS = frozenset({"conv", "transpose_conv", "dense", "average_pool", "mean", "resize_linear", "matmul"})  # of many
PAIRS = frozenset({"add", "sub", "mul"})
MOST_OF_SUMS, MOST_OF_PAIRS, MOST_OF_ONE = 0.75, 1.0, 1.0  # codes; the first as root mean square


def steep_format(net: Net, op: Op) -> Quantisation:
    """A scale that spreads the values, sometimes too tight or too wide; any zero point that covers them."""
    real = net.evaluate(op, net.values)[0].exact
    low, high = min(0.0, float(real.min())), max(0.0, float(real.max()))
    if high - low < 1e-9:
        return Quantisation.per_tensor(net.tensors[op.inputs[0]].scale, net.zero_point())  # windows of padding
    scale = (high - low) / 255.0 * float(net.choice((1.0, 1.0, 1.0, net.rng.uniform(0.6, 1.8))))
    zero = int(np.clip(round(-128 - low / scale), -128, 127))
    if net.chance(0.15):  # symmetric, as many tools have it
        scale, zero = max(high, -low) / 127.0, 0
    return Quantisation.per_tensor(float(np.float32(scale)), zero)


def plain_format(net: Net, op: Op) -> Quantisation | None:
    """The range of all examples, often with room to spare; None where too few codes would be left for the values."""
    runs = [net.evaluate(op, values)[0].exact for values in net.runs()]
    low, high = min(0.0, *(float(r.min()) for r in runs)), max(0.0, *(float(r.max()) for r in runs))
    scale = (high - low) / 255.0 * float(net.choice((1.0, 1.0, net.rng.uniform(1.0, 1.4))))
    symmetric = net.chance(0.15)
    if symmetric:
        scale = max(high, -low) / 127.0
    scale = float(np.float32(max(scale, 1.0001 * finest_step(net, op))))
    span = max(float(r.max()) for r in runs) - min(float(r.min()) for r in runs)
    if scale <= 0.0 or span < FEWEST_CODES * scale:
        return None
    least, most = np.ceil(-128 - low / scale), np.floor(127 - high / scale)  # zero points that cover all of the range
    zero = 0 if symmetric else int(np.clip(round(net.rng.uniform(least, max(least, most))), -128, 127))
    return Quantisation.per_tensor(scale, zero)


def finest_step(net: Net, op: Op) -> float:
    """The step below which an output would mostly show how its inputs were rounded: what changes when all their codes
    are one up or one down."""
    op, step = replace(op, attrs={**op.attrs, "activation": "none"}), 0.0  # it might hide the change
    for values in net.runs()[:2]:
        before, after = (net.evaluate(op, v)[0].exact for v in (values, _moved(net, op, values)))
        change = _channels(after - before)
        if op.kind in SUMS:
            step = max(step, float(np.sqrt((change**2).mean(axis=0)).max()) / MOST_OF_SUMS)
        else:
            step = max(step, float(np.abs(change).max()) / (MOST_OF_PAIRS if op.kind in PAIRS else MOST_OF_ONE))
    return step


def _moved(net: Net, op: Op, values: dict[str, Array]) -> dict[str, Array]:
    found = dict(values)
    for name in op.inputs:
        if name in net.live:
            step = net.rng.choice((-1, 1), values[name].shape)
            found[name] = np.clip(values[name].astype(np.int64) + step, -128, 127).astype(np.int8)
    return found


def _channels(values: Array) -> Array:
    return values.reshape(-1, values.shape[-1])
