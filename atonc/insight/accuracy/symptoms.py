"""What is wrong with a layer that costs much, from what its format, its weights or the NPU do to its numbers."""

from __future__ import annotations

from math import log10

import numpy as np

from atonc.compiler.ir import Tensor
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.insight.accuracy import edits
from atonc.insight.accuracy.measure import LIMITS, MeasuredLayer, Measurement
from atonc.insight.accuracy.twin import SUMMED, Real, real_range
from atonc.insight.explain.types import ACTIVATION, WEIGHTS
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass

ROUNDED = 1.0  # steps, root mean square: the nearest code is off by 0.3, one chosen for the layer's result by more
SAME_BIAS = 0.5  # of its size: quantisers correct it for the mean of what rounding does


def float_constants(measured: Measurement, layer: MeasuredLayer) -> tuple[Real, Real | None]:
    """Weights and bias, batch norms folded in, equalised as those of the quantised layer."""
    if measured.original is None or layer.weighted.kind not in SUMMED:
        raise UnsupportedError("needs the float model and a layer with weights")
    tensor = measured.names[layer.format.name]
    weights, bias = edits.float_constants(measured.source, layer.weighted, measured.original.graph, tensor)
    after, before = measured.gains_of(layer.format.name), measured.gains_of(layer.weighted.inputs[0])
    if after is not None:
        weights = weights * after.reshape(-1, *[1] * (weights.ndim - 1))
        bias = None if bias is None else bias * after
    return weights if before is None else weights / _by_row(before, weights), bias


