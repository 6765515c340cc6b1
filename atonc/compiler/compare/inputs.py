"""Deterministic inputs that look like nature: pictures with light, things, a person and texture; spectrograms. Beside
them noise, and inputs that drive sums towards their extremes.

Random noise is a poor judge: it drives first layers into saturation, and the outputs of a detector that sees nothing
are nothing but rounding errors. Detectors and pose models answer to a simple person of soft-edged limbs.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops import is_move
from atonc.compiler.ops.values import Real
from atonc.machine.base.frozen import dataclass

Point = tuple[float, float]  # (down, right) in units of the body height, from the top of the head

SOFTNESS = 0.003  # of the picture's height
UNSEEN = 40.0  # times the softness away from a limb, float64 cannot tell the picture from one without the limb


@dataclass(frozen=True)
class Limb:
    """A line with round ends."""

    start: Point
    end: Point
    radius: float
    colour: str


def body(rng: np.random.Generator) -> list[Limb]:
    """Back to front. Arms and legs swing a little."""
    swing = rng.uniform(-0.05, 0.05, 6)
    limbs = []
    for side, (knee, foot, elbow) in ((-1, swing[:3]), (1, swing[3:])):
        limbs += [
            Limb((0.52, side * 0.07), (0.75, side * 0.085 + knee), 0.050, "trousers"),
            Limb((0.75, side * 0.085 + knee), (0.97, side * 0.09 + foot), 0.040, "trousers"),
            Limb((0.97, side * 0.09 + foot), (0.98, side * 0.13 + foot), 0.025, "shoes"),
            Limb((0.22, side * 0.12), (0.38, side * 0.20 + elbow), 0.035, "shirt"),
            Limb((0.38, side * 0.20 + elbow), (0.53, side * 0.215 + elbow), 0.028, "skin"),
        ]
    limbs += [
        Limb((0.12, 0.0), (0.18, 0.0), 0.035, "skin"),
        Limb((0.22, 0.0), (0.50, 0.0), 0.110, "shirt"),
        Limb((0.04, 0.0), (0.065, 0.0), 0.075, "hair"),
        Limb((0.07, 0.0), (0.095, 0.0), 0.060, "skin"),
        Limb((0.08, 0.0), (0.098, 0.0), 0.006, "shadow"),
        Limb((0.12, -0.015), (0.12, 0.015), 0.006, "lips"),
    ]
    for side in (-1, 1):
        limbs.append(Limb((0.07, side * 0.025), (0.07, side * 0.022), 0.008, "eyes"))
        limbs.append(Limb((0.055, side * 0.034), (0.055, side * 0.018), 0.004, "hair"))
    return limbs


def colours(rng: np.random.Generator) -> dict[str, Real]:
    skin = np.array([0.82, 0.62, 0.50]) * rng.uniform(0.6, 1.1)
    return {
        "skin": skin,
        "shadow": skin * 0.8,
        "lips": skin * np.array([0.8, 0.5, 0.55]),
        "hair": np.array([0.20, 0.13, 0.08]) * rng.uniform(0.5, 1.5),
        "eyes": np.array([0.08, 0.06, 0.05]),
        "shirt": rng.uniform(0.1, 0.9, 3),
        "trousers": rng.uniform(0.05, 0.5, 3),
        "shoes": np.array([0.1, 0.08, 0.07]),
    }


def draw_person(picture: Real, rng: np.random.Generator, centre: float, top: float, size: float) -> Real:
    """The picture [height, width, 3] with a person; positions and size are fractions of width and height."""
    height, width, _ = picture.shape
    y = ((np.arange(height) + 0.5) / height - top)[:, None] / size
    x = ((np.arange(width) + 0.5) / width - centre)[None, :] / size * (width / height)
    paint = colours(rng)
    light = 1.0 + 0.25 * np.clip(x / 0.2, -1.0, 1.0)[..., None]
    picture = picture.copy()
    for limb in body(rng):
        rows, columns = _near(limb, y, x, UNSEEN * SOFTNESS / size)
        mask = _coverage(limb, y[rows], x[:, columns], SOFTNESS / size)[..., None]
        part = picture[rows, columns]
        part *= 1.0 - mask
        part += mask * np.clip(paint[limb.colour] * light[:, columns], 0.0, 1.0)
    return picture


def _near(limb: Limb, y: Real, x: Real, margin: float) -> tuple[slice, slice]:
    """The rows and columns that are no further than `margin` from the limb."""
    ends = zip((y.ravel(), x.ravel()), limb.start, limb.end, strict=True)
    reach = margin + limb.radius
    found = [np.searchsorted(places, (min(a, b) - reach, max(a, b) + reach)) for places, a, b in ends]
    return slice(*map(int, found[0])), slice(*map(int, found[1]))


def _coverage(limb: Limb, y: Real, x: Real, softness: float) -> Real:
    """1 inside, 0 outside, soft in between."""
    (y0, x0), (y1, x1) = limb.start, limb.end
    dy, dx = y1 - y0, x1 - x0
    along = np.clip(((y - y0) * dy + (x - x0) * dx) / (dy * dy + dx * dx), 0.0, 1.0)
    outside = np.hypot(y - y0 - along * dy, x - x0 - along * dx) - limb.radius
    return 1.0 / (1.0 + np.exp(np.clip(outside / softness, -50.0, 50.0)))


_NEXT_ALIKE = 7919  # between the seeds of inputs of one shape: were they equal, nobody would see them exchanged
CODES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}  # formats of activations
KINDS = ("auto", "photo", "portrait", "audio")


@dataclass(frozen=True)
class NaturalInput:
    """What has to be known of an input to make a value for it; float ones get values between the limits."""

    shape: tuple[int, ...]
    dtype: str
    layout: str = "NHWC"
    limits: tuple[float, float] = (0.0, 1.0)
    codes: tuple[int, int] | None = None  # None: all that the format has


def make_inputs(graph: Graph, seed: int = 0, kind: str = "auto") -> dict[str, Array]:
    """One natural-looking value per graph input, in the input's own number format; states as in the first run."""
    layout = "NCHW" if graph.source == "onnx" else "NHWC"
    made = {state.input: state.first for state in graph.states}
    names = [name for name in graph.inputs if name not in made]
    wanted = [_natural(graph.tensors[name], layout, float_range(graph, name)) for name in names]
    made |= dict(zip(names, make_values(wanted, seed, kind), strict=True))
    return {name: made[name] for name in graph.inputs}


