"""What all forms of a layer ask of its weights, worked out once for as long as the weights live.

How far sums of a layer go: at worst, and on typical inputs with a margin.

What sums of products reach at some positions of a typical picture.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.conv.kernel_parts import met_together
from atonc.compiler.plan.coarse import HIGHEST, LOWEST
from atonc.compiler.plan.policy import EXPECTED_MARGIN, UNSEEN_MARGIN
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.memoise import memoise

if TYPE_CHECKING:
    from atonc.compiler.lower.conv.layer import ConvLayer

Real = NDArray[np.float64]
Weights = NDArray[np.int16]  # [out, rows, columns, in]: codes without their zero point


@memoise
def magnitudes(weights: Weights) -> NDArray[np.int64]:
    """Per output channel the sum of all weights without their signs."""
    found: NDArray[np.int64] = np.abs(weights).sum(axis=(1, 2, 3), dtype=np.int64)
    return found


@memoise
def weight_sums(weights: Weights) -> NDArray[np.int64]:
    """Per output channel."""
    found: NDArray[np.int64] = weights.sum(axis=(1, 2, 3), dtype=np.int64)
    return found


def _rising(weights: Weights) -> NDArray[np.int64]:
    """Per output channel the sum of all weights above zero."""
    return (magnitudes(weights) + weight_sums(weights)) // 2


def reached_sums(weights: Weights, low: int, high: int) -> tuple[Real, Real]:
    """Per output channel the lowest and the highest sum of features low..high."""
    rising = _rising(weights)
    falling = magnitudes(weights) - rising
    return (rising * low - falling * high).astype(np.float64), (rising * high - falling * low).astype(np.float64)


@memoise
def extreme_sums(weights: Weights, low: int, high: int) -> NDArray[np.int64]:
    """Per output channel the largest sum, without its sign, of features low..high: no first part of it is larger."""
    rising = _rising(weights)
    falling = magnitudes(weights) - rising
    above, below = max(high, 0), max(-low, 0)
    found: NDArray[np.int64] = np.maximum(rising * above + falling * below, rising * below + falling * above)
    return found


Codes = NDArray[np.signedinteger[Any]]  # also those of features that are stored as code + 128

SAMPLES = 256  # positions at which sums are looked at
STOPS = 24  # between channels, where a pass might end


def farthest(pictures: Iterable[Codes], zero: int) -> int:
    """How far codes are from the zero point; at least one."""
    ends = [int(end) for codes in pictures if codes.size for end in (codes.min(), codes.max())]
    return max([1, *(abs(end - zero) for end in ends)])


def with_border(pictures: Iterable[Codes], width: tuple[tuple[int, int], ...], zero: int) -> list[Codes]:
    """So many zero points before and behind, along every axis."""
    if not any(map(any, width)):
        return list(pictures)
    return [np.pad(codes, width, constant_values=zero) for codes in pictures]


@dataclass(frozen=True, eq=False)
class Shown:
    """Up to where sums of each output channel, without their signs, give codes of their own, and how many times as far
    as typical sums others are expected to go."""

    sums: Real
    margin: float = 1.0

    def required(self, highest: Real, lowest: Real, total: Real) -> Real:
        """How far sums must be held, as a part of what the margin makes of it; the ends of the way to each total are
        given. A total beyond what codes show must not come back when its way there is cut off: not the way itself is
        needed then, but what it falls by after its highest place."""
        whole = np.maximum(highest, -lowest)
        beyond = self.sums / self.margin + np.where(total > 0, highest - total, total - lowest)
        found: Real = np.where(np.abs(total) > self.sums, np.minimum(whole, beyond), whole)
        return found


def largest_sums(
    pictures: Iterable[Codes],
    subtracted: int,
    weights: Weights,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    shown: Shown,
) -> Real:
    """Per output channel, over any first or last part of the input channels, at sampled positions; at least one."""
    outputs, *window, channels = weights.shape
    largest = np.ones(outputs)
    for picture in pictures:
        patches = sample_patches(picture, (window[0], window[1]), stride, dilation) - subtracted
        groups = picture.shape[2] // channels
        if groups > 1 and channels == 1:  # depthwise: every output looks at one channel
            own = np.arange(outputs) // (outputs // groups)
            products = patches[..., own] * weights[..., 0].transpose(1, 2, 0).astype(np.float64)
            above, below = (np.maximum(sign * products, 0).sum(axis=(1, 2)) for sign in (1, -1))
            found = shown.required(above, -below, above - below).max(axis=0)  # whatever the order
        else:
            found = _by_group(patches, weights, groups, shown)
        largest = np.maximum(largest, found)
    return largest


def _by_group(patches: Codes, weights: Weights, groups: int, shown: Shown) -> Real:
    """Every group of outputs looks at channels of its own."""
    if groups == 1:
        return largest_part(patches, weights, shown)
    outputs, channels = weights.shape[0] // groups, weights.shape[3]
    limits = np.broadcast_to(shown.sums, weights.shape[:1])
    found = []
    for group in range(groups):
        own = slice(group * outputs, (group + 1) * outputs)
        features = patches[..., group * channels : (group + 1) * channels]
        found.append(largest_part(features, weights[own], replace(shown, sums=limits[own])))
    return np.concatenate(found)


def sample_patches(
    picture: Codes, window: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> Codes:
    """Windows [position, row, column, channel] spread over a picture (positions at the border are left out)."""
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    rows = np.arange(0, max(1, picture.shape[0] - reach[0] + 1), stride[0])
    columns = np.arange(0, max(1, picture.shape[1] - reach[1] + 1), stride[1])
    where = np.linspace(0, rows.size * columns.size - 1, min(SAMPLES, rows.size * columns.size)).astype(int)
    ys, xs = rows[where // columns.size], columns[where % columns.size]
    dy, dx = (np.arange(k) * d for k, d in zip(window, dilation, strict=True))
    y = np.minimum(ys[:, None, None] + dy[None, :, None], picture.shape[0] - 1)
    x = np.minimum(xs[:, None, None] + dx[None, None, :], picture.shape[1] - 1)
    found: Codes = picture[y, x]
    return found


def largest_part(patches: Codes, weights: Weights, shown: Shown) -> Real:
    """Per output the largest sum over some first or some last channels; a few dozen places to stop are looked at."""
    patches = patches[:1] if (patches == patches[:1]).all() else patches  # of a picture of one colour
    positions, outputs, channels = patches.shape[0], weights.shape[0], weights.shape[3]
    step = -(-channels // STOPS)
    exact = _exact_type(patches, weights)
    features, kernels = patches.astype(exact), weights.astype(exact)
    sums = np.zeros((positions, outputs), exact)
    highest, lowest = np.zeros_like(sums), np.zeros_like(sums)
    for first in range(0, channels, step):
        some = slice(first, first + step)
        left, right = (part[..., some].reshape(len(part), -1) for part in (features, kernels))
        sums += left @ right.T
        np.maximum(highest, sums, out=highest)
        np.minimum(lowest, sums, out=lowest)
    forwards, backwards = shown.required(highest, lowest, sums), shown.required(sums - lowest, sums - highest, sums)
    return np.maximum(forwards, backwards).max(axis=0, initial=0.0).astype(np.float64)


def _exact_type(patches: Codes, weights: Weights) -> type[np.floating[Any]]:
    """Single precision where it holds every sum."""
    most = magnitudes(weights).max(initial=0) * int(np.abs(patches).max(initial=0))
    return np.float32 if most < 1 << 24 else np.float64


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