def _by_row(gains: Real, weights: Real) -> Real:
    """Factors of the channels that each output reads; in groups each reads a part of them."""
    per_group = weights.shape[-1]
    groups = len(gains) // per_group
    rows = np.repeat(gains.reshape(groups, per_group), weights.shape[0] // groups, axis=0)
    return rows.reshape(weights.shape[0], *[1] * (weights.ndim - 2), per_group)


def is_rounded(measured: Measurement, layer: MeasuredLayer, scales: Real) -> bool:
    """Whether weights and bias are those of the float model but for rounding; `scales` as the weights have them."""
    try:
        weights, bias = float_constants(measured, layer)
    except (UnsupportedError, KeyError):
        return False
    held = [measured.twin.graph.tensors[name].data for name in layer.weighted.inputs[1:3] if name]
    stored = np.asarray(held[0], np.float64)
    if stored.shape != weights.shape or float(np.sqrt(np.square((stored - weights) / scales).mean())) > ROUNDED:
        return False
    if bias is None or len(held) < 2:
        return True
    return bool(np.linalg.norm(np.asarray(held[1]).reshape(-1) - bias) <= SAME_BIAS * np.linalg.norm(bias))


def lost_limit(measured: Measurement, layer: MeasuredLayer) -> bool:
    """Whether the float layer ends in a ReLU that the quantised one has neither as an operator nor as its range."""
    name, real = layer.format.name, measured.original
    maker = None if real is None else real.graph.producers.get(measured.names.get(name, ""))
    if maker is None or not (maker.kind in LIMITS or maker.attrs.get("activation", "none") != "none"):
        return False
    plain = layer.op.kind in SUMMED and layer.op.attrs.get("activation", "none") == "none"
    return plain and layer.facts.low >= 0 > real_range(layer.format)[0] and name not in measured.twin.limits


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
        kinds = [reader.kind for reader in measured.source.consumers.get(layer.format.name, [])]
        mixed = next((kind for kind in kinds if kind in ("add", "sub", "mul", "concat")), "")
        return Symptom("coarse", f"{coarse}; read by {mixed}" if mixed else coarse)
    loud = facts.peaks[facts.peaks > 0]
    if loud.size > 1 and loud.max() > UNLIKE * np.quantile(loud, 0.1, method="lower"):
        words = f"channels of unlike size share one scale: largest values from {loud.min():.3g} to {loud.max():.3g}"
        return Symptom("shared-scale", f"{words}, one step is {layer.format.scale:.3g}")
    if is_wide:
        return Symptom("sixteen-bits", f"even 65,536 levels are few for these values: {has}, {spans}")
    return Symptom("eight-bits", f"256 levels are few for these values: {has}, {spans}")


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
    found = _of_codes(weights, layer)
    if found.id == DIFFER and lost_limit(measured, layer):
        zero, first = layer.format.zero_point, layer.format.code_range[0]
        words = f"its range should begin at zero: the zero point is {zero}, {first} would do"
        return Symptom("zero-point", f"the float layer ends in a ReLU, and this one does not; {words}")
    scales = weights.quant.along(weights.quant.scales, len(weights.shape))
    if found.id == DIFFER and is_rounded(measured, layer, scales):
        return _EIGHT_BITS  # the layer makes much of little: its inputs have a mean, and its weights cancel
    return found


_EIGHT_BITS = Symptom("eight-bit-weights", "8 bits are few for these weights")


def _of_codes(weights: Tensor, layer: MeasuredLayer) -> Symptom:
    """What the codes of the weights tell: the grossest first."""
    assert weights.data is not None and weights.quant is not None
    codes = np.asarray(weights.data, np.float64) - weights.quant.along(weights.quant.zero_points, weights.data.ndim)
    axis = weights.quant.axis or 0
    codes = np.moveaxis(codes, axis, 0).reshape(codes.shape[axis], -1)  # a row for each output
    each, peaks = codes.shape[1], np.abs(codes).max(axis=1)
    if weights.quant.is_per_tensor and np.count_nonzero(peaks) > 1:
        middle = float(np.median(peaks))
        far = np.nonzero(peaks > FAR * max(middle, 1.0))[0]
        if far.size and far.size <= max(1, peaks.size // 20):
            words = f"channel {far[0]} reaches {peaks[far[0]]:.0f} codes, the middle of the others {middle:.0f}"
            return Symptom("huge-channel", f"one scale for all channels, and one is huge: {words}")
        if peaks.max() > FAR * max(float(np.quantile(peaks, 0.1, method="lower")), 1.0):
            words = f"their largest codes are {peaks.min():.0f} to {peaks.max():.0f}"
            return Symptom("unlike-channels", f"one scale for all channels, which are unlike: {words}")
    share = (np.abs(codes) >= 127).sum(axis=1) / each
    worst = int(share.argmax())
    if each >= 16 and share[worst] >= max(SATURATED, 3 / each):
        words = f"{100 * share[worst]:.0f} % of the weights of channel {worst} are at the end of their range"
        return Symptom("clipped-weights", words)
    times = peaks / np.maximum(np.sqrt(np.square(codes).mean(axis=1)), 0.1)
    worst = int(times.argmax())
    if times[worst] >= min(PEAKED, 0.9 * each**0.5):
        words = f"one weight of channel {worst} is {times[worst]:.0f} times their root mean square"
        return Symptom("huge-weight", f"{words}: the others get few codes")
    expected = 10 * log10(max(12 * float(np.square(codes).mean()), 1e-3))
    if layer.own[WEIGHTS].db <= expected - BEYOND_DB:
        words = f"{layer.own[WEIGHTS].db:.1f} dB, where rounding alone gives about {expected:.0f}"
        return Symptom(DIFFER, f"weights or bias are not those of the float model: {words}")
    return _EIGHT_BITS


# ---------------------------------------------------------------------------------------------------------- arithmetic


def _arithmetic(measured: Measurement, layer: MeasuredLayer) -> Symptom:
    names = [name for name, owner in measured.owners.items() if owner is layer]
    ops = [measured.canonical.producers[name] for name in names]
    far = f"up to {layer.max_codes:.0f} LSB from exact arithmetic"
    if layer.max_codes <= MANY_CODES * (WIDE_STEP if layer.format.dtype == "int16" else 1):
        return Symptom("rounding", f"the NPU rounds: {far}")
    if any(op.kind == "table" for op in ops):
        return Symptom("table", f"the NPU's table of the function is {far}")
    if any(op.kind in ("conv", "dense", "transpose_conv") for op in ops):
        return Symptom("saturation", f"sums leave the NPU's 16 bits: {far}")
    return Symptom("coarse-arithmetic", f"the NPU computes it {far}")
