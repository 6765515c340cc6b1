"""What stays float is float on both sides: conversions stand as operators of their own at the borders.

`affine` and `table` are exceptions: they may read codes and write real numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.passes.edit import Editor, rewrite, with_attrs
from atonc.compiler.passes.fuse_affine import WEIGHTED, bias_values

MIXING = ("quantize", "dequantize", "affine", "table", "arg_max", "arg_min", "cast", "shape")


def split_formats(graph: Graph) -> Graph:
    return rewrite(graph, _split)


def _split(op: Op, editor: Editor) -> list[Op] | None:
    tensors = [editor.tensor(name) for name in (*op.inputs, *op.outputs) if name]
    live = [tensor for tensor in tensors if not tensor.is_constant]
    mixed = any(t.is_float for t in live) and any(t.quant is not None for t in live)
    if op.kind in MIXING or not mixed:
        return None
    before: list[Op] = []
    after: list[Op] = []
    op = _with_real_bias(op, editor)
    inputs = tuple(_real_input(name, op, editor, before) if name else "" for name in op.inputs)
    outputs = tuple(_real_output(name, op, editor, after) for name in op.outputs)
    if after:  # limits count in codes, so they stay with these
        op = with_attrs(op, ("clip",))
    return [*before, replace(op, inputs=inputs, outputs=outputs), *after]


def _with_real_bias(op: Op, editor: Editor) -> Op:
    """A bias that counts in units of the accumulator means nothing beside real numbers."""
    if op.kind not in WEIGHTED or len(op.inputs) < 3 or not op.inputs[2]:
        return op
    x, weights, bias = (editor.tensor(name) for name in op.inputs[:3])
    if x.quant is None or weights.quant is None or bias.data is None or bias.quant is not None or bias.is_float:
        return op
    values = bias_values(bias, x, weights).astype(np.float32)
    real = editor.constant(f"{bias.name}:real {op.outputs[0]}", values)
    return replace(op, inputs=(*op.inputs[:2], real, *op.inputs[3:]))


def _real_input(name: str, op: Op, editor: Editor, before: list[Op]) -> str:
    tensor = editor.tensor(name)
    if tensor.quant is None:
        return name

    def make() -> str:
        if tensor.data is not None:
            return editor.constant(f"{name}:real", real_data(tensor))
        made = editor.add(Tensor(f"{name}:real", tensor.shape, "float32"))
        before.append(Op("dequantize", f"{op.name}:real", (name,), (made,), {}, op.origin))
        return made

    return editor.once(name, "real", make)


def real_data(tensor: Tensor) -> np.ndarray:
    """The values of a constant as float32."""
    if tensor.data is None or tensor.quant is None:
        raise ValueError(tensor.name)
    rank, quant = tensor.data.ndim, tensor.quant
    centred = tensor.data.astype(np.float64) - quant.along(quant.zero_points, rank)
    return np.asarray((centred * quant.along(quant.scales, rank)).astype(np.float32))


def _real_output(name: str, op: Op, editor: Editor, after: list[Op]) -> str:
    tensor = editor.tensor(name)
    if tensor.quant is None:
        return name
    made = editor.add(Tensor(f"{name}:real", tensor.shape, "float32"))
    limits = {"clip": op.attrs["clip"]} if "clip" in op.attrs else {}
    after.append(Op("quantize", f"{op.name}:codes", (made,), (name,), limits, op.origin))
    return made
