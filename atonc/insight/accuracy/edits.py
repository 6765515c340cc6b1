"""Changes of the quantised graph that may mend a layer; each gives a graph that runs and compiles like any other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import is_move
from atonc.insight.accuracy.twin import SUMMED, dequantised, is_format, make_twin
from atonc.machine.base.errors import UnsupportedError

Real = NDArray[np.float64]
INT32 = 2**31 - 1
MOST_GAIN = 64.0  # of a channel that is made as large as the largest
_KEEP_FORMAT = ("max_pool", "relu", "relu6", "clip", "identity")
_FLOAT = ":float"


def refit(graph: Graph, tensor: str, low: float, high: float) -> Graph:
    """The format spans these values; so do those of operators that only move them on in the same format."""
    group = _same_format(graph, tensor)
    old = graph.tensors[tensor]
    low, high = min(low, 0.0), max(high, 0.0)
    first, last = old.code_range
    scale = max(high - low, 1e-12) / (last - first)
    quant = Quantisation.per_tensor(scale, int(np.clip(round(first - low / scale), first, last)))
    return _with_formats(graph, {name: replace(graph.tensors[name], quant=quant) for name in group})


def sixteen_bits(graph: Graph, tensor: str, low: float, high: float) -> Graph:
    group = _same_format(graph, tensor)
    if graph.tensors[tensor].zero_point == graph.tensors[tensor].code_range[0]:  # the range ends at zero: it stays so
        quant = Quantisation.per_tensor(max(high, 1e-12) / 65535, -32768)
    else:
        quant = Quantisation.per_tensor(max(abs(low), abs(high), 1e-12) / 32767)
    return _with_formats(graph, {name: replace(graph.tensors[name], quant=quant, dtype="int16") for name in group})


def _same_format(graph: Graph, tensor: str) -> set[str]:
    group, wanted = {tensor}, graph.tensors[tensor]
    assert wanted.quant is not None
    for op in graph.ops:
        passes = is_move(op.kind) or op.kind in _KEEP_FORMAT
        names = [n for n in (*op.inputs[:1], *op.outputs) if n and is_format(graph.tensors[n])]
        if passes and group & set(names):
            group |= {n for n in names if wanted.quant.same_as(graph.tensors[n].quant)}
    return group


def _with_formats(graph: Graph, changed: Mapping[str, Tensor]) -> Graph:
    """Biases that count in units of the accumulator mean what they meant: as real numbers, which always fit."""
    tensors, twin = {**graph.tensors, **changed}, make_twin(graph).graph
    for op in graph.ops:
        if op.kind not in (*SUMMED, "transpose_conv") or op.inputs[0] not in changed or len(op.inputs) < 3:
            continue
        bias = graph.tensors.get(op.inputs[2])
        if bias is not None and bias.data is not None and bias.quant is None and not bias.is_float:
            tensors[bias.name] = replace(bias, dtype="float32", data=twin.tensors[bias.name].data)
    return replace(graph, tensors=tensors)


def in_float(graph: Graph, names: Collection[str], constants: Mapping[str, Real]) -> Graph:
    """These operators compute with real numbers; `constants`: float weights and biases, else those that are there."""
    real = make_twin(graph)
    tensors, ops = dict(graph.tensors), list[Op]()

    def real_input(name: str) -> str:
        tensor, known = graph.tensors.get(name), name + _FLOAT
        if tensor is None or not (tensor.is_constant or is_format(tensor)):
            return name
        if tensor.is_constant:
            data = np.asarray(constants.get(name, real.graph.tensors[name].data), np.float64)
            tensors[known] = replace(_real(tensor), data=data)
        elif known not in tensors:
            tensors[known] = _real(tensor)
            ops.append(Op("dequantize", f"{name}:dq", (name,), (known,), {}, op.origin))
        return known

    for op in graph.ops:
        if op.name not in names:
            ops.append(op)
            continue
        inputs, written = tuple(map(real_input, op.inputs)), op.outputs[0]
        kind = "identity" if op.kind in ("quantize", "dequantize", "requantize") else op.kind
        if not is_format(graph.tensors[written]):
            ops.append(replace(op, kind=kind, inputs=inputs))
            continue
        tensors[written + _FLOAT] = _real(graph.tensors[written])
        if written in real.limits:  # its range was its ReLU
            free, limit = f"{written}:free", "relu" if np.isinf(real.limits[written][1]) else "relu6"
            tensors[free] = replace(_real(graph.tensors[written]), name=free)
            ops.append(replace(op, kind=kind, inputs=inputs, outputs=(free,)))
            ops.append(Op(limit, f"{written}:limit", (free,), (written + _FLOAT,), {}, op.origin))
        else:
            ops.append(replace(op, kind=kind, inputs=inputs, outputs=(written + _FLOAT,)))
        others = [reader for reader in graph.consumers.get(written, []) if reader.name not in names]
        if others or written in graph.outputs:
            ops.append(Op("quantize", f"{written}:q", (written + _FLOAT,), (written,), {}, op.origin))
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _real(tensor: Tensor) -> Tensor:
    return replace(tensor, name=tensor.name + _FLOAT, dtype="float32", quant=None)


def per_channel(
    graph: Graph, op: Op, weights: Real, bias: Real | None, shares: Real | float = 1.0
) -> Graph:
    """Weights from float with a scale for each output, large enough that the bias fits its 32 bits. `shares` of the
    largest weight of each output are within the range."""
    old, x = graph.tensors[op.inputs[1]], graph.tensors[op.inputs[0]]
    if old.quant is None or x.quant is None:
        raise UnsupportedError("the layer is not quantised")
    outputs = weights.shape[0]
    scales = np.maximum(np.abs(weights).reshape(outputs, -1).max(axis=1) * shares / 127, 1e-12)
    if bias is not None:
        scales = np.maximum(scales, np.abs(bias) / (0.9 * INT32) / x.scale)
    along = scales.reshape(-1, *[1] * (weights.ndim - 1))
    codes = np.clip(np.rint(weights / along), -127, 127).astype(np.int8)
    quant = Quantisation(scales, np.zeros(outputs, np.int64), 0)
    tensors = {**graph.tensors, old.name: replace(old, dtype="int8", quant=quant, data=codes)}
    if bias is not None and len(op.inputs) > 2 and op.inputs[2]:
        known = graph.tensors[op.inputs[2]]
        steps = np.clip(np.rint(bias / (scales * x.scale)), -INT32, INT32).astype(np.int32)
        tensors[known.name] = replace(known, dtype="int32", quant=None, data=steps.reshape(known.shape))
    return replace(graph, tensors=tensors)


def readers(graph: Graph, tensor: str) -> set[str]:
    """Operators that read the values, also behind others that only move them on in the same format."""
    group = _same_format(graph, tensor)
    return {op.name for name in group for op in graph.consumers.get(name, [])}


def apart(graph: Graph, op: Op, ranges: Mapping[str, tuple[float, float]]) -> Graph:
    """The parts of a concatenation keep formats of their own until they are real numbers."""
    for name, (low, high) in ranges.items():
        graph = refit(graph, name, low, high)
    behind = graph.consumers.get(op.outputs[0], [])
    if any(reader.kind != "dequantize" for reader in behind):
        raise UnsupportedError("what follows needs one format")
    return in_float(graph, {op.name, *(reader.name for reader in behind)}, {})


def equalise(graph: Graph, op: Op, peaks: Real) -> Graph:
    """Channels of unlike size made equal: what a channel gains in this layer, the weights of the next take back."""
    name = op.outputs[0]
    while [reader.kind for reader in graph.consumers.get(name, [])] == ["relu"]:
        name = graph.consumers[name][0].outputs[0]
    behind = graph.consumers.get(name, [])
    plain = op.attrs.get("activation", "none") in ("none", "relu")
    if not plain or not behind or name in graph.outputs or not all(_takes_back(reader, name) for reader in behind):
        raise UnsupportedError("the next layer cannot take it back")
    gains = np.minimum(peaks.max() / np.maximum(peaks, peaks.max() / MOST_GAIN), MOST_GAIN)
    real = make_twin(graph).graph.tensors
    bias = np.asarray(real[op.inputs[2]].data).reshape(-1) if len(op.inputs) > 2 and op.inputs[2] else None
    weights = np.asarray(real[op.inputs[1]].data)
    along = gains.reshape(-1, *[1] * (weights.ndim - 1))
    changed = per_channel(graph, op, weights * along, None if bias is None else bias * gains)
    for reader in behind:
        bias = np.asarray(real[reader.inputs[2]].data).reshape(-1) if len(reader.inputs) > 2 else None
        changed = per_channel(changed, reader, np.asarray(real[reader.inputs[1]].data) / gains, bias)
    return changed


def _takes_back(op: Op, name: str) -> bool:
    return op.kind in SUMMED and op.inputs[0] == name and int(op.attrs.get("groups", 1)) == 1


def float_constants(quantised: Graph, op: Op, real: Graph, tensor: str) -> tuple[Real, Real | None]:
    """Weights and bias of the float layer whose result is this tensor of the float model, batch norms folded in."""
    gain, offset = np.ones(1), np.zeros(1)
    maker = real.producers.get(tensor)
    wanted = quantised.tensors[op.inputs[1]].shape
    while maker is not None and not (maker.kind == op.kind and real.tensors[maker.inputs[1]].shape == wanted):
        if maker.kind == "batch_norm":
            scale, shift, mean, variance = (dequantised(real.tensors[n]).reshape(-1) for n in maker.inputs[1:5])
            factor = scale / np.sqrt(variance + float(maker.attrs["epsilon"]))
            gain, offset = gain * factor, offset + gain * (shift - mean * factor)
        elif maker.kind not in ("relu", "relu6", "clip"):
            raise UnsupportedError("the float model has no such layer there")
        maker = real.producers.get(maker.inputs[0])
    if maker is None or real.tensors[maker.inputs[1]].data is None:
        raise UnsupportedError("the float model has no such layer there")
    weights = dequantised(real.tensors[maker.inputs[1]])
    has_bias = len(maker.inputs) > 2 and maker.inputs[2]
    bias = dequantised(real.tensors[maker.inputs[2]]).reshape(-1) if has_bias else np.zeros(weights.shape[0])
    whole = weights * np.broadcast_to(gain, bias.shape).reshape(-1, *[1] * (weights.ndim - 1))
    return whole, bias * gain + offset if len(op.inputs) > 2 and op.inputs[2] else None
