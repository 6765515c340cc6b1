"""How far sums of a layer go: at worst, and on typical inputs with a margin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.conv.transposed import met_together
from atonc.compiler.lower.conv.typical_sums import Shown, farthest, largest_sums, with_border
from atonc.compiler.lower.conv.weight_sums import Weights, extreme_sums
from atonc.compiler.plan.coarse import HIGHEST, LOWEST
from atonc.compiler.plan.policy import EXPECTED_MARGIN, UNSEEN_MARGIN

if TYPE_CHECKING:
    from atonc.compiler.lower.conv.layer import ConvLayer

Real = NDArray[np.float64]


def ends(layer: ConvLayer) -> tuple[int, int]:
    """The lowest and the highest number that units read."""
    if layer.coarse is not None:
        low = layer.coarse.zero if layer.never_negative else int(layer.coarse.stored(np.array(LOWEST)))
        return low, int(layer.coarse.stored(np.array(HIGHEST)))
    return (0, 255) if layer.features_shifted else (-128, 127)


def possible(layer: ConvLayer, subtracted: int) -> Real:
    """Per output channel: no input takes any partial sum further."""
    low, high = ends(layer)
    found = [extreme_sums(kernel, low - subtracted, high - subtracted) for kernel in summed(layer)]
    return np.max(found, axis=0).astype(np.float64)


def summed(layer: ConvLayer) -> list[Weights]:
    """The kernels of single outputs. (Transposed convolutions with results of a byte keep the room that they had.)"""
    if layer.op.kind != "transpose_conv" or layer.out_bytes == 1:
        return [layer.weights]
    return met_together(layer.weights, layer.stride, (layer.area.height, layer.area.width))


def expected(layer: ConvLayer, subtracted: int, shown: Real) -> Real:
    """Per output channel, from typical inputs where some are known. `shown`: up to where formats tell sums apart; they
    were calibrated on more than is known here."""
    worst = possible(layer, subtracted)
    if not layer.pictures:
        return worst
    times = margin(layer)
    return np.minimum(worst, np.maximum(times * _observed(layer, subtracted, Shown(shown, times)), shown))


def margin(layer: ConvLayer) -> float:
    """More where typical inputs leave most of the format unused: other inputs will not. Results of 16 bits have no bits
    to spare for more where they use all of it; those of a byte have."""
    low, high = ends(layer)
    reach = max(high - layer.zero, layer.zero - low)
    least = EXPECTED_MARGIN if layer.out_bytes == 1 else UNSEEN_MARGIN
    return max(least, UNSEEN_MARGIN * reach / farthest(layer.pictures, layer.zero))


def _observed(layer: ConvLayer, subtracted: int, shown: Shown) -> Real:
    """Per output channel the largest sum over any first part of the input channels, at sampled positions."""
    kernels = summed(layer)
    if kernels[0] is not layer.weights:
        found = [largest_sums(layer.pictures, subtracted, one, (1, 1), (1, 1), shown) for one in kernels]
        return np.asarray(np.max(found, axis=0))
    top, left, bottom, right = layer.op.attrs.get("padding", (0, 0, 0, 0))
    pictures = with_border(layer.pictures, ((top, bottom), (left, right), (0, 0)), layer.zero)
    return largest_sums(pictures, subtracted, layer.weights, layer.stride, layer.dilation, shown)
