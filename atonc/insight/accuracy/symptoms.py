"""What is wrong with a layer that costs much, from what its format, its weights or the NPU do to its numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import log10

import numpy as np

from atonc.compiler.ir import Tensor
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.insight.accuracy.float_layer import is_rounded, lost_limit
from atonc.insight.accuracy.measure import MeasuredLayer, Measurement
from atonc.insight.accuracy.twin import real_range
from atonc.insight.explain.types import ACTIVATION, WEIGHTS
from atonc.machine.base.frozen import dataclass

MOSTLY = 0.5  # of the noise
NARROW = 0.15  # of the range is used
UNLIKE = 16.0  # between channels that one scale should not serve
FAR = 8.0  # from the middle of the others
PEAKED = 12.0  # largest by root mean square
ROOM = 1.15  # a range this much too small is the right one in the wrong place
INT32 = 2**31 - 1
BEYOND_DB = 10.0  # more noise than rounding explains
MANY_CODES = 4.0  # more than rounding of the NPU ever is
DIFFER = "weights-differ"
SATURATED = 0.03  # of the weights at the end of the range


@dataclass(frozen=True)
class Symptom:
    id: str
    says: str


def diagnose(measured: Measurement, layer: MeasuredLayer, part: str) -> Symptom:
    if part == ACTIVATION:
        return _activation(measured, layer)
    return _weights(measured, layer) if part == WEIGHTS else _arithmetic(measured, layer)


# ---------------------------------------------------------------------------------------------------------- activation


def _activation(measured: Measurement, layer: MeasuredLayer) -> Symptom:
    facts, (low, high), is_wide = layer.facts, real_range(layer.format), layer.format.dtype == "int16"
    is_input = layer.op.kind == "input" or (
        layer.op.kind == "quantize" and layer.op.inputs[0] in measured.source.inputs
    )
    has, spans = f"values {facts.low:.4g} to {facts.high:.4g}", f"the format {low:.4g} to {high:.4g}"
    noise = float(layer.own[ACTIVATION].noise.sum())
    if len(facts.codes) == 1 and facts.high > facts.low and not is_input:
        return Symptom("dead", f"all {has} become {next(iter(facts.codes)):.4g}: {spans}")
    if noise and facts.clip_noise > MOSTLY * noise:
        percent = 100 * (facts.above + facts.below) / facts.values
        cut = f"{percent:.2g} % of the values are cut off: {has}, {spans}"
        if is_input:
            return Symptom("input-range", f"the input is not in the range that the model was quantised for; {cut}")
        one_side = min(facts.above, facts.below) == 0 and not is_wide  # whose zero point stays 0
        if one_side and facts.high - facts.low <= ROOM * (high - low) and min(facts.low, 0.0) - low != 0.0:
            wanted = round(layer.format.code_range[0] - min(facts.low, 0.0) / layer.format.scale)
            zero = f"the zero point is {layer.format.zero_point}, {wanted} would fit"
            return Symptom("zero-point", f"the range is wide enough but in the wrong place: {zero}; {cut}")
        return Symptom("clipped", cut)
    used = (max(facts.high, 0.0) - min(facts.low, 0.0)) / (high - low)
    if used < NARROW:
        coarse = f"only {100 * used:.2g} % of the range is used: {has}, {spans}"
        if is_input:
            return Symptom("input-range", f"the input is not in the range that the model was quantised for; {coarse}")
        return Symptom("coarse", f"{coarse}{_readers(measured, layer)}")
    loud = facts.peaks[facts.peaks > 0]
    if loud.size > 1 and loud.max() > UNLIKE * np.quantile(loud, 0.1, method="lower"):
        words = f"channels of unlike size share one scale: largest values from {loud.min():.3g} to {loud.max():.3g}"
        return Symptom("shared-scale", f"{words}, one step is {layer.format.scale:.3g}")
    if is_wide:
        return Symptom("sixteen-bits", f"even 65,536 codes are few for these values: {has}, {spans}")
    return Symptom("eight-bits", f"256 codes are few for these values: {has}, {spans}")


def _readers(measured: Measurement, layer: MeasuredLayer) -> str:
    readers = measured.source.consumers.get(layer.format.name, [])
    kinds = [op.kind for op in readers if op.kind in ("add", "sub", "mul", "concat")]
    return f"; read by {kinds[0]}" if kinds else ""


# ------------------------------------------------------------------------------------------------------------- weights


def _weights(measured: Measurement, layer: MeasuredLayer) -> Symptom:
    tensors = [measured.source.tensors[name] for name in layer.weighted.inputs if name]
    weights = next((t for t in tensors if t.is_constant and t.quant is not None and t.dtype != "int32"), None)
    for bias in tensors:
        if bias.data is not None and bias.dtype == "int32":
            over = np.nonzero(np.abs(bias.data.astype(np.int64).reshape(-1)) >= INT32)[0]
            if over.size:
                words = f"the bias of channel {over[0]} does not fit its 32 bits ({over.size} in all)"
                return Symptom("bias-overflow", words)
    if weights is None or weights.quant is None:
        return Symptom("constants-differ", "its constants are not those of the float model")
    found = next((found for rule in _WEIGHT_RULES if (found := rule(weights, layer)) is not None), _EIGHT_BITS)
    if found.id == DIFFER and lost_limit(measured, layer):
        zero, first = layer.format.zero_point, layer.format.code_range[0]
        words = f"its range should begin at zero: the zero point is {zero}, {first} would do"
        return Symptom("zero-point", f"the float layer ends in a ReLU, and this one does not; {words}")
    scales = weights.quant.along(weights.quant.scales, len(weights.shape))
    if found.id == DIFFER and is_rounded(measured, layer, scales):
        return _EIGHT_BITS  # the layer makes much of little: its inputs have a mean, and its weights cancel
    return found


_EIGHT_BITS = Symptom("eight-bit-weights", "8 bits are few for these weights")


def _by_channel(weights: Tensor) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Codes, a row for each output."""
    assert weights.data is not None and weights.quant is not None
    zeros = weights.quant.along(weights.quant.zero_points, weights.data.ndim)
    codes = np.asarray(weights.data, np.float64) - zeros
    axis = weights.quant.axis or 0
    return np.moveaxis(codes, axis, 0).reshape(codes.shape[axis], -1)


