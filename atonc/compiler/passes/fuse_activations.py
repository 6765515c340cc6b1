"""Clamps become `clip`, a range of output codes, on the operator before them. Exact: rounding is monotonic.

Works for the fused activations of TFLite and for Relu, Relu6, Clip, Min and Max with a constant that stand alone, if
nothing is rounded between the operator and its clamp, or if both write the same format.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops import rounding
from atonc.compiler.ops.functions import RANGES
from atonc.compiler.ops.rounding import round_half_away
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, real_value, rewrite, with_attrs

CARRIERS = (
    "conv", "dense", "transpose_conv", "matmul", "add", "sub", "mul", "affine", "average_pool", "mean", "requantize",
)  # fmt: skip


def fuse_activations(graph: Graph) -> Graph:
    return rewrite(graph, _fuse)


def _fuse(op: Op, editor: Editor) -> list[Op] | None:
    op = _own_activation(op, editor)
    bounds = clamp_of(op, editor)
    if bounds is None:
        return [op]
    merged = _into_producer(op, bounds, editor)
    return [_standing_alone(op, bounds, editor)] if merged is None else merged


def _own_activation(op: Op, editor: Editor) -> Op:
    """`activation` in words -> `clip` in codes; float results keep the words."""
    if "activation" not in op.attrs:
        return op
    if op.attrs["activation"] == "none":
        return with_attrs(op, ["activation"])
    y = editor.tensor(op.outputs[0])
    if y.quant is None or op.attrs["activation"] not in RANGES:
        return op
    return with_clip(with_attrs(op, ["activation"]), RANGES[op.attrs["activation"]], y)


def codes_of(bounds: tuple[float, float], tensor: Tensor) -> tuple[int, int]:
    """Real bounds in codes; infinite ones end at the limits of the type."""
    low, high = tensor.code_range
    ends = round_half_away(np.array(bounds) / tensor.scale) + tensor.zero_point
    return int(np.clip(ends[0], low, high)), int(np.clip(ends[1], low, high))


def with_clip(op: Op, bounds: tuple[float, float], tensor: Tensor) -> Op:
    """Adds a clamp of real values that comes after whatever clamp is there."""
    low, high = codes_of(bounds, tensor)
    old_low, old_high = op.attrs.get("clip", tensor.code_range)
    both = (min(max(old_low, low), high), min(max(old_high, low), high))
    if both == tensor.code_range:
        return with_attrs(op, ["clip"])
    return with_attrs(op, clip=both)


def clamp_of(op: Op, editor: Editor) -> tuple[float, float] | None:
    """The real range that a pure clamp leaves of its first input."""
    if op.kind in RANGES:
        return RANGES[op.kind]
    if op.kind == "clip":
        return float(op.attrs["low"]), float(op.attrs["high"])
    if op.kind in ("minimum", "maximum") and len(op.inputs) == 2:
        values = [real_value(editor.tensor(name)) for name in op.inputs]
        if values[0] is None and values[1] is not None:
            return (-np.inf, values[1]) if op.kind == "minimum" else (values[1], np.inf)
    return None


def _into_producer(op: Op, bounds: tuple[float, float], editor: Editor) -> list[Op] | None:
    producer = editor.producer(op.inputs[0])
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if producer is None or producer.kind not in CARRIERS or not editor.read_once(x.name):
        return None
    unrounded = x.is_float and x.quant is None and producer.attrs.get("activation", "none") == "none"
    if y.quant is None or x.shape != y.shape or not (unrounded or (same_codes(x, y) and x.dtype == y.dtype)):
        return None
    joined = replace(producer, outputs=op.outputs, origin=(*producer.origin, *op.origin))
    editor.replace_op(producer, with_clip(joined, bounds, y))
    return []


def _standing_alone(op: Op, bounds: tuple[float, float], editor: Editor) -> Op:
    """A clamp between two int8 formats is a requantisation with a clip."""
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if x.quant is None or y.quant is None or x.shape != y.shape:
        return op
    attrs = rounding.attribute("requantize") if rounding.ATTRIBUTE in op.attrs else {}
    return with_clip(Op("requantize", op.name, op.inputs[:1], op.outputs, attrs, op.origin), bounds, y)