def make_values(inputs: Sequence[NaturalInput], seed: int, kind: str = "auto") -> list[Array]:
    """What a seed means, for all inputs of a network."""
    alike: Counter[tuple[int, ...]] = Counter()
    found = []
    for one in inputs:
        found.append(_make(one, seed + _NEXT_ALIKE * alike[one.shape], kind))
        alike[one.shape] += 1
    return found


def make_noise(like: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Every value at random, over all codes of its format or the range of a natural input."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, v in like.items():
        low, high = CODES.get(str(v.dtype)) or (float(v.min()), float(v.max())) if v.size else (0.0, 0.0)
        found[name] = rng.uniform(low, high, size=v.shape).astype(v.dtype)
    return found


def make_input(
    tensor: Tensor, seed: int = 0, layout: str = "NHWC", kind: str = "auto", limits: tuple[float, float] = (0.0, 1.0)
) -> Array:
    """Values spread over all codes of the input; float inputs get `limits`."""
    return _make(_natural(tensor, layout, limits), seed, kind)


def _natural(tensor: Tensor, layout: str, limits: tuple[float, float]) -> NaturalInput:
    codes = tensor.code_range if tensor.dtype in CODES else None
    return NaturalInput(tensor.shape, tensor.dtype, layout, limits, codes)


def _make(wanted: NaturalInput, seed: int, kind: str) -> Array:
    unit = unit_values(wanted.shape, seed, wanted.layout, kind)
    dtype = np.dtype(wanted.dtype)
    if dtype.kind == "f":
        low, high = wanted.limits
        return (low + unit * (high - low)).astype(dtype)
    low_code, high_code = wanted.codes or CODES.get(wanted.dtype, (0, 255))
    codes = np.floor(low_code + unit * (high_code - low_code + 1))
    return np.clip(codes, low_code, high_code).astype(dtype)


def float_range(graph: Graph, name: str) -> tuple[float, float]:
    """The range of the format that a float input is quantised to, 0..1 if it is not."""
    for _ in range(8):
        readers = graph.consumers.get(name, [])
        if not readers:
            break
        target = graph.tensors[readers[0].outputs[0]]
        if readers[0].kind == "quantize" and target.quant is not None and target.dtype in CODES:
            low, high = target.code_range
            return (low - target.zero_point) * target.scale, (high - target.zero_point) * target.scale
        if not is_move(readers[0].kind) or target.quant is not None:
            break
        name = target.name
    return 0.0, 1.0


_KEEPING = ("cast", "reshape", "transpose")  # every value of what they get


def table_rows(graph: Graph) -> dict[str, int]:
    """How many rows the table has, for inputs that are indices of one. Our kernels keep all others inside."""
    found: dict[str, int] = {}
    for op in graph.ops:
        if op.kind == "gather":
            name, rows = op.inputs[1], graph.tensors[op.inputs[0]].shape[op.attrs["axis"]]
            while (maker := graph.producers.get(name)) is not None and maker.kind in _KEEPING:
                name = maker.inputs[0]
            if name in graph.frame_inputs:
                found[name] = min(rows, found.get(name, rows))
    return found


def unit_values(shape: tuple[int, ...], seed: int, layout: str, kind: str = "auto") -> Real:
    """Values in 0..1. One channel with unequal sides is taken for a spectrogram, other 4-D shapes for pictures."""
    rng = np.random.default_rng([seed, zlib.crc32(repr(shape).encode())])
    if len(shape) != 4:
        return _walk(rng, shape)
    first = layout == "NCHW" or (shape[1] in (1, 3) and shape[3] not in (1, 3))  # some TFLite inputs are planar
    first = first and not (shape[3] in (1, 3) and shape[1] not in (1, 3))
    height, width, channels = (shape[2], shape[3], shape[1]) if first else shape[1:]
    if kind == "auto":
        kind = "audio" if channels == 1 and height != width else "photo"
    pictures = np.stack([picture(kind, height, width, channels, rng) for _ in range(shape[0])])
    return np.moveaxis(pictures, -1, 1) if first else pictures


def picture(kind: str, height: int, width: int, channels: int, rng: np.random.Generator) -> Real:
    """[height, width, channels]; more or fewer channels than three are mixtures of red, green and blue."""
    if kind == "audio":
        return spectrogram(height, width, channels, rng)
    colour = scene(height, width, rng, portrait=kind == "portrait")
    if channels == 3:
        return colour
    mix = rng.dirichlet([4.0, 4.0, 4.0], channels) if channels > 1 else np.array([[0.30, 0.59, 0.11]])
    return colour @ mix.T


def scene(height: int, width: int, rng: np.random.Generator, portrait: bool = False) -> Real:
    """A person in front of a lit background with soft things in it; a portrait shows the face."""
    size = rng.uniform(3.6, 4.2) if portrait else rng.uniform(0.80, 0.88)
    top = rng.uniform(0.08, 0.12) if portrait else rng.uniform(0.05, 0.10)
    colour = draw_person(background(height, width, rng), rng, rng.uniform(0.42, 0.58), top, size)
    return np.clip(colour + 0.015 * texture(height, width, rng)[..., None], 0.0, 1.0)


def background(height: int, width: int, rng: np.random.Generator) -> Real:
    y, x = (np.arange(height) + 0.5)[:, None] / height, (np.arange(width) + 0.5)[None, :] / width
    grey = 0.5 + rng.uniform(-0.3, 0.3) * (x - 0.5) + rng.uniform(-0.3, 0.3) * (y - 0.5)
    grey = grey + 0.07 * texture(height, width, rng)
    colour = grey * rng.uniform(0.75, 1.1, 3)[:, None, None]  # planes: many times quicker than pixels of three numbers
    for _ in range(7):
        mask = 0.7 * _blob(y - rng.uniform(0, 1), x - rng.uniform(0, 1), rng)
        colour *= 1.0 - mask
        colour += mask * rng.uniform(0.1, 0.9) * rng.uniform(0.6, 1.1, 3)[:, None, None]
    return np.moveaxis(np.clip(colour, 0.0, 1.0), 0, -1)


def spectrogram(height: int, width: int, channels: int, rng: np.random.Generator) -> Real:
    """Harmonic tones that start and stop, over a noise floor that falls with frequency; time runs along width."""
    frequency, time = (np.arange(height) + 0.5)[:, None] / height, (np.arange(width) + 0.5)[None, :] / width
    values = 0.35 - 0.2 * frequency + 0.08 * texture(height, width, rng)
    for _ in range(4):
        base, start, stop, slope = rng.uniform(0.05, 0.2), rng.uniform(0, 0.6), rng.uniform(0.5, 1), rng.normal(0, 0.05)
        envelope = 1 / (1 + np.exp(-(time - start) * 60)) / (1 + np.exp((time - stop) * 20))
        for harmonic in range(1, 6):
            line = np.exp(-(((frequency - harmonic * (base + slope * time)) * height / 1.5) ** 2))
            values = values + 0.5 / harmonic * envelope * line
    return np.clip(np.repeat(values[:, :, None], channels, axis=2), 0.0, 1.0)


def texture(height: int, width: int, rng: np.random.Generator) -> Real:
    """Noise with the falling spectrum of natural scenes, mean 0, deviation 1."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = np.inf
    noise = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((height, width))) / frequency**1.3, s=(height, width))
    deviation = float(noise.std())
    return noise / deviation if deviation else noise


def _blob(dy: Real, dx: Real, rng: np.random.Generator) -> Real:
    """A soft-edged ellipse."""
    (ry, rx), angle = rng.uniform(0.05, 0.3, 2), rng.uniform(0, np.pi)
    u, v = dx * np.cos(angle) + dy * np.sin(angle), dy * np.cos(angle) - dx * np.sin(angle)
    u /= rx
    v /= ry
    far: Real = np.hypot(u, v, out=u)
    far -= 1.0
    far *= 12.0
    np.exp(np.clip(far, -60, 60, out=far), out=far)
    far += 1.0
    return np.divide(1.0, far, out=far)


def _walk(rng: np.random.Generator, shape: tuple[int, ...]) -> Real:
    """Anything else: a smooth random walk along the last axis, scaled to 0..1."""
    steps = rng.standard_normal(shape or (1,)).cumsum(axis=-1) + rng.standard_normal(shape or (1,))
    low, high = float(steps.min(initial=0)), float(steps.max(initial=0))
    return ((steps - low) / (high - low or 1.0)).reshape(shape)


STEPS = 8  # operators between an input and the weights that are looked for
BANDED_ROWS = 8  # of a picture with bands
RANKED = 4  # the channels with the largest weights, of which the seed takes one
_BETWEEN = ("quantize", "uint8_to_int8", "identity", "requantize")

Signs = NDArray[np.bool_]  # True: the upper end


def make_extremes(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """One value per graph input, in its own number format; states as in the first run."""
    states = {state.input for state in graph.states}
    found = {}
    for tensor in (graph.tensors[name] for name in graph.inputs if name not in states):
        if (tensor.is_float or tensor.dtype in CODES) and tensor.elements > 0:
            low, high = float_range(graph, tensor.name) if tensor.is_float else tensor.code_range
            found[tensor.name] = np.where(_signs(graph, tensor, seed), high, low).astype(tensor.dtype)
    natural = make_inputs(graph, seed) if len(found) < len(graph.inputs) else {}  # a picture takes its time
    return {name: found[name] if name in found else natural[name] for name in graph.inputs}


def _signs(graph: Graph, tensor: Tensor, seed: int) -> Signs:
    rng = np.random.default_rng(seed)
    up = _upwards(tensor.shape, _weights(graph, tensor.name), seed)
    chance = rng.random(tensor.shape) < 0.5
    if up is None:
        return chance
    rows = next((axis for axis in (1, 2) if len(tensor.shape) == 4 and tensor.shape[axis] >= BANDED_ROWS), 0)
    if not rows:
        return up
    parts = np.array_split(np.arange(tensor.shape[rows]), 4)
    kinds = up, ~up, np.ones_like(up), chance
    return np.concatenate([np.take(k, part, axis=rows) for k, part in zip(kinds, parts, strict=True)], axis=rows)


def _weights(graph: Graph, name: str) -> NDArray[np.float64] | None:
    """[outputs, rows, columns, channels] of the first layer that sums an input, without their zero point."""
    for _ in range(STEPS):
        readers = graph.consumers.get(name, [])
        if not readers:
            return None
        if readers[0].kind in ("conv", "dense") and readers[0].inputs[0] == name:
            return _centred(graph, readers[0])
        if not (is_move(readers[0].kind) or readers[0].kind in _BETWEEN):
            return None
        name = readers[0].outputs[0]
    return None


def _centred(graph: Graph, op: Op) -> NDArray[np.float64] | None:
    weights = graph.tensors[op.inputs[1]]
    if weights.data is None:
        return None
    rows = weights.data.astype(np.float64).reshape(weights.shape[0], -1)
    zero = 0 if weights.quant is None else weights.quant.zero_points.reshape(-1, 1)
    return np.asarray((rows - zero).reshape(weights.shape))


def _upwards(shape: tuple[int, ...], weights: NDArray[np.float64] | None, seed: int) -> Signs | None:
    """Upper ends where weights of one output channel are above zero."""
    if weights is None:
        return None
    largest = np.argsort(-np.abs(weights).sum(axis=tuple(range(1, weights.ndim))), kind="stable")
    one = weights[largest[seed % min(RANKED, len(largest))]]
    elements = int(np.prod(shape))
    if one.size and elements % one.size == 0 and weights.ndim == 2:
        return np.asarray(np.tile(one.reshape(-1) > 0, elements // one.size).reshape(shape))
    channels = one.sum(axis=tuple(range(one.ndim - 1))) > 0  # all taps of a channel together
    for axis in (-1, 1):
        if len(shape) > 1 and shape[axis] == channels.size:
            sides = [1] * len(shape)
            sides[axis] = channels.size
            return np.asarray(np.broadcast_to(channels.reshape(sides), shape))
    return np.full(shape, bool(one.sum() > 0))
