"""Deterministic inputs that look like nature: pictures with light, objects and texture; spectrograms with tones.

Random noise is a poor judge: it drives first layers into saturation and hides errors that real data shows.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from atonc.ir import Array, Graph, Tensor

Real = NDArray[np.float64]


def make_inputs(graph: Graph, seed: int = 0, kind: str = "auto") -> dict[str, Array]:
    """One natural-looking value per graph input, in the input's own number format."""
    layout = "NCHW" if graph.source == "onnx" else "NHWC"
    return {name: make_input(graph.tensors[name], seed, layout, kind) for name in graph.inputs}


def make_input(tensor: Tensor, seed: int = 0, layout: str = "NHWC", kind: str = "auto") -> Array:
    """Values spread over the input's range; float inputs get 0..1."""
    unit = unit_values(tensor.shape, seed, layout, kind)
    if tensor.is_float:
        return unit.astype(tensor.dtype)
    low, high = tensor.code_range if tensor.dtype in ("int8", "uint8") else (0, 255)
    return np.clip(np.floor(low + unit * (high - low + 1)), low, high).astype(tensor.dtype)


def unit_values(shape: tuple[int, ...], seed: int, layout: str, kind: str = "auto") -> Real:
    """Values in 0..1. Pictures have 1, 3 or 4 channels; one channel of unequal sides is taken for a spectrogram."""
    rng = np.random.default_rng([seed, zlib.crc32(repr(shape).encode())])
    if len(shape) != 4:
        return _walk(rng, shape)
    height, width, channels = (shape[2], shape[3], shape[1]) if layout == "NCHW" else shape[1:]
    if kind == "auto":
        kind = "audio" if channels == 1 and height != width else "photo"
    make = spectrogram if kind == "audio" else photo
    pictures = np.stack([make(height, width, channels, rng) for _ in range(shape[0])])
    return np.moveaxis(pictures, -1, 1) if layout == "NCHW" else pictures


def photo(height: int, width: int, channels: int, rng: np.random.Generator) -> Real:
    """A lit background, a few soft-edged objects, texture with a 1/f spectrum; [height, width, channels]."""
    y, x = np.mgrid[0:height, 0:width]
    y, x = (y + 0.5) / height, (x + 0.5) / width
    shared = _one_over_f(height, width, rng)
    layers = []
    blobs = [(*rng.uniform(0.1, 0.9, 2), *rng.uniform(0.05, 0.3, 2), rng.uniform(0, np.pi)) for _ in range(7)]
    for _ in range(channels):
        light = 0.45 + rng.uniform(-0.35, 0.35) * (x - 0.5) + rng.uniform(-0.35, 0.35) * (y - 0.5)
        for cy, cx, ry, rx, angle in blobs:
            light = light + rng.uniform(-0.45, 0.45) * _blob(y - cy, x - cx, ry, rx, angle)
        layers.append(light + 0.10 * shared + 0.03 * _one_over_f(height, width, rng))
    return np.clip(np.stack(layers, axis=-1), 0.0, 1.0)


def spectrogram(height: int, width: int, channels: int, rng: np.random.Generator) -> Real:
    """Harmonic tones that start and stop, over a noise floor that falls with frequency; time runs along width."""
    y, x = np.mgrid[0:height, 0:width]
    frequency, time = (y + 0.5) / height, (x + 0.5) / width
    picture = 0.35 - 0.2 * frequency + 0.08 * _one_over_f(height, width, rng)
    for _ in range(4):
        base, start, stop, slope = rng.uniform(0.05, 0.2), rng.uniform(0, 0.6), rng.uniform(0.5, 1), rng.normal(0, 0.05)
        envelope = 1 / (1 + np.exp(-(time - start) * 60)) / (1 + np.exp((time - stop) * 20))
        for harmonic in range(1, 6):
            line = np.exp(-(((frequency - harmonic * (base + slope * time)) * height / 1.5) ** 2))
            picture = picture + 0.5 / harmonic * envelope * line
    return np.clip(np.repeat(picture[:, :, None], channels, axis=2), 0.0, 1.0)


def _blob(dy: Real, dx: Real, ry: float, rx: float, angle: float) -> Real:
    """A soft-edged ellipse."""
    u, v = dx * np.cos(angle) + dy * np.sin(angle), dy * np.cos(angle) - dx * np.sin(angle)
    return 1.0 / (1.0 + np.exp(np.clip((np.hypot(u / rx, v / ry) - 1.0) * 12.0, -60, 60)))


def _one_over_f(height: int, width: int, rng: np.random.Generator) -> Real:
    """Noise with the spectrum of natural scenes, mean 0, deviation 1."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(rng.standard_normal((height, width))) / frequency
    noise = np.fft.irfft2(spectrum, s=(height, width))
    deviation = float(noise.std())
    return noise / deviation if deviation else noise


def _walk(rng: np.random.Generator, shape: tuple[int, ...]) -> Real:
    """Anything else: a smooth random walk along the last axis, scaled to 0..1."""
    steps = rng.standard_normal(shape or (1,)).cumsum(axis=-1) + rng.standard_normal(shape or (1,))
    low, high = float(steps.min(initial=0)), float(steps.max(initial=0))
    return ((steps - low) / (high - low or 1.0)).reshape(shape)
