"""The Python twin: the steps of a front end on all frames at once, with the operations of the C file in their order, so
that training, emulator and chip see the same codes. Arrays have the frames last: sums run over the axes before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from atonc.delivery.front_end import micro
from atonc.delivery.front_end.pipeline import Codes, Pipeline, load
from atonc.delivery.front_end.tables import Array, Singles, StepTables, tables
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

_AT_ONCE = 256  # frames: their spectra stay in a cache
_ROUNDS = np.float32(12582912.0)
_LOG = (
    -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One step in Python and in C: the function `fe_KEY` of the parts, which works in place or from a buffer to the
    other one."""

    key: str
    wanted: Callable[[Pipeline], bool]
    work: Callable[[Pipeline, StepTables, Array], Array]
    parts: tuple[str, ...]
    in_place: bool = True


def frame(p: Pipeline, t: StepTables, kept: Array) -> Array:
    """`kept`: the sample before each frame, and the frame."""
    samples = kept.astype(np.float32)
    if p.frame.remove_mean:
        mean = kept[1:].sum(0, np.int32).astype(np.float32) / np.float32(p.frame.length)
        samples -= mean
    if p.frame.pre_emphasis:
        if p.frame.pre_emphasis_over == "frame":
            samples[0] = samples[1]
        samples[1:] = samples[1:] - samples[:-1] * t.emphasis
    windowed = np.zeros((p.spectrum.n_fft, kept.shape[1]), np.float32)
    windowed[: p.frame.length] = samples[1:] * t.window[: p.frame.length, None]
    return windowed


