"""What packages compute: by themselves where they are on PyPI for this machine, else their documented formula in double
precision (torchaudio and NeMo have no build for every machine)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]


def librosa(samples: Array) -> Array:
    """melspectrogram and power_to_db with their defaults, but without top_db."""
    package = pytest.importorskip("librosa", reason="librosa is not installed")
    mels = package.feature.melspectrogram(y=samples.astype(np.float32) / 32768, sr=22050)
    found: Array = package.power_to_db(mels, top_db=None).T
    return found


def pymicro(samples: Array) -> Array:
    """TFLM's micro_frontend, wrapped by a wheel: 30 ms every 10 ms."""
    package = pytest.importorskip("pymicro_features", reason="pymicro-features is not installed")
    front_end, data, at, found = package.MicroFrontend(), samples.tobytes(), 0, list[Any]()
    while at + 320 <= len(data):
        made = front_end.process_samples(data[at : at + 320])
        at += made.samples_read * 2
        found += [made.features] if made.features else []
    return np.array(found, np.float32)


def _framed(x: Array, length: int, hop: int, first: int = 0) -> Array:
    x = np.concatenate([np.zeros(max(0, -first)), x])[max(0, first) :]
    return np.lib.stride_tricks.sliding_window_view(x, length)[::hop]


def _hann(length: int, periodic: bool) -> Array:
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / (length - (not periodic)))


def _power(frames: Array, n_fft: int) -> Array:
    return np.abs(np.fft.rfft(frames, n_fft)) ** 2


def _triangles(places: Array, bins: Array) -> Array:
    left, middle, right = places[:-2, None], places[1:-1, None], places[2:, None]
    return np.maximum(0, np.minimum((bins - left) / (middle - left), (right - bins) / (right - middle)))


def _htk(f: Any) -> Any:
    return 2595 * np.log10(1 + np.asarray(f) / 700)


def _htk_bank(count: int, low: float, high: float) -> Array:
    places = 700 * (10 ** (np.linspace(_htk(low), _htk(high), count + 2) / 2595) - 1)
    return _triangles(places, np.arange(257) * 31.25)


def torchaudio(samples: Array) -> Array:
    """transforms.MFCC: 40 of 64 mels, n_fft 512, window 400; zeros at the edges instead of a reflection."""
    frames = _framed(samples / 32768, 400, 160, -200) * _hann(400, True)
    decibels = 10 * np.log10(np.maximum(_power(frames, 512) @ _htk_bank(64, 0, 8000).T, 1e-10))
    k, m = np.arange(40)[:, None], np.arange(64)
    dct = np.cos(np.pi / 64 * (m + 0.5) * k) * np.sqrt(2 / 64)
    dct[0] *= np.sqrt(0.5)
    return decibels @ dct.T


def kaldi(samples: Array) -> Array:
    """compliance.kaldi.fbank, 80 bins, no dither."""
    frames = _framed(samples.astype(float), 400, 160)
    frames = frames - frames.mean(1, keepdims=True)
    frames = frames - 0.97 * np.concatenate([frames[:, :1], frames[:, :-1]], 1)
    frames = frames * _hann(400, False) ** 0.85
    mel = 1127 * np.log(1 + np.arange(257) * 31.25 / 700)
    bank = _triangles(np.linspace(1127 * np.log(1 + 20 / 700), 1127 * np.log(1 + 8000 / 700), 82), mel)
    return np.log(np.maximum(_power(frames, 512) @ bank.T, 1.1920928955078125e-07))


def nemo(samples: Array) -> Array:
    """AudioToMelSpectrogramPreprocessor, 80 features, without dither and without the normalisation."""
    x = samples / 32768
    x = np.concatenate([x[:1], x[1:] - 0.97 * x[:-1]])
    linear = np.arange(82) / 81 * (15 + 27 * np.log(8) / np.log(6.4))
    places = np.where(linear < 15, linear * 200 / 3, 1000 * np.exp((linear - 15) * np.log(6.4) / 27))
    bank = _triangles(places, np.arange(257) * 31.25) * (2 / (places[2:] - places[:-2]))[:, None]
    frames = _framed(x, 400, 160, -200) * _hann(400, False)
    return np.log(_power(frames, 512) @ bank.T + 2**-24)


def st_yamnet(samples: Array) -> Array:
    frames = _framed(samples / 32768, 400, 160, 56) * _hann(400, True)
    return np.log(np.maximum(np.sqrt(_power(frames, 512)) @ _htk_bank(64, 125, 7500).T, 1e-10))


REFERENCES: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
    "librosa": ("librosa", librosa),
    "torchaudio": ("its formula in double precision", torchaudio),
    "kaldi": ("its formula in double precision", kaldi),
    "nemo": ("its formula in double precision", nemo),
    "micro_wake_word": ("pymicro-features", pymicro),
    "st_yamnet": ("its declared steps in double precision", st_yamnet),
}
