"""TFLM's micro_frontend in integers: window, fixed-point transform, filter bank, noise, gain control, logarithm.
Every integer is the one that the library computes; `pymicro-features` wraps it and the tests compare."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.delivery.front_end.pipeline import Pipeline
from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]
_FILTER_BITS, _NOISE_BITS, _SNR_BITS, _OUTPUT_BITS = 12, 14, 12, 6


@dataclass(frozen=True, eq=False)
class MicroTables:
    n_fft: int
    window: Array
    order: Array  # of the complex values of a frame
    stages: tuple[tuple[int, int], ...]  # radix and length of the parts, from the shortest on
    twiddles: Array  # re, im
    turns: Array
    starts: Array
    widths: Array
    weights: Array  # one channel after the other
    others: Array  # the rest of each weight: it counts for the next channel
    smoothing: Array  # even, odd
    gains: Array
    logs: Array
    correction_bits: int
    snr_shift: int
    least_signal: int

    @property
    def size_bytes(self) -> int:
        return sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))


@lru_cache(8)
def micro_tables(p: Pipeline) -> MicroTables:
    n_fft = 1 << max(6, (p.frame.length - 1).bit_length())
    half, correction = n_fft // 2, n_fft.bit_length() - 1 - _FILTER_BITS // 2
    starts, widths, weights, others = _filters(p, n_fft)
    factors = _factors(half)
    lengths = [half // math.prod(factors[: k + 1]) for k in range(len(factors))]
    return MicroTables(
        n_fft=n_fft,
        window=_window(p.frame.length),
        order=_order(np.arange(half), factors).astype(np.uint16),
        stages=tuple(zip(factors, lengths, strict=True))[::-1],
        twiddles=_circle(-2 * np.pi * np.arange(half) / half),
        turns=_circle(-np.pi * ((np.arange(half // 2) + 1) / half + 0.5)),
        starts=starts,
        widths=widths,
        weights=weights,
        others=others,
        smoothing=np.array([int(x * (1 << 14)) for x in (p.tflm.even_smoothing, p.tflm.odd_smoothing)], np.uint16),
        gains=_gains(p, correction),
        logs=np.array([_log_step(k) for k in range(129)] + [0], np.uint16),
        correction_bits=correction,
        snr_shift=p.tflm.pcan_gain_bits - correction - _SNR_BITS,
        least_signal=int(p.tflm.min_signal_remaining * (1 << 14)),
    )


def _window(length: int) -> Array:
    """Every operation in single precision, as the library rounds: one of 480 coefficients depends on it."""
    single = np.float32
    turn = single(2 * np.pi / length) * (np.arange(length, dtype=single) + single(0.5))
    shape = single(0.5) - single(0.5) * np.cos(turn.astype(np.float64)).astype(single)
    return np.floor(shape * single(1 << 12) + single(0.5)).astype(np.int16)


def _log_step(k: int) -> int:
    return round((math.log2(1 + k / 128) - k / 128) * 65536) if k < 128 else 0


def _circle(phase: Array) -> Array:
    return np.floor(0.5 + 32767 * np.array([np.cos(phase), np.sin(phase)])).astype(np.int16)


def _factors(count: int) -> list[int]:
    return [4] * ((count.bit_length() - 1) // 2) + [2] * ((count.bit_length() - 1) % 2)


def _order(places: Array, factors: list[int]) -> Array:
    """Which value comes where before the first stage."""
    if len(factors) == 0:
        return places
    radix = factors[0]
    return np.concatenate([_order(places[k::radix], factors[1:]) for k in range(radix)])


def _mel(hertz: Any) -> np.float32:
    return np.float32(1127.0) * np.log1p(np.float32(hertz) / np.float32(700.0), dtype=np.float32)


def _filters(p: Pipeline, n_fft: int) -> tuple[Array, Array, Array, Array]:
    """One channel more than there are: the first gives only its rest."""
    single = np.float32
    low, high = _mel(p.mel.fmin), _mel(p.fmax)
    channels = p.mel.count + 1
    spacing = single((high - low) / single(channels))
    centres = [single(low + spacing * single(k + 1)) for k in range(channels)]
    width = single(0.5 * p.rate / (single(n_fft // 2 + 1) - 1))
    first, starts, widths, weights = int(1.5 + p.mel.fmin / width), list[int](), list[int](), list[float]()
    for k, centre in enumerate(centres):
        at = first
        while at < n_fft // 2 and _mel(single(at) * width) <= centre:
            at += 1
        before = low if k == 0 else centres[k - 1]
        for bin in range(first, at):
            weights.append(float((centre - _mel(single(bin) * width)) / (centre - before)))
        starts.append(first)
        widths.append(at - first)
        first = at
    quantised = [np.floor(np.array(one) * (1 << _FILTER_BITS) + 0.5) for one in (weights, [1.0 - w for w in weights])]
    first_bins, counts = (np.array(one, np.uint16) for one in (starts, widths))
    return first_bins, counts, quantised[0].astype(np.int16), quantised[1].astype(np.int16)


def _gains(p: Pipeline, correction: int) -> Array:
    """The gain for noise of 2^k and up: value, slope, curve; numbers 0, 1 and from 2 on four places each."""
    bits = p.tflm.smoothing_bits - correction

    def gain(x: int) -> int:
        base = np.float32(np.float32(x) / np.float32(2.0**bits)) + np.float32(p.tflm.pcan_offset)
        found = np.float32(1 << p.tflm.pcan_gain_bits) * np.power(base, np.float32(-p.tflm.pcan_strength))
        return 0x7FFF if found > 0x7FFF else int(found + np.float32(0.5))

    values = [gain(0), gain(1)]
    for interval in range(2, 33):
        least = 1 << (interval - 1)
        y0, y1, y2 = gain(least), gain(least + least // 2), gain(2 * least - (interval == 32))
        slope = 4 * (y1 - y0) - (y2 - y0)
        values += [y0, slope, (y2 - y0) - slope, 0]
    return np.array(values, np.int16)


# ------------------------------------------------------------------------------------------------------------ steps


def features(p: Pipeline, tables: Any, kept: Array) -> Array:
    """Channels x frames, in the order of time: each frame changes the estimate of noise for the next one."""
    t = micro_tables(p)
    kept = kept[1:]
    channels = [_channels(t, kept[:, k : k + 512]) for k in range(0, kept.shape[1], 512)]
    signal, noise = _less_noise(p, t, np.concatenate(channels, 1))
    if p.tflm.pcan:
        snr = (signal.astype(np.int64) * _gain(t, noise)) >> t.snr_shift
        small = (snr * snr) >> (2 + 2 * _SNR_BITS - _OUTPUT_BITS)
        signal = np.where(snr < 2 << _SNR_BITS, small, (snr >> (_SNR_BITS - _OUTPUT_BITS)) - (1 << _OUTPUT_BITS))
    found = _logarithm(t, p.tflm.log_shift, signal.astype(np.int64) & 0xFFFFFFFF)
    scaled: Array = found.astype(np.float32) * np.float32(p.tflm.scale)
    return scaled


def _rounded(x: Array) -> Array:
    return ((x + (1 << 14)) >> 15).astype(np.int16).astype(np.int32)


def _wrapped(x: Array) -> Array:
    return x.astype(np.int16).astype(np.int32)


def _times(a: tuple[Array, Array], re: Array, im: Array) -> tuple[Array, Array]:
    return _rounded(a[0] * re - a[1] * im), _rounded(a[0] * im + a[1] * re)


def _channels(t: MicroTables, kept: Array) -> Array:
    """The root of the energy of every channel, as unsigned 32 bits."""
    windowed = ((kept.astype(np.int32) * t.window[:, None]) >> 12).astype(np.int16)
    size = np.abs(windowed).max(0, initial=0).astype(np.int64)  # -32768 stays below zero, as in the library
    shift = 15 - _bit_length(size)
    frame = np.zeros((t.n_fft, kept.shape[1]), np.int32)
    frame[: len(windowed)] = _wrapped(windowed.astype(np.int32) << shift)
    re, im = _transform(t, frame[0::2], frame[1::2])
    energy = (re * re + im * im).astype(np.uint32).astype(np.uint64)
    ends = np.cumsum(t.widths.astype(int))
    sums = np.zeros((2, len(t.starts), kept.shape[1]), np.uint64)
    for k, (start, width, end) in enumerate(zip(t.starts.tolist(), t.widths.tolist(), ends.tolist(), strict=True)):
        for which, weights in enumerate((t.weights, t.others)):
            sums[which, k] = (weights[end - width : end, None].astype(np.uint64) * energy[start : start + width]).sum(0)
    return _root(sums[0, 1:] + sums[1, :-1]) >> shift.astype(np.uint64)


def _transform(t: MicroTables, re: Array, im: Array) -> tuple[Array, Array]:
    """The fixed-point transform of kiss_fft for real input."""
    half, order = t.n_fft // 2, t.order
    re, im = re[order], im[order]
    for radix, length in t.stages:
        shape = (half // (radix * length), radix, length, -1)
        parts = [(re.reshape(shape)[:, k], im.reshape(shape)[:, k]) for k in range(radix)]
        stride = half // (radix * length)
        made = _stage(t, [(_rounded(a * (32767 // radix)), _rounded(b * (32767 // radix))) for a, b in parts], stride)
        re, im = (np.stack([one[k] for one in made], 1).reshape(half, -1) for k in (0, 1))
    return _real_half(t, re, im)


def _stage(t: MicroTables, parts: list[tuple[Array, Array]], stride: int) -> list[tuple[Array, Array]]:
    length = parts[0][0].shape[1]
    factors = t.twiddles.astype(np.int32)[:, :, None]
    turned = [
        _times(one, *(row[np.arange(length) * stride * (k + 1)] for row in factors)) for k, one in enumerate(parts[1:])
    ]
    (a, b), (c, d) = parts[0], turned[0]
    if len(parts) == 2:
        return [(_wrapped(a + c), _wrapped(b + d)), (_wrapped(a - c), _wrapped(b - d))]
    (e, f), (g, h) = turned[1:]
    less, whole = (_wrapped(a - e), _wrapped(b - f)), (_wrapped(a + e), _wrapped(b + f))
    both, apart = (_wrapped(c + g), _wrapped(d + h)), (_wrapped(c - g), _wrapped(d - h))
    return [
        (_wrapped(whole[0] + both[0]), _wrapped(whole[1] + both[1])),
        (_wrapped(less[0] + apart[1]), _wrapped(less[1] - apart[0])),
        (_wrapped(whole[0] - both[0]), _wrapped(whole[1] - both[1])),
        (_wrapped(less[0] - apart[1]), _wrapped(less[1] + apart[0])),
    ]


def _real_half(t: MicroTables, re: Array, im: Array) -> tuple[Array, Array]:
    half = t.n_fft // 2
    places = np.arange(1, half // 2 + 1)
    first = _rounded(re[0] * 16383), _rounded(im[0] * 16383)
    low = _rounded(re[places] * 16383), _rounded(im[places] * 16383)
    high = _rounded(re[half - places] * 16383), _rounded(_wrapped(-im[half - places]) * 16383)
    sum_re, sum_im = _wrapped(low[0] + high[0]), _wrapped(low[1] + high[1])
    less = _wrapped(low[0] - high[0]), _wrapped(low[1] - high[1])
    tw_re, tw_im = _times(less, *(row[:, None] for row in t.turns.astype(np.int32)))
    out = np.zeros((2, half + 1, re.shape[1]), np.int32)
    out[0, 0], out[0, half] = _wrapped(first[0] + first[1]), _wrapped(first[0] - first[1])
    out[0, places], out[1, places] = _wrapped((sum_re + tw_re) >> 1), _wrapped((sum_im + tw_im) >> 1)
    out[0, half - places], out[1, half - places] = _wrapped((sum_re - tw_re) >> 1), _wrapped((tw_im - sum_im) >> 1)
    return out[0], out[1]


def _bit_length(x: Array) -> Array:
    return np.frexp(np.maximum(x, 0).astype(np.float64))[1].astype(np.int64)


def _root(x: Array) -> Array:
    """Rounded to the nearest whole number."""
    root = np.floor(np.sqrt(x.astype(np.float64))).astype(np.uint64)
    root = np.where(root * root > x, root - np.uint64(1), root)
    root = np.where((root + np.uint64(1)) ** np.uint64(2) <= x, root + np.uint64(1), root)
    most = np.where(x >> np.uint64(32) == 0, 0xFFFF, 0xFFFFFFFF).astype(np.uint64)
    return np.where((x - root * root > root) & (root != most), root + np.uint64(1), root)


def _less_noise(p: Pipeline, t: MicroTables, channels: Array) -> tuple[Array, Array]:
    """Signal without noise, and the noise that was estimated, for every frame."""
    bits, mask = p.tflm.smoothing_bits, np.int64(0xFFFFFFFF)
    smoothing = t.smoothing.astype(np.int64)[np.arange(p.mel.count) % 2]
    estimate, noise = np.zeros(p.mel.count, np.int64), np.zeros(channels.shape, np.int64)
    channels = channels.astype(np.int64) & mask
    scaled = (channels << bits) & mask
    share = (scaled * smoothing[:, None]).astype(np.uint64)
    kept = ((1 << _NOISE_BITS) - smoothing).astype(np.uint64)
    for k in range(channels.shape[1]):
        estimate = ((share[:, k] + estimate.astype(np.uint64) * kept) >> np.uint64(14)).astype(np.int64) & mask
        noise[:, k] = estimate
    least = (channels * t.least_signal) >> _NOISE_BITS
    return np.maximum((scaled - np.minimum(noise, scaled)) >> bits, least), noise


def _gain(t: MicroTables, noise: Array) -> Array:
    interval = _bit_length(noise)
    left, right = np.maximum(11 - interval, 0), np.maximum(interval - 11, 0)
    rest = ((noise << left) >> right) & 0x3FF
    at = np.maximum(4 * interval - 6, 2)
    gains = t.gains.astype(np.int64)
    curved = (gains[at + 2] * rest) >> 5
    curved = ((curved + (gains[at + 1] << 5)) * rest + (1 << 14)) >> 15
    found = (curved + gains[at]).astype(np.int16).astype(np.int64)
    return np.where(noise <= 2, gains[np.minimum(noise, 2)], found)


def _logarithm(t: MicroTables, shift: int, x: Array) -> Array:
    x = (x << t.correction_bits) & 0xFFFFFFFF if t.correction_bits >= 0 else x >> -t.correction_bits
    whole = np.maximum(_bit_length(x) - 1, 0)
    rest = x - (np.int64(1) << whole)
    rest = (rest << np.maximum(16 - whole, 0)) >> np.maximum(whole - 16, 0)
    segment = np.where(x > 1, rest >> 9, 0)
    logs = t.logs.astype(np.int64)
    at, behind = logs[segment], logs[segment + 1]
    fraction = rest + at + (((behind - at) * (rest - (segment << 9))) >> 16)
    natural = (45426 * ((whole << 16) + fraction) + (1 << 15)) >> 16
    found = ((natural << shift) + (1 << 15)) >> 16
    return np.where(x > 1, np.minimum(found, 0xFFFF), 0)
