"""A transpose whose values are flattened into a dense layer goes into the order of its weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite


def absorb_transposes(graph: Graph) -> Graph:
    return rewrite(graph, _absorb)


def _absorb(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind != "dense":
        return None
    row = editor.producer(op.inputs[0])
    transpose = editor.producer(row.inputs[0]) if row is not None and row.kind == "reshape" else None
    if row is None or transpose is None or transpose.kind != "transpose":
        return None
    x, flat, weights = (editor.tensor(name) for name in (transpose.inputs[0], op.inputs[0], op.inputs[1]))
    if weights.data is None or flat.elements != weights.shape[1] or not same_codes(x, flat) or x.dtype != flat.dtype:
        return None
    # column j of the weights meets the value that lies at index[j] of the tensor before the transpose
    index = np.arange(x.elements).reshape(x.shape).transpose(transpose.attrs["perm"]).reshape(-1)
    data = np.empty_like(weights.data)
    data[:, index] = weights.data
    moved = editor.add(replace(weights, name=f"{weights.name}:moved", data=data))
    inner = editor.like(x.name, "row", shape=flat.shape)
    origin = (*transpose.origin, *op.origin)
    return [
        Op("reshape", f"{op.name}:row", (x.name,), (inner,), {}, row.origin),
        replace(op, inputs=(inner, moved, *op.inputs[2:]), origin=origin),
    ]
