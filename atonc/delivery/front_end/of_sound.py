"""The sound operators of an ONNX model in front of its first quantisation as a declared front end: a transform of
windows, power or magnitude, mel filters, a logarithm, numbers for each feature. What the operators do is asked of them
with made values; then the Python twin must give their codes, or it is refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.frontends.limits import model_bytes
from atonc.compiler.frontends.onnx_qdq import parse
from atonc.compiler.frontends.onnx_sound import SoundHead, computed, is_sound, refused
from atonc.delivery.front_end.declare import CODE_TYPES, Codes
from atonc.delivery.front_end.own import MOST_STEP, OwnFrontEnd
from atonc.delivery.front_end.pipeline import (
    LOGS,
    PAGE,
    WINDOWS,
    Framing,
    Log,
    Mel,
    Normalise,
    Pipeline,
    Spectrum,
    load,
)
from atonc.delivery.front_end.tables import Array, mel_weights, window
from atonc.delivery.front_end.twin import FrontEnd
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count

RATES = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000)
STEPS_OF_EDGES = (10, 50)  # Hz of fmin, of fmax, as people choose them
SAME_TABLE, SAME_VALUE = 1e-3, 1e-4  # of the largest weight; of a number
UNIT = 2.0**-15
LARGE, LARGER = 1e12, 1e18  # values beside which a guard is nothing


def sound_model(path: Path) -> Any:
    """The ONNX model with a transform of sound, or None."""
    if path.suffix.lower() != ".onnx":
        return None
    model = parse(model_bytes(path), path.stem)
    return model if is_sound(model) else None


def found_in_sound(model: Any, name: str) -> OwnFrontEnd:
    """UnsupportedError where its first operators are no front end."""
    head = SoundHead.of(model, name)
    with computed(name):
        return _found(head)


def _found(head: SoundHead) -> OwnFrontEnd:
    name = head.name
    product, weights = _product(head)
    factor, frame, n_fft = _framing(head)
    of, turned = _spectrum(head, product, weights)
    log, numbers = _behind(head, product, weights.shape[1], turned)
    spectrum = Spectrum(n_fft, of, "integer" if (factor == 1 and head.type == "int16") or factor > 1 else "unit")
    codes = Codes(head.output.dtype.name, head.scale, int(head.output))
    if codes.type not in CODE_TYPES:
        raise refused(f"codes of {codes.type}", name, f"codes are {', '.join(CODE_TYPES)}", "quantise to int8")
    base = Pipeline("model", frame=frame, spectrum=spectrum, log=log, normalise=numbers, codes=codes)
    rate, mel = _mel(head, base, weights)
    try:
        pipeline = load(replace(base, rate=rate, mel=mel))
    except InputError as error:
        raise refused(error.what, f"{name}, {error.where}", error.rule or PAGE, error.remedy) from None
    own = _compared(head, pipeline, factor)
    if own.worst > MOST_STEP:
        raise refused(
            f"a declared front end would be {count(own.worst, 'code')} from the model's operators", name,
            f"{MOST_STEP} code is let pass; steps that depend on the whole sound have no place in a stream",
        )  # fmt: skip
    return own


def _product(head: SoundHead) -> tuple[Any, Array]:
    """The filter bank: its node, and its weights, bins x filters."""
    moving, log = head.moving, [node for node in head.nodes if node.op_type == "Log"]
    found = [node for node in head.nodes if node.op_type == "MatMul" and not moving.isdisjoint(node.output)]
    if len(found) != 1 or len(log) != 1:
        raise refused(
            f"{count(len(found), 'product')} and {count(len(log), 'logarithm')} in front of the first quantisation",
            head.name, "one product with mel filters and one logarithm are looked for: without filters nothing says "
            "the rate of the samples", "declare it: [mel] count = 0, or [dct] count; and quantise behind the logarithm",
        )  # fmt: skip
    node = found[0]
    fixed = [head.fixed[name] for name in node.input if name in head.fixed]
    if len(fixed) != 1 or fixed[0].ndim != 2:
        raise head.no_part(node, "mel filters are a constant of two axes")
    return node, fixed[0] if node.input[1] in head.fixed else fixed[0].T


def _framing(head: SoundHead) -> tuple[float, Framing, int]:
    """What 1.0 is multiplied by, the frames and the length of the transform: from ones, which give the window, and from
    samples that tell their places."""
    size = int(np.prod(head.shape))
    places = np.arange(size)
    ones, low, high = (head.framed(one.astype(head.type)) for one in (places * 0 + 1, places & 127, places >> 7))
    shaped, n_fft = ones[0], 2 * (head.transformed(np.zeros(size, head.type)).shape[-2] - 1)
    heard = np.flatnonzero(np.abs(shaped) > 1e-6 * np.abs(shaped).max(initial=0))
    if not heard.size or not np.allclose(ones, shaped) or shaped.size > n_fft:
        raise refused("the frames have different windows", head.name, "each frame has the same window")
    k = heard[heard.size // 2]
    starts = np.rint((low[:, k] + 128.0 * high[:, k]) / shaped[k]).astype(int) - int(k)
    hop = int(starts[1] - starts[0]) if len(starts) > 1 else head.step
    if hop <= 0:
        raise refused("one frame, and nothing that says where the next one begins", head.name, "frames have a hop",
                      "export it for a window of several frames, or with STFT")  # fmt: skip
    for factor in (1.0, UNIT, 1 / UNIT):
        for name in WINDOWS:
            for ahead, behind in ((0, 0), (1, 0), (1, 1)):  # zeros that belong to the window
                first = max(0, int(heard[0]) - ahead)
                frame = Framing(
                    min(int(heard[-1]) + 1 + behind, shaped.size) - first, hop, int(starts[0]) + first, name
                )
                table = window(Pipeline(frame=frame)) * factor if frame.length > 1 else np.zeros(1)
                inside = shaped[first : first + frame.length]
                if np.abs(inside - table).max() < SAME_VALUE * factor:
                    return factor, frame, n_fft
    raise refused(
        "the window of the transform has no name", head.name, f"{', '.join(WINDOWS)}; samples as they are, or times or "
        "by 32768", "take one of these windows; leave out what changes samples, and declare it ([frame])",
    )  # fmt: skip


def _spectrum(head: SoundHead, product: Any, weights: Array) -> tuple[str, bool]:
    """Power or magnitude, and whether the product has the frames last."""
    turned = product.input[0] in head.fixed
    values = np.random.default_rng(0).normal(size=head.transformed(np.zeros(head.shape, head.type)).shape)
    power = (values**2).sum(-1).reshape(-1, values.shape[-2])
    [found] = head.run({head.transform.output[0]: values.astype(np.float32)}, [product.input[turned]])
    for name, wanted in (("power", power), ("magnitude", np.sqrt(power))):
        wanted = wanted.T if turned else wanted
        same = found.size == wanted.size and found.shape[-2:] == wanted.shape and weights.shape[0] == values.shape[-2]
        if same and np.allclose(found.reshape(wanted.shape), wanted, 1e-4, 1e-6):
            return name, turned
    raise refused(
        "the filters do not read power or magnitude", head.name, "the sum of the squares of both parts, or its root, "
        "frames x bins", "leave out what else stands between transform and filters",
    )  # fmt: skip


def _behind(head: SoundHead, product: Any, features: int, turned: bool) -> tuple[Log, Normalise]:
    """ln(max(x + guard, floor)) * gain + offset: gain and offset from values far above the guard, the guard from 0."""
    spectrum = head.transformed(np.zeros(head.shape, head.type))
    [made] = head.run({head.transform.output[0]: spectrum}, product.output[:1])

    def reals(values: Array | float) -> Array:
        given = np.broadcast_to(np.float32(values), made.shape).astype(np.float32)
        with np.errstate(divide="ignore"):
            return head.run({product.output[0]: given}, head.quantize.input[:1])[0].astype(np.float64)

    frames, large, larger = made.size // features, reals(LARGE), reals(LARGER)
    if large.size != made.size or not (np.isfinite(larger) & (larger > large)).all():
        raise refused("what is quantised does not grow with its value", head.name, "a logarithm, then numbers")
    one = np.full((frames, features), LARGE)
    one[0] = LARGER
    moved = np.flatnonzero(reals((one.T if turned else one).reshape(made.shape)) != large)
    inside = frames > 1 and np.array_equal(moved, np.arange(features) * frames)  # frames are the last axis
    if not (inside or np.array_equal(moved, np.arange(features))):
        raise refused("features are mixed behind their logarithm", head.name, "numbers for each feature")
    if frames == features or large.shape[-1] not in ((frames,) if inside else (features, made.size)):
        shape = "x".join(map(str, large.shape))
        raise refused(f"{frames} frames of {features} features in {shape}", head.name,
                      "the order of two axes is told by their sizes", "another number of frames")  # fmt: skip

    def each(values: Array) -> Array:
        """Frames have the same numbers."""
        rows: Array = values.reshape(features, frames).T if inside else values.reshape(frames, features)
        if not np.allclose(rows, rows[0], equal_nan=True):
            raise refused("frames have different numbers", head.name, "numbers for each feature, the same at any time")
        return rows[0]

    gain = each(larger - large) / np.log(LARGER / LARGE)
    offset = each(large) - gain * np.log(LARGE)

    def inside_log(value: float) -> float:
        return float(np.exp((each(reals(value))[0] - offset[0]) / gain[0]))

    silent = _written(head, inside_log(0.0))
    guarded = inside_log(silent) > 1.5 * silent
    guard, floor = (silent, 0.0) if guarded else (0.0, silent)
    for value in 2.0 ** np.arange(-60, 40, 2):
        wanted = gain * np.log(max(value + guard, floor)) + offset
        if not np.abs(each(reals(value)) - wanted).max() <= MOST_STEP * head.scale:
            raise refused(
                f"{value:.3g} of a filter becomes something else than log(max(x + {guard:.3g}, {floor:.3g}))",
                head.name, "one guard or one floor, then numbers that are not cut",
            )  # fmt: skip
    of = next((name for name, one in LOGS.items() if name != "none" and np.allclose(gain, one, 1e-5, 0)), "ln")
    unit, same = LOGS[of], np.allclose(gain, LOGS[of], 1e-5, 0)
    deviation = () if same else _few(unit / gain)
    mean = () if np.abs(offset).max() < SAME_VALUE else _few(-offset * (1.0 if same else unit / gain))
    return Log(of, guard, floor), Normalise(mean=mean, deviation=deviation)


def _few(values: Array) -> tuple[float, ...]:
    """One number where they are all the same."""
    kept = values[:1] if np.allclose(values, values[0], 1e-6, 1e-6) else values
    return tuple(map(_short, kept))


def _short(value: float) -> float:
    """The shortest decimal number that is the same in single precision."""
    return float(str(np.float32(value)))


def _written(head: SoundHead, value: float) -> float:
    """The constant that it was, where one is as near."""
    constants = (float(one.reshape(-1)[0]) for one in head.fixed.values() if one.size == 1 and one.dtype.kind == "f")
    return _short(min((one for one in constants if abs(one - value) < 1e-3 * value), default=value))


def _mel(head: SoundHead, base: Pipeline, weights: Array) -> tuple[int, Mel]:
    """The filters by name: of all usual rates, scales and edges those whose weights are the nearest."""
    filters, largest = weights.shape[1], float(np.abs(weights).max(initial=0))
    best, found = SAME_TABLE * largest, None
    if weights.shape[0] == base.bins and largest > 0:
        for rate, mel in _filters(weights, base.spectrum.n_fft, head):
            with np.errstate(divide="ignore", invalid="ignore"):
                made = mel_weights(replace(base, rate=rate, mel=replace(mel, count=filters)))
            apart = float(np.abs(made.T - weights).max())
            if apart < best:
                best, found = apart, (rate, replace(mel, count=filters))
    if found is None:
        rates = ", ".join(map(str, RATES))
        raise refused(
            f"the {count(filters, 'filter')} have no name", head.name,
            f"mel filters: slaney or htk, at {rates} Hz, "
            "fmin in tens and fmax in fifties of Hz", "declare the nearest ones ([mel]) and train with them",
        )  # fmt: skip
    return found


def _filters(weights: Array, n_fft: int, head: SoundHead) -> Iterator[tuple[int, Mel]]:
    """Candidates: their edges lie where the weights begin and end."""
    for node in head.nodes:
        if node.op_type == "MelWeightMatrix":
            rate, low, high = (_short(head.fixed[name].reshape(-1)[0]) for name in node.input[2:5])
            yield int(rate), Mel(0, "htk", "none", low, high, "bins")
            return
    heard = np.flatnonzero(np.abs(weights).max(1) > 0)
    for rate in RATES:
        width, (step, wide) = rate / n_fft, STEPS_OF_EDGES
        lows = np.arange(max(0, np.ceil((heard[0] - 1) * width / step)) * step, heard[0] * width + 1, step)
        highs = np.arange(np.ceil(heard[-1] * width / wide) * wide, min((heard[-1] + 1) * width + 1, rate / 2), wide)
        for low in lows:
            for high in (*highs, *((0.0,) if heard[-1] >= n_fft // 2 - 1 else ())):
                for scale in ("htk", "slaney"):
                    for norm in ("none", "slaney"):
                        for sides in ("hertz", "mel"):
                            yield rate, Mel(0, scale, norm, float(low), float(high), sides)


def _compared(head: SoundHead, pipeline: Pipeline, factor: float) -> OwnFrontEnd:
    """The codes, and what they would be without an end: codes that are all at one end would tell nothing."""
    twin, real, codes = FrontEnd(pipeline), FrontEnd(load(pipeline.for_input(Codes()))), pipeline.codes
    low, high = CODE_TYPES[codes.type]
    total = differ = worst = 0
    for samples in made_sounds(int(np.prod(head.shape))):
        given = samples.astype(head.type)
        if head.type == "float32" and factor >= 1:
            given *= np.float32(UNIT)
        theirs, ours, reals = head.reals(given).astype(np.float64), twin(samples), real(samples)
        frames = theirs.size // pipeline.features
        if frames > len(ours):
            made = f"the model makes {frames} frames, of which {len(ours)} lie inside the samples"
            raise refused(made, head.name, "frames begin and end inside the samples")
        ours, reals = ours[:frames], reals[:frames]  # what ends with zeros is complete earlier
        if theirs.shape[-1] not in (pipeline.features, theirs.size):  # frames last
            ours, reals = ours.T, reals.T
        wanted = np.rint(theirs.reshape(ours.shape) / codes.scale) + codes.zero_point
        steps = np.abs(np.clip(wanted, low, high) - ours)
        endless = np.abs(wanted - np.rint(reals / codes.scale) - codes.zero_point)
        total, differ = total + steps.size, differ + int((steps > 0).sum())
        worst = max(worst, int(steps.max()), int(endless.max()))
    names = tuple(node.name or node.output[0] for node in (*head.nodes, head.quantize) if node.op_type != "Constant")
    return OwnFrontEnd(pipeline, head.codes, names, total, differ, worst)


def made_sounds(size: int) -> Iterator[Array]:
    """Noise, soft and so loud that it clips, a sweep, silence, a sound that begins."""
    rng, time = np.random.default_rng(0), np.arange(size)
    for level in (300, 8000, 60000):
        yield np.clip(np.rint(rng.normal(size=size) * level), -32768, 32767).astype(np.int16)
    sweep = 12000 * np.sin(np.pi * 0.45 * time * time / size) + rng.normal(size=size)
    yield np.rint(sweep).astype(np.int16)
    yield np.zeros(size, np.int16)
    yield np.where(time < size // 2, 0, np.rint(sweep)).astype(np.int16)