def fft(p: Pipeline, t: StepTables, x: Array) -> Array:
    """Stockham passes of four, a last one of four or two."""
    half = p.spectrum.n_fft // 2
    re, im, stride = x[0::2], x[1::2], 1
    while half // stride > 4:
        quarters = (4, half // stride // 4, stride, -1)
        factors = [row[::stride, None, None] for row in t.twiddles]
        parts = _four(*(part.reshape(quarters) for part in (re, im)))
        turned = [parts[0], *(_times(one, *factors[2 * k : 2 * k + 2]) for k, one in enumerate(parts[1:]))]
        re, im = (np.stack([one[k] for one in turned], 1).reshape(half, -1) for k in (0, 1))
        stride *= 4
    shape = (half // stride, stride, -1)
    re, im = re.reshape(shape), im.reshape(shape)
    parts = _four(re, im) if len(re) == 4 else [(re[0] + re[1], im[0] + im[1]), (re[0] - re[1], im[0] - im[1])]
    return np.stack([np.concatenate([one[k] for one in parts]) for k in (0, 1)])


def _four(re: Array, im: Array) -> list[tuple[Array, Array]]:
    sums = [(re[k] + re[k + 2], im[k] + im[k + 2]) for k in (0, 1)]
    (a, b), (c, d) = [(re[k] - re[k + 2], im[k] - im[k + 2]) for k in (0, 1)]
    (e, f), (g, h) = sums
    return [(e + g, f + h), (a + d, b - c), (e - g, f - h), (a - d, b + c)]


def _times(x: tuple[Array, Array], re: Array, im: Array) -> tuple[Array, Array]:
    return x[0] * re - x[1] * im, x[1] * re + x[0] * im


def power(p: Pipeline, t: StepTables, x: Array) -> Array:
    half = p.spectrum.n_fft // 2
    z, y = x[:, : half // 2], np.concatenate([x[:, :1], x[:, : half // 2 : -1]], 1)
    even = z[0] + y[0], z[1] - y[1]
    odd = _times((z[1] + y[1], y[0] - z[0]), t.turns[0][:, None], t.turns[1][:, None])
    low, high = (even[0] + odd[0], even[1] + odd[1]), (even[0] - odd[0], even[1] - odd[1])
    middle = x[:, half // 2] + x[:, half // 2]
    found = np.zeros((half + 5, x.shape[2]), np.float32)
    found[: half // 2] = low[0] * low[0] + low[1] * low[1]
    found[half : half // 2 : -1] = high[0] * high[0] + high[1] * high[1]
    found[half // 2] = middle[0] * middle[0] + middle[1] * middle[1]
    return found


def magnitude(p: Pipeline, t: StepTables, x: Array) -> Array:
    return np.sqrt(x)


def _dot(weights: Singles, values: Array) -> Array:
    """Four sums beside each other, added at the end."""
    total = np.zeros((4, values.shape[1]), np.float32)
    for k in range(0, len(weights), 4):
        total = total + weights[k : k + 4, None] * values[k : k + 4]
    return (total[0] + total[1]) + (total[2] + total[3])


def mel(p: Pipeline, t: StepTables, x: Array) -> Array:
    found, at = np.zeros((p.mel.count + -p.mel.count % 4, x.shape[1]), np.float32), 0
    for m, (start, fours) in enumerate(zip(t.mel_starts.tolist(), t.mel_fours.tolist(), strict=True)):
        found[m] = _dot(t.mel_weights[at : at + 4 * fours], x[start : start + 4 * fours])
        at += 4 * fours
    return found


def scale(p: Pipeline, t: StepTables, x: Array) -> Array:
    return x * t.factor


def log(p: Pipeline, t: StepTables, x: Array) -> Array:
    bits = np.maximum(x + t.guard, t.floor).view(np.int32)
    power_of_two = (bits - np.int32(0x3F3504F3)) >> 23
    f = (bits - (power_of_two << 23)).view(np.float32) + np.float32(-1)
    exponent, square, y = power_of_two.astype(np.float32), f * f, np.full_like(f, np.float32(7.0376836292e-2))
    for factor in _LOG:
        y = y * f + np.float32(factor)
    y = y * f * square
    y = y + exponent * np.float32(-2.12194440e-4)
    y = y + square * np.float32(-0.5)
    return ((f + y) + exponent * np.float32(0.693359375)) * t.log_factor


def dct(p: Pipeline, t: StepTables, x: Array) -> Array:
    return np.stack([_dot(row, x) for row in t.cosines])


def normalise(p: Pipeline, t: StepTables, x: Array) -> Array:
    return (x[: p.features] - t.mean[: p.features, None]) * t.inverse[: p.features, None]


def _floats(p: Pipeline) -> bool:
    return not p.tflm.enabled


STEPS = (
    Step("micro", lambda p: p.tflm.enabled, micro.features, ("micro.c",), False),
    Step("frame", _floats, frame, ("frame.c",), False),
    Step("fft", _floats, fft, ("fft.c",), False),
    Step("power", _floats, power, ("power.c",), False),
    Step("magnitude", lambda p: _floats(p) and p.spectrum.of == "magnitude", magnitude, ("magnitude.c",)),
    Step("mel", lambda p: _floats(p) and p.mel.count > 0, mel, ("dot.h", "mel.c"), False),
    Step("scale", lambda p: _floats(p) and p.mel.count == 0, scale, ("scale.c",)),
    Step("log", lambda p: _floats(p) and p.log.of != "none", log, ("log.c",)),
    Step("dct", lambda p: p.dct.count > 0, dct, ("dot.h", "dct.c"), False),
    Step("normalise", lambda p: bool(p.normalise.mean or p.normalise.deviation), normalise, ("normalise.c",)),
)


def steps_of(p: Pipeline) -> list[Step]:
    return [step for step in STEPS if step.wanted(p)]


@dataclass(frozen=True)
class FrontEnd:
    """A declared front end that computes; call it with samples: codes, frames x features."""

    pipeline: Pipeline

    @cached_property
    def tables(self) -> StepTables:
        return tables(self.pipeline)

    def for_input(self, type: str = "int8", scale: float = 1.0, zero_point: int = 0) -> FrontEnd:
        """The same for the input of a network."""
        return FrontEnd(load(self.pipeline.for_input(Codes(type, float(scale), int(zero_point)))))

    def __call__(self, samples: Any) -> Array:
        return self.codes(self.features(samples))

    def features(self, samples: Any) -> Singles:
        """frames x features, before they are quantised."""
        kept = self._kept(as_samples(samples))
        parts = [self._of_frames(kept[k : k + _AT_ONCE]) for k in range(0, len(kept), _AT_ONCE)]
        if self.pipeline.tflm.enabled:  # noise is estimated from frame to frame
            parts = [self._of_frames(kept)] if len(kept) else []
        return np.concatenate(parts) if parts else np.zeros((0, self.pipeline.features), np.float32)

    def _of_frames(self, kept: Array) -> Singles:
        values = np.ascontiguousarray(kept.T)
        for step in steps_of(self.pipeline):
            values = step.work(self.pipeline, self.tables, values)
        return np.ascontiguousarray(values[: self.pipeline.features].T)

    def _kept(self, samples: Array) -> Array:
        """The frames of a signal, each with the sample before it."""
        p = self.pipeline
        ahead = np.concatenate([np.zeros(max(0, -p.first) + 1, np.int16), samples])[max(0, p.first) :]
        if len(ahead) <= p.frame.length:
            return np.zeros((0, p.frame.length + 1), np.int16)
        return np.lib.stride_tricks.sliding_window_view(ahead, p.frame.length + 1)[:: p.frame.hop]

    def codes(self, features: Array) -> Array:
        p, t = self.pipeline.codes, self.tables
        if p.type == "float32":
            return features
        steps = np.minimum(np.maximum(features * t.steps, t.low), t.high)
        return (((steps + _ROUNDS) - _ROUNDS).astype(np.int32) + np.int32(p.zero_point)).astype(p.type)

    def measured(self, sounds: Iterable[Any]) -> dict[str, list[float]]:
        """`mean` and `deviation` of every feature over some sounds: constants for [normalise]."""
        plain = self.pipeline.for_input(Codes())
        bare = FrontEnd(_without_normalisation(plain))
        found = np.concatenate([bare.features(sound) for sound in sounds]).astype(np.float64)
        if not len(found):
            raise InputError("no frame in these sounds", where="measured", remedy="give longer ones")
        return {"mean": found.mean(0).tolist(), "deviation": np.maximum(found.std(0), 1e-5).tolist()}


def _without_normalisation(p: Pipeline) -> Pipeline:
    from dataclasses import replace

    return replace(p, normalise=type(p.normalise)())


_LARGEST_FLOAT = 2.0  # beyond, they are no floats of a recording that clips but numbers of 16 bits


def as_samples(given: Any) -> Array:
    """16-bit samples of one channel; floats are 1.0 at 32768 and are rounded, as the microphone's samples were."""
    found = np.asarray(given)
    if found.ndim != 1:
        raise InputError(
            f"samples of shape {found.shape}", where="front end", remedy="give one channel: an array of rank 1"
        )
    if found.dtype == np.int16:
        return found
    if found.dtype.kind != "f" or not np.isfinite(found).all():
        raise InputError(
            f"samples of type {found.dtype}, or not all of them numbers", where="front end",
            remedy="give int16, or floats from -1 to 1",
        )  # fmt: skip
    largest = float(np.abs(found).max(initial=0.0))
    if largest > _LARGEST_FLOAT:
        raise InputError(
            f"a sample of {largest:g} among floats", where="front end", rule="floats are from -1 to 1",
            remedy="give integers of 16 bits as int16, or divide them by 32768",
        )  # fmt: skip
    return np.clip(np.rint(found.astype(np.float64) * 32768), -32768, 32767).astype(np.int16)


def front_end(source: str | Path | Mapping[str, Any] | Pipeline) -> FrontEnd:
    """Makes one from a preset, a file `front_end.toml`, or its sections in Python."""
    return FrontEnd(load(source))