def _one_scale(weights: Tensor, layer: MeasuredLayer) -> Symptom | None:
    assert weights.quant is not None
    peaks = np.abs(_by_channel(weights)).max(axis=1)
    loud = peaks[peaks > 0]
    if not weights.quant.is_per_tensor or loud.size < 2:
        return None
    middle = float(np.median(peaks))
    far = np.nonzero(peaks > FAR * max(middle, 1.0))[0]
    if far.size and far.size <= max(1, peaks.size // 20):
        words = f"channel {far[0]} reaches {peaks[far[0]]:.0f} codes, the middle of the others {middle:.0f}"
        return Symptom("huge-channel", f"one scale for all channels, and one is huge: {words}")
    if peaks.max() > FAR * max(float(np.quantile(peaks, 0.1, method="lower")), 1.0):
        words = f"their largest codes are {peaks.min():.0f} to {peaks.max():.0f}"
        return Symptom("unlike-channels", f"one scale for all channels, which are unlike: {words}")
    return None


def _saturated(weights: Tensor, layer: MeasuredLayer) -> Symptom | None:
    codes = np.abs(_by_channel(weights))
    share = (codes >= 127).sum(axis=1) / codes.shape[1]
    worst = int(share.argmax())
    if codes.shape[1] < 16 or share[worst] < max(SATURATED, 3 / codes.shape[1]):
        return None
    words = f"{100 * share[worst]:.0f} % of the weights of channel {worst} are at the end of their range"
    return Symptom("clipped-weights", words)


def _peaked(weights: Tensor, layer: MeasuredLayer) -> Symptom | None:
    codes = _by_channel(weights)
    rms = np.sqrt(np.square(codes).mean(axis=1))
    peaks = np.abs(codes).max(axis=1) / np.maximum(rms, 0.1)
    worst = int(peaks.argmax())
    if peaks[worst] < min(PEAKED, 0.9 * codes.shape[1] ** 0.5):
        return None
    words = f"one weight of channel {worst} is {peaks[worst]:.0f} times their root mean square"
    return Symptom("huge-weight", f"{words}: the others get few codes")


def _not_rounding(weights: Tensor, layer: MeasuredLayer) -> Symptom | None:
    codes = _by_channel(weights)
    expected = 10 * log10(max(12 * float(np.square(codes).mean()), 1e-3))
    if layer.own[WEIGHTS].db > expected - BEYOND_DB:
        return None
    words = f"{layer.own[WEIGHTS].db:.1f} dB, where rounding alone gives about {expected:.0f}"
    return Symptom(DIFFER, f"weights or bias are not those of the float model: {words}")


_WEIGHT_RULES: tuple[Callable[[Tensor, MeasuredLayer], Symptom | None], ...] = (
    _one_scale,
    _saturated,
    _peaked,
    _not_rounding,
)


# ---------------------------------------------------------------------------------------------------------- arithmetic


def _arithmetic(measured: Measurement, layer: MeasuredLayer) -> Symptom:
    names = [name for name, owner in measured.owners.items() if owner is layer]
    ops = [measured.canonical.producers[name] for name in names]
    far = f"up to {layer.max_codes:.0f} codes from exact arithmetic"
    if layer.max_codes <= MANY_CODES * (WIDE_STEP if layer.format.dtype == "int16" else 1):
        return Symptom("rounding", f"the NPU rounds: {far}")
    if any(op.kind == "table" for op in ops):
        return Symptom("table", f"the NPU's table of the function is {far}")
    if any(op.kind in ("conv", "dense", "transpose_conv") for op in ops):
        return Symptom("saturation", f"sums leave the NPU's 16 bits: {far}")
    return Symptom("coarse-arithmetic", f"the NPU computes it {far}")
