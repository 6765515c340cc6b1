"""Questions about how wide sums are inside a unit: what a CONVACC makes of sums beyond 24 bits, at their end and on the
way, and an ARITH of sums beyond 31.

Sums travel between units as 24 bits, saturated. How wide they are inside a unit is in no published program: the
emulator refuses larger ones, so the probe of a CONVACC carries the answers that are possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.lower.conv.chains import unit_config
from atonc.compiler.lower.conv.engines import feature_engine, kernel_engine
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.units.arith import Affine, affine_unit
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine
from atonc.delivery.probes.bench import INPUT, OUTPUT, Answer, Probe, ProbeBuilder, ProbeEpochs
from atonc.delivery.probes.convolutions import NO_PADS, WHOLE
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import MOST_OUT_SHIFT
from atonc.machine.hw.units import convacc
from atonc.machine.hw.wide_sums import KEPT, SATURATED, WRAPPED, saturated, wrapped

_SIDE, _CHANNELS, _KERNELS = 8, 16, 4
_WIDE = Area.whole(_SIDE, _SIDE, _KERNELS, 2)
BEYOND = "conv-sums-beyond-24-bits"  # the probe whose answer settles it
_ANSWERS: dict[str, Callable[[Array], Array]] = {KEPT: lambda sums: sums, SATURATED: saturated, WRAPPED: wrapped}


def _features(bench: ProbeBuilder, highest: int) -> Array:
    """16-bit numbers, alike in all channels of a pixel, from pixel to pixel from the lowest to the highest."""
    pixels = np.linspace(-highest, highest, _SIDE * _SIDE).astype(np.int64)
    noise = bench.rng.integers(-50, 51, (_SIDE * _SIDE, _CHANNELS))
    found: Array = (pixels[:, None] + noise).astype("<i2")
    bench.stimulus = found.reshape(-1).view(np.int8)
    return found


def _convolved(highest: int, answers: bool = False, turning: bool = False) -> ProbeEpochs:
    """A 1x1 convolution whose sums of 16 bits leave it without their lowest 12 bits. `turning`: kernels whose second
    half takes away what the first has added."""
    bench = ProbeBuilder(_SIDE * _SIDE * _CHANNELS * 2, _SIDE * _SIDE * _KERNELS * 2)
    features = _features(bench, highest)
    weights = bench.rng.integers(100, 128, (_KERNELS, 1, 1, _CHANNELS)).astype(np.int8)
    if turning:
        weights[..., _CHANNELS // 2 :] = 4 - weights[..., : _CHANNELS // 2]
    part = Part(Area.whole(_SIDE, _SIDE, _CHANNELS, 2), weights.astype(np.int16), NO_PADS, 1)
    unit = changed(unit_config(part, WHOLE, _CHANNELS, _KERNELS), out_shift=MOST_OUT_SHIFT)
    b = bench.epoch("sums")
    kernels = b.read(bench.constant(weights.tobytes()), kernel_engine(weights.size, WHOLE))
    sums = b.unit(unit, b.read(INPUT, feature_engine(part.area, Frames(), WHOLE)), kernels)
    b.write(sums, OUTPUT, engine(_WIDE, write=True))
    if answers:
        exact = (features.astype(np.int64) - WHOLE.offset) @ weights.reshape(_KERNELS, -1).astype(np.int64).T
        found = {name: convacc.finish(unit, change(exact)) for name, change in _ANSWERS.items()}
        bench.answers = [Answer(name, values.astype("<i2").tobytes()) for name, values in found.items()]
    return bench.add(b).done()


_COUNT = 2048
_VALUES = Area(1, 1, _COUNT, 2 * _COUNT, 2 * _COUNT, 0, 2)


def _affine(factor: int, addend: int, shift: int) -> ProbeEpochs:
    """Codes from values of 16 bits."""
    unit = affine_unit(Affine(np.array([factor]), np.array([addend]), shift), _COUNT, in_bytes=2)
    bench = ProbeBuilder(2 * _COUNT, _COUNT)
    return bench.chain("affine", engine(_VALUES), contiguous(_COUNT, write=True), unit).done()


_NEVER = "the largest sum of an ST program that was emulated is about 2^20; links between units carry 24 bits"

SUMS = (
    Probe(
        "conv-sums-within-24-bits",
        "a 1x1 convolution of 16-bit numbers whose sums stay below 2^23",
        "published with features of 9 bits",
        partial(_convolved, 4000),
        "conv-1x1-whole-features",
    ),
    Probe(
        BEYOND,
        "the same with features up to 32,000 and sums up to 2^26: does the unit keep, saturate or wrap them at 24 bits",
        _NEVER,
        partial(_convolved, 32_000, answers=True),
        "conv-sums-within-24-bits",
        of_configuration=False,
    ),
    Probe(
        "conv-sums-beyond-24-bits-on-the-way",
        "a 1x1 convolution whose sums pass 2^24 and come back below 2^23 in its last channels",
        _NEVER,
        partial(_convolved, 32_000, turning=True),
        "conv-sums-within-24-bits",
        of_configuration=False,
    ),
    Probe(
        "affine-sums-beyond-31-bits",
        "factor 30,000 and addend 2,100,000,000 on values of 16 bits: half of the sums pass 2^31",
        "published units have such factors and such addends; which sums they made is not known",
        partial(_affine, 30_000, 2_100_000_000, 25),
        "control-affine",
        of_configuration=False,
    ),
)
