"""The numbers of a front end: windows, twiddle factors, mel weights, cosines. Made in double precision, rounded once;
the C file holds them digit by digit, the twin computes with the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.delivery.front_end.pipeline import CODE_TYPES, LOGS, Pipeline
from atonc.machine.base.frozen import dataclass

Array = NDArray[Any]
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class StepTables:
    """What the steps in single precision read; arrays of features end at a multiple of four."""

    window: Singles
    twiddles: Singles  # re, im of w, w^2, w^3: 6 rows of a quarter of the transform
    turns: Singles  # re, im
    mel_starts: Array
    mel_fours: Array
    mel_weights: Singles
    factor: np.float32  # of bins that have no mels
    cosines: Singles
    mean: Singles
    inverse: Singles
    emphasis: np.float32
    guard: np.float32
    floor: np.float32
    log_factor: np.float32
    steps: np.float32  # codes in a unit
    low: np.float32
    high: np.float32

    @property
    def size_bytes(self) -> int:
        return sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))


def tables(p: Pipeline) -> StepTables:
    factor, lowest, single = _factor(p), CODE_TYPES[p.codes.type], np.float32
    mean, deviation = p.normalise.mean, p.normalise.deviation
    if mean or deviation:
        mean, deviation = mean or (0.0,), deviation or (1.0,)
    starts, fours, weights = _sparse(mel_weights(p) * factor) if p.mel.count else _sparse(np.zeros((0, p.bins)))
    return StepTables(
        window=_fours(window(p)),
        twiddles=twiddles(p.spectrum.n_fft // 2),
        turns=_turns(p.spectrum.n_fft),
        mel_starts=starts,
        mel_fours=fours,
        mel_weights=weights,
        factor=single(factor),
        cosines=_cosines(p),
        mean=_each(mean, p.features, 0.0),
        inverse=_each(tuple(1 / x for x in deviation), p.features, 1.0),
        emphasis=single(p.frame.pre_emphasis),
        guard=single(p.log.guard),
        floor=single(p.log.floor),
        log_factor=single(LOGS[p.log.of]),
        steps=single(1 / p.codes.scale),
        low=single(lowest[0] - p.codes.zero_point),
        high=single(lowest[1] - p.codes.zero_point),
    )


def _factor(p: Pipeline) -> float:
    """What the transform leaves out: its half, and the 1/32768 of samples; always a power of two."""
    amplitude = 0.5 * (2.0**-15 if p.spectrum.samples == "unit" else 1.0)
    return amplitude if p.spectrum.of == "magnitude" else amplitude * amplitude


def _fours(values: Array) -> Singles:
    """The values with zeros up to a multiple of four."""
    return np.pad(values, (0, -len(values) % 4)).astype(np.float32)


def window(p: Pipeline) -> Array:
    length, name = p.frame.length, p.frame.window
    if name == "none":
        return np.ones(length)
    turn = 2 * np.pi * np.arange(length) / (length if name in ("hann", "hamming") else length - 1)
    if name.startswith("hamming"):
        return 0.54 - 0.46 * np.cos(turn)
    hann = 0.5 - 0.5 * np.cos(turn)
    return hann**0.85 if name == "povey" else hann


def twiddles(half: int) -> Singles:
    turn = -2j * np.pi * np.arange(half // 4) / half
    powers = [np.exp(k * turn) for k in (1, 2, 3)]
    return np.array([part for one in powers for part in (one.real, one.imag)], np.float32)


def _turns(n_fft: int) -> Singles:
    turn = np.exp(-2j * np.pi * np.arange(n_fft // 4) / n_fft)
    return np.array([turn.real, turn.imag], np.float32)


def to_mel(hertz: Array, scale: str) -> Array:
    if scale == "htk":
        return 2595.0 * np.log10(1.0 + hertz / 700.0)
    return np.where(hertz < 1000, hertz * 3 / 200, 15 + np.log(np.maximum(hertz, 1) / 1000) * 27 / np.log(6.4))


def to_hertz(mel: Array, scale: str) -> Array:
    if scale == "htk":
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(np.minimum(mel - 15, 50) * np.log(6.4) / 27))


def mel_weights(p: Pipeline) -> Array:
    """mels x bins."""
    ends = to_mel(np.array([p.mel.fmin, p.fmax]), p.mel.scale)
    corners, bins = np.linspace(ends[0], ends[1], p.mel.count + 2), np.arange(p.bins) * p.rate / p.spectrum.n_fft
    if p.mel.triangles == "bins":
        return _whole_bins(p, ends)
    hertz = to_hertz(corners, p.mel.scale)
    if p.mel.triangles == "mel":
        places, bins = corners, to_mel(bins, p.mel.scale)
    else:
        places = hertz
    left, middle, right = places[:-2, None], places[1:-1, None], places[2:, None]
    rising, falling = (bins - left) / (middle - left), (right - bins) / (right - middle)
    weights = np.maximum(0, np.minimum(rising, falling))
    return weights * (2 / (hertz[2:] - hertz[:-2]))[:, None] if p.mel.norm == "slaney" else weights


def _whole_bins(p: Pipeline, ends: Array) -> Array:
    """ONNX's MelWeightMatrix: corners are whole bins, one of `mel.count` + 2 steps stays unused above them."""
    corners = ends[0] + np.arange(p.mel.count + 2) * ((ends[1] - ends[0]) / (p.mel.count + 2))
    places = (p.spectrum.n_fft + 1) * to_hertz(corners, p.mel.scale) // p.rate
    left, middle, right = places[:-2, None], places[1:-1, None], places[2:, None]
    bins = np.arange(p.bins)
    rising = np.where(middle > left, (bins - left) / np.maximum(middle - left, 1), bins >= middle)
    falling = np.where(right > middle, (right - bins) / np.maximum(right - middle, 1), bins <= middle)
    return np.clip(np.minimum(rising, falling), 0, 1)


def _sparse(weights: Array) -> tuple[Array, Array, Singles]:
    """Where each row begins, how many fours it has, and these one after the other."""
    starts, fours, kept = list[int](), list[int](), list[Array]()
    for row in weights.astype(np.float32):
        filled = np.flatnonzero(row)
        first, count = (int(filled[0]), int(filled[-1] - filled[0] + 1)) if filled.size else (0, 0)
        starts.append(first)
        fours.append(-(-count // 4))
        kept.append(_fours(row[first : first + count]))
    flat = np.concatenate(kept) if kept else np.zeros(0, np.float32)
    return np.array(starts, np.uint16), np.array(fours, np.uint16), flat


def _cosines(p: Pipeline) -> Singles:
    count, values = p.dct.count, p.values
    k, m = np.arange(count)[:, None], np.arange(values)
    rows = np.cos(np.pi * k * (2 * m + 1) / (2 * values)) * np.where(k == 0, np.sqrt(1 / values), np.sqrt(2 / values))
    return np.pad(rows, ((0, 0), (0, -values % 4))).astype(np.float32)


def _each(given: tuple[float, ...], features: int, otherwise: float) -> Singles:
    if not given:
        return np.zeros(0, np.float32)
    values = np.full(features, given[0]) if len(given) == 1 else np.array(given)
    return np.pad(values, (0, -features % 4), constant_values=otherwise).astype(np.float32)
