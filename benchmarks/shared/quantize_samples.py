"""Real samples for the float models: some to learn from, some to work with, and others that only judge."""

from __future__ import annotations

import gzip
import wave
from pathlib import Path

import numpy as np

from benchmarks.shared.quantize_models import Model

SAMPLES = 100
TINY, SMALL, LARGE = 2_000, 100_000, 400_000  # values of an input
HELD_TINY, HELD_SMALL, HELD, HELD_LARGE = 500, 128, 32, 16  # so many samples judge
SEEDS = {"learn": 0, "dev": 1, "held": 3}


def pictures(model: Model, folder: Path, shape: tuple[int, ...], count: int, split: str) -> np.ndarray:
    """Random crops of real pictures: three of four files to learn from, every fourth to work with, others held."""
    from PIL import Image

    files = sorted((folder / ("held_pictures" if split == "held" else "pictures")).iterdir())
    if split != "held":
        files = [file for index, file in enumerate(files) if (index % 4 == 3) == (split == "dev")]
    random = np.random.default_rng(SEEDS[split])
    if split == "held":  # in no order: neighbours are of one folder
        files = [files[index] for index in random.permutation(len(files))]
    last = shape[3] in (1, 3)
    height, width = shape[1:3] if last else shape[2:]
    found = []
    for index in range(count):
        with Image.open(files[index % len(files)]) as image:
            image = image.convert("RGB")
            share = random.uniform(0.5, 1.0)
            size = [max(8, int(s * share)) for s in image.size]
            left, top = (int(random.integers(0, max(1, s - c + 1))) for s, c in zip(image.size, size, strict=True))
            crop = image.crop((left, top, left + size[0], top + size[1])).resize((width, height))
        pixels = (np.asarray(crop, np.float32) - np.array(model.mean)) / np.array(model.std)
        found.append(pixels if last else pixels.transpose(2, 0, 1))
    return np.stack(found).astype(np.float32)[:, None]


def speech(folder: Path, count: int, split: str) -> np.ndarray:
    """MFCC of one-second windows of recorded speech, every quarter second; other splits begin in between."""
    return np.stack([_mfcc(part) for part in _windows(folder, count, split)]).astype(np.float32)[:, None, :, :, None]


def sound(folder: Path, count: int, split: str) -> np.ndarray:
    """64 log-mel bands of 96 frames of the same windows: what YAMNet takes."""
    bands = [np.log(_mel(part, 400, 160, 96, (64, 125.0, 7500.0)) + 1e-3).T for part in _windows(folder, count, split)]
    return np.stack(bands).astype(np.float32)[:, None, None]


def _windows(folder: Path, count: int, split: str) -> list[np.ndarray]:
    with wave.open(str(folder / ("kws_10s.wav"))) as file:
        heard = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float64) / 32768
    random, offset = np.random.default_rng(10 + SEEDS[split]), {"learn": 0, "dev": 2000, "held": 3000}[split]
    found = []
    for index in range(count):
        start = int((index % 36) * 4000 + offset + random.integers(0, 500))
        part = heard[start : start + 16000] * random.uniform(0.3, 2.0)
        found.append(np.pad(part, (0, max(0, 16000 - len(part)))) + random.normal(0, 1e-4, 16000))
    return found


def _mfcc(part: np.ndarray) -> np.ndarray:
    """49 frames of 30 ms every 20 ms, 40 mel bands from 20 to 4000 Hz, 10 cepstral values."""
    bands = np.log(_mel(part, 480, 320, 49, (40, 20.0, 4000.0)) + 1e-6)
    return bands @ (np.cos(np.pi * np.arange(10)[:, None] * (np.arange(40) + 0.5) / 40) * np.sqrt(2 / 40)).T


def _mel(part: np.ndarray, length: int, step: int, frames: int, bands: tuple[int, float, float]) -> np.ndarray:
    """Frames x bands of a second of sound; bands: how many, from and to which frequency."""
    count, low, high = bands
    cut = np.stack([part[i * step : i * step + length] for i in range(frames)]) * np.hanning(length)
    power = np.abs(np.fft.rfft(cut, 512))
    edges = 700 * (np.exp(np.linspace(*(1127 * np.log(1 + np.array([low, high]) / 700)), count + 2) / 1127) - 1)
    bins = np.arange(257) * 16000 / 512
    up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return power @ np.clip(np.minimum(up, down), 0, None).T


def digits(model: Model, folder: Path, shape: tuple[int, ...], count: int, split: str) -> np.ndarray:
    """The 10,000 digits that MNIST tests with: learnt from among the first 6,000, held are of the last 2,000."""
    stored = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    first, last = {"learn": (0, 6000), "dev": (6000, 8000), "held": (8000, 10000)}[split]
    pixels = np.frombuffer(stored, np.uint8, offset=16).reshape(-1, 28, 28)[first:last]
    some = np.random.default_rng(30 + SEEDS[split]).permutation(last - first)[:count]
    return ((pixels[some] - model.mean) / model.std).astype(np.float32).reshape(count, *shape)


def gestures(folder: Path, count: int, split: str) -> np.ndarray:
    """Recorded gestures of 119 rows, scaled as in training: the 100 to learn from are those that were trained with.

    The 25 held ones are those that were not; they come several times, each time some rows later. Those to work with
    begin in the middle of one and end in the middle of the next.
    """
    found = []
    for file in sorted((folder / "magic_wand" / ("test" if split == "held" else "train")).glob("*.csv")):
        rows = np.genfromtxt(file, delimiter=",", skip_header=1)
        rows = rows / np.repeat([8.0, 4000.0], 3) + 0.5  # 4 g and 2000 degrees a second at most
        starts = {"learn": [0], "dev": range(40, 80, 8), "held": range(0, 40, 2)}[split]
        found += [rows[begin : begin + 119] for late in starts for begin in range(late, len(rows) - 118, 119)]
    some = np.random.default_rng(40 + SEEDS[split]).permutation(len(found))[:count]
    return np.stack([found[index] for index in some]).astype(np.float32)[:, None]


def machine(folder: Path, count: int, split: str) -> np.ndarray:
    """The 40 published feature vectors, mixed in pairs at random with 2 % noise; other splits mix the last ten."""
    rows = np.fromfile(folder / "ad01_hist.bin", np.float32).reshape(-1, 640)
    rows = rows[:30] if split == "learn" else rows[30:]
    random = np.random.default_rng(20 + SEEDS[split])
    one, two = (rows[random.integers(0, len(rows), count)] for _ in range(2))
    share = random.uniform(0, 1, (count, 1))
    mixed = share * one + (1 - share) * two
    return (mixed + random.normal(0, 0.02 * np.abs(mixed).mean(), mixed.shape)).astype(np.float32)[:, None]


def samples(model: Model, folder: Path, shape: tuple[int, ...], split: str) -> np.ndarray:
    values = int(np.prod(shape))
    sizes = {TINY: HELD_TINY, SMALL: HELD_SMALL, LARGE: HELD}
    judging = next((held for most, held in sizes.items() if values < most), HELD_LARGE)
    count = SAMPLES if split == "learn" else judging
    if model.data in ("pictures", "digits"):
        return (pictures if model.data == "pictures" else digits)(model, folder, shape, count, split)
    made = {"speech": speech, "sound": sound, "machine": machine, "gestures": gestures}[model.data]
    return made(folder, count, split)
