"""Dense layers see one row, (1, in) -> (1, out). Several rows are a 1x1 convolution over a picture of height 1; weights
that are computed make a product of two matrices, whatever the number of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops.rounding import ATTRIBUTE
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite


def lower_dense(graph: Graph) -> Graph:
    return rewrite(rewrite(rewrite(graph, _from_matmul), _to_matmul), _lower)


def _from_matmul(op: Op, editor: Editor) -> list[Op] | None:
    """A product with a constant matrix is a dense layer without bias."""
    if op.kind != "matmul" or op.attrs.get("transpose_a"):
        return None
    matrix = editor.tensor(op.inputs[1])
    if matrix.data is None or matrix.elements != int(np.prod(matrix.shape[-2:])):
        return None
    if matrix.quant is not None and not matrix.quant.is_per_tensor:
        return None
    data = matrix.data.reshape(matrix.shape[-2:])
    data = data if op.attrs.get("transpose_b") else data.T
    name = editor.constant(f"{matrix.name}:dense", np.ascontiguousarray(data), matrix.quant, matrix.dtype)
    attrs = {key: op.attrs[key] for key in ("clip", "activation", ATTRIBUTE) if key in op.attrs}
    return [Op("dense", op.name, (op.inputs[0], name, ""), op.outputs, attrs, op.origin)]


def _to_matmul(op: Op, editor: Editor) -> list[Op] | None:
    """TFLite writes the products of attention as dense layers too: the second factor is computed, so there are no
    weights that a convolution could hold."""
    if op.kind != "dense" or (len(op.inputs) > 2 and op.inputs[2]):
        return None
    weights = editor.tensor(op.inputs[1])
    if weights.data is not None or (weights.quant is not None and not weights.quant.is_per_tensor):
        return None
    turn = editor.producer(weights.name)
    source = turn.inputs[0] if turn is not None and turn.kind == "transpose" else ""
    turned = turn is not None and bool(source) and tuple(turn.attrs["perm"]) == (1, 0)
    turned = turned and same_codes(editor.tensor(source), weights)
    factor = source if turned else weights.name
    attrs = {**op.attrs, "transpose_b": not turned}
    outputs, size = weights.shape
    rows = editor.tensor(op.inputs[0]).elements // size
    product = Op("matmul", op.name, (op.inputs[0], factor), op.outputs, attrs, op.origin)
    return _reshaped(product, (rows, size), (rows, outputs), editor)


def _lower(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind != "dense":
        return None
    x, weights = editor.tensor(op.inputs[0]), editor.tensor(op.inputs[1])
    outputs, size = weights.shape
    rows = x.elements // size
    if rows != 1 and weights.data is not None:
        return _as_conv(op, x, weights, weights.data, editor)
    return _reshaped(op, (rows, size), (rows, outputs), editor)


def _as_conv(op: Op, x: Tensor, weights: Tensor, codes: Array, editor: Editor) -> list[Op]:
    outputs, size = weights.shape
    rows = x.elements // size
    data = codes.reshape(outputs, 1, 1, size)
    kernel = editor.constant(f"{weights.name}:1x1", data, weights.quant, weights.dtype)
    attrs = {**op.attrs, "layout": "NHWC", "stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "groups": 1}
    conv = Op("conv", op.name, (x.name, kernel, *op.inputs[2:]), op.outputs, attrs, op.origin)
    return _reshaped(conv, (1, 1, rows, size), (1, 1, rows, outputs), editor)


def _reshaped(op: Op, shape_in: tuple[int, ...], shape_out: tuple[int, ...], editor: Editor) -> list[Op]:
    """The operator between reshapes to the shapes that it wants."""
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    ops = [op]
    if x.shape != shape_in:
        inner = editor.like(x.name, "row", shape=shape_in)
        ops = [Op("reshape", f"{op.name}:row", (x.name,), (inner,), {}, op.origin),
               replace(op, inputs=(inner, *op.inputs[1:]))]  # fmt: skip
    if y.shape != shape_out:
        inner = editor.like(y.name, "row", shape=shape_out)
        ops[-1] = replace(ops[-1], outputs=(inner,))
        ops.append(Op("reshape", f"{op.name}:shape", (inner,), op.outputs, {}, op.origin))
    return ops
