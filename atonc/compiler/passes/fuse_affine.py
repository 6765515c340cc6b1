"""Gains and offsets: batch norms and products and sums with constants, while nothing is rounded between them.

They go into the weights before them if there are any (the scales of the weights take the gain, the bias the offset);
what is left over becomes one `affine` operator. Gains below zero turn the sign of the weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops.values import Real
from atonc.compiler.passes.edit import Editor, rewrite
from atonc.machine.base.frozen import dataclass

WEIGHTED = ("conv", "dense", "transpose_conv")


@dataclass(frozen=True)
class GainOffset:
    """x * gain + offset: one value each, or one per channel."""

    gain: Real
    offset: Real


def fuse_affine(graph: Graph) -> Graph:
    return rewrite(graph, _fuse)


def _fuse(op: Op, editor: Editor) -> list[Op] | None:
    found = affine_of(op, editor)
    if found is None:
        return None
    x_name, function = found
    producer = editor.producer(x_name)
    x = editor.tensor(x_name)
    alone = producer is not None and x.is_float and editor.read_once(x_name) and _is_open(producer)
    if alone and producer is not None:
        if producer.kind in WEIGHTED:
            joined = into_weights(producer, function, editor)
            if joined is not None:
                return _replace(producer, replace(joined, outputs=op.outputs), op, editor)
        before = affine_of(producer, editor)
        if before is not None:
            both = GainOffset(before[1].gain * function.gain, before[1].offset * function.gain + function.offset)
            return _replace(producer, _operator(producer, before[0], both, op.outputs, editor), op, editor)
    return [_operator(op, x_name, function, op.outputs, editor)] if op.kind == "batch_norm" else None


def _replace(producer: Op, joined: Op, op: Op, editor: Editor) -> list[Op]:
    editor.replace_op(producer, replace(joined, origin=(*producer.origin, *op.origin), attrs=_attrs(joined, op)))
    return []


def _attrs(joined: Op, op: Op) -> dict[str, object]:
    """The clamp of the later operator stays."""
    return {**joined.attrs, **{key: op.attrs[key] for key in ("clip", "activation") if key in op.attrs}}


def _is_open(op: Op) -> bool:
    return "clip" not in op.attrs and op.attrs.get("activation", "none") == "none" and len(op.outputs) == 1


def _operator(op: Op, x: str, function: GainOffset, outputs: tuple[str, ...], editor: Editor) -> Op:
    size = max(function.gain.size, function.offset.size)
    gain, offset = (np.array(np.broadcast_to(v, (size,))) for v in (function.gain, function.offset))
    names = (editor.constant(f"{outputs[0]}:gain", gain), editor.constant(f"{outputs[0]}:offset", offset))
    attrs = {key: op.attrs[key] for key in ("clip", "activation") if key in op.attrs}
    return Op("affine", op.name, (x, *names), outputs, attrs, op.origin)


def affine_of(op: Op, editor: Editor) -> tuple[str, GainOffset] | None:
    """The input and the function of an operator that is x * gain + offset along the last axis."""
    if op.kind == "affine":
        return op.inputs[0], GainOffset(*(_real(editor.tensor(name)) for name in op.inputs[1:3]))
    if op.kind == "batch_norm":
        return _batch_norm(op, editor)
    if op.kind not in ("mul", "div", "add", "sub") or len(op.inputs) != 2:
        return None
    first, second = (editor.tensor(name) for name in op.inputs)
    y = editor.tensor(op.outputs[0])
    if second.is_constant and not first.is_constant and first.shape == y.shape:
        value = _vector(second, first)
        if value is None or (op.kind == "div" and not np.all(value)):
            return None
        return first.name, _applied(op.kind, value)
    if first.is_constant and not second.is_constant and second.shape == y.shape and op.kind != "div":
        value = _vector(first, second)
        if value is None:
            return None
        return second.name, GainOffset(-np.ones(1), value) if op.kind == "sub" else _applied(op.kind, value)
    return None


def _applied(kind: str, value: Real) -> GainOffset:
    """x kind value."""
    if kind in ("mul", "div"):
        return GainOffset(value if kind == "mul" else 1.0 / value, np.zeros(1))
    return GainOffset(np.ones(1), value if kind == "add" else -value)


def _batch_norm(op: Op, editor: Editor) -> tuple[str, GainOffset] | None:
    x = editor.tensor(op.inputs[0])
    constants = [editor.tensor(name) for name in op.inputs[1:5]]
    if op.attrs["axis"] != len(x.shape) - 1 or any(not c.is_constant for c in constants):
        return None
    gain, offset, mean, variance = (_real(c).reshape(-1) for c in constants)
    factor = gain / np.sqrt(variance + op.attrs["epsilon"])
    return x.name, GainOffset(factor, offset - mean * factor)


def _real(tensor: Tensor) -> Real:
    if tensor.data is None:
        raise ValueError(tensor.name)
    values = tensor.data.astype(np.float64)
    quant = tensor.quant
    if quant is None:
        return values
    return np.asarray((values - quant.along(quant.zero_points, values.ndim)) * quant.along(quant.scales, values.ndim))


def _vector(constant: Tensor, x: Tensor) -> Real | None:
    """One value, or one per channel along the last axis of x."""
    if not constant.is_float and constant.quant is None:
        return None
    if constant.elements == 1:
        return _real(constant).reshape(1)
    if constant.shape and x.shape and constant.elements == constant.shape[-1] == x.shape[-1]:
        return _real(constant).reshape(-1)
    return None


def into_weights(op: Op, function: GainOffset, editor: Editor) -> Op | None:
    """The weighted operator with gain and offset inside; None if its weights cannot take them."""
    weights = editor.tensor(op.inputs[1])
    bias = editor.tensor(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else None
    x = editor.tensor(op.inputs[0])
    if weights.data is None or (bias is not None and bias.data is None):
        return None
    outputs = weights.shape[0]
    gain = np.broadcast_to(function.gain, (outputs,))
    scaled = _scaled(weights, gain)
    if scaled is None:
        return None
    real_bias = bias_values(bias, x, weights) * gain + function.offset
    names = (
        op.inputs[0],
        editor.add(replace(scaled, name=f"{weights.name}:gain")),
        editor.constant(f"{op.outputs[0]}:bias", np.array(np.broadcast_to(real_bias, (outputs,)))),
    )
    return replace(op, inputs=names)


def bias_values(bias: Tensor | None, x: Tensor, weights: Tensor) -> Real:
    """Biases in real numbers."""
    if bias is None or bias.data is None:
        return np.zeros(1)
    if bias.quant is None and not bias.is_float:
        return np.asarray(bias.data.astype(np.float64).reshape(-1) * accumulator_units(x, weights))
    return _real(bias).reshape(-1)


def accumulator_units(x: Tensor, weights: Tensor) -> Real:
    scales = np.ones(1) if weights.quant is None else weights.quant.scales
    return np.asarray(x.scale * scales)


def _scaled(weights: Tensor, gain: Real) -> Tensor | None:
    quant, data = weights.quant, weights.data
    if data is None:
        return None
    along = (-1,) + (1,) * (data.ndim - 1)
    if quant is None:
        return replace(weights, data=data * gain.reshape(along)) if weights.is_float else None
    if not quant.is_per_tensor and quant.axis != 0:
        return None
    scales = np.broadcast_to(quant.scales, gain.shape) * np.abs(gain)
    zeros = np.broadcast_to(quant.zero_points, gain.shape)
    negative = gain < 0
    if np.any(negative):
        turned = 2 * zeros.reshape(along) - data.astype(np.int64)
        data = np.where(negative.reshape(along), turned, data)
        low, high = weights.code_range
        if data.min(initial=0) < low or data.max(initial=0) > high:
            return None
        data = data.astype(weights.data.dtype)  # type: ignore[union-attr]
    silent = scales == 0  # a channel that is switched off: weights at their zero point
    data = np.where(silent.reshape(along), zeros.reshape(along), data).astype(data.dtype)
    made = Quantisation(np.where(silent, 1.0, scales), np.array(zeros), 0 if gain.size > 1 else None)
    return replace(weights, quant=made, data=data)
