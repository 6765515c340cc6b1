"""What a layer would have if it were quantised from float again."""

from __future__ import annotations

import numpy as np

from atonc.insight.accuracy import edits
from atonc.insight.accuracy.measure import LIMITS, MeasuredLayer, Measurement
from atonc.insight.accuracy.twin import SUMMED, real_range
from atonc.machine.base.errors import UnsupportedError

ROUNDED = 1.0  # steps, root mean square: the nearest code is off by 0.3, one chosen for the layer's result by more
SAME_BIAS = 0.5  # of its size: quantisers correct it for the mean of what rounding does


def float_constants(measured: Measurement, layer: MeasuredLayer) -> tuple[edits.Real, edits.Real | None]:
    """Weights and bias, batch norms folded in, equalised as those of the quantised layer."""
    if measured.reference.twin is None or layer.weighted.kind not in SUMMED:
        raise UnsupportedError("needs the float model and a layer with weights")
    tensor = measured.reference.names[layer.format.name]
    weights, bias = edits.float_constants(measured.source, layer.weighted, measured.reference.twin.graph, tensor)
    after, before = measured.gains_of(layer.format.name), measured.gains_of(layer.weighted.inputs[0])
    if after is not None:
        weights = weights * after.reshape(-1, *[1] * (weights.ndim - 1))
        bias = None if bias is None else bias * after
    return weights if before is None else weights / _by_row(before, weights), bias


def _by_row(gains: edits.Real, weights: edits.Real) -> edits.Real:
    """Factors of the channels that each output reads; in groups each reads a part of them."""
    per_group = weights.shape[-1]
    groups = len(gains) // per_group
    rows = np.repeat(gains.reshape(groups, per_group), weights.shape[0] // groups, axis=0)
    return rows.reshape(weights.shape[0], *[1] * (weights.ndim - 2), per_group)


def is_rounded(measured: Measurement, layer: MeasuredLayer, scales: edits.Real) -> bool:
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
    name, real = layer.format.name, measured.reference.twin
    maker = None if real is None else real.graph.producers.get(measured.reference.names.get(name, ""))
    if maker is None or not (maker.kind in LIMITS or maker.attrs.get("activation", "none") != "none"):
        return False
    plain = layer.op.kind in SUMMED and layer.op.attrs.get("activation", "none") == "none"
    return plain and layer.facts.low >= 0 > real_range(layer.format)[0] and name not in measured.twin.limits
