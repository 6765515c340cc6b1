"""Made sound for the examples: syllables of a made voice (harmonics under two formants that glide) and noise.

Equal seeds give equal sound. Sines of another machine may differ in their last bit, so a sample may differ by one.
"""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sound = NDArray[np.float64]
Samples = NDArray[np.int16]

# syllable: where its two formants begin and end, in hertz
SYLLABLES = {
    "a": ((750, 1200), (650, 1100)),
    "i": ((300, 2300), (280, 2500)),
    "u": ((350, 850), (300, 700)),
    "ai": ((750, 1250), (320, 2200)),
    "ui": ((320, 750), (300, 2300)),
    "au": ((720, 1200), (340, 800)),
}


def syllable(rng: np.random.Generator, name: str, voice: float, rate: int) -> Sound:
    """0.14 to 0.22 s; `voice` is the pitch in hertz, formants are off by up to 6 %."""
    count = int(rng.uniform(0.14, 0.22) * rate)
    along = np.linspace(0, 1, count)
    pitch = voice * (1 + rng.uniform(-0.15, 0.15) * (along - 0.5))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    begin, end = SYLLABLES[name]
    made = np.zeros(count)
    formants = [(a + (b - a) * along) * rng.uniform(0.94, 1.06) for a, b in zip(begin, end, strict=True)]
    for k in range(1, int(0.45 * rate / voice)):
        gain = sum(weight / (1 + ((k * pitch - f) / 110) ** 2) for weight, f in zip((1, 0.6), formants, strict=True))
        made += gain * np.sin(k * phase)
    edge = np.minimum(1, np.minimum(along, 1 - along) * 8)
    return made * edge / np.abs(made).max()


def word(rng: np.random.Generator, names: Sequence[str], rate: int) -> Sound:
    """Syllables of one voice with short gaps."""
    voice = rng.uniform(95, 230)
    parts = []
    for name in names:
        parts += [syllable(rng, name, voice, rate) * rng.uniform(0.7, 1), np.zeros(int(rng.uniform(0.02, 0.05) * rate))]
    return np.concatenate(parts[:-1])


def noise(rng: np.random.Generator, count: int, rate: int) -> Sound:
    """Coloured noise that swells, and a hum: of a root mean square of about 1."""
    spectrum = np.fft.rfft(rng.standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / rate)
    spectrum /= np.sqrt(1 + (hertz / rng.uniform(150, 2000)) ** 2)
    made = np.fft.irfft(spectrum, count)
    t = np.arange(count) / rate
    made *= 1 + 0.5 * np.sin(2 * np.pi * rng.uniform(0.1, 1.5) * t + rng.uniform(0, 6))
    made /= np.sqrt(np.mean(made**2))
    return made + 0.4 * np.sin(2 * np.pi * rng.choice([50, 100, 120]) * t)


def samples(sound: Sound) -> Samples:
    return np.clip(np.rint(sound * 32767), -32768, 32767).astype(np.int16)


def write_wav(path: Path, given: Samples, rate: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, len(given), "NONE", ""))
        file.writeframes(given.astype("<i2").tobytes())


def read_wav(path: Path) -> tuple[Samples, int]:
    """Samples of a mono file of 16 bits, and its rate."""
    with wave.open(str(path), "rb") as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, 2):
            raise SystemExit(f"{path}: give one channel of 16 bits")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.int16), file.getframerate()


def same_sound(made: Samples, kept: Samples) -> bool:
    """Equal but for what the last bit of a sine does."""
    return made.shape == kept.shape and bool(np.abs(made.astype(int) - kept).max() <= 1)


def adam(weights: dict[str, Any], gradients: dict[str, Any], kept: dict[str, Any], step: int, rate: float) -> None:
    """One step in place; `kept` holds the two means of every gradient."""
    for name, gradient in gradients.items():
        first, second = kept.setdefault(name, [np.zeros_like(gradient), np.zeros_like(gradient)])
        first += 0.1 * (gradient - first)
        second += 0.002 * (gradient**2 - second)
        size = rate * np.sqrt(1 - 0.998**step) / (1 - 0.9**step)
        weights[name] -= (size * first / (np.sqrt(second) + 1e-7)).astype(weights[name].dtype)
