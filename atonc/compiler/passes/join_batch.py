"""Pictures of a batch become rows of one picture, where no window reaches from row to row.

So Keras writes dilated convolutions over time: every step of the dilation a picture of one row.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.passes.edit import Editor, rewrite


def join_batch(graph: Graph) -> Graph:
    return rewrite(graph, _join)


def _join(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind != "conv" or op.attrs["layout"] != "NHWC" or not _row_by_row(op, editor):
        return None
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    rows, result = (editor.like(tensor.name, "rows", shape=_as_rows(tensor)) for tensor in (x, y))
    before = Op("reshape", f"{op.name}:rows", (x.name,), (rows,), {}, op.origin)
    joined = replace(op, inputs=(rows, *op.inputs[1:]), outputs=(result,))
    return [before, joined, Op("reshape", f"{op.name}:batch", (result,), op.outputs, {}, op.origin)]


def _row_by_row(op: Op, editor: Editor) -> bool:
    x, weights = editor.tensor(op.inputs[0]), editor.tensor(op.inputs[1])
    if len(x.shape) != 4 or x.shape[0] == 1 or weights.shape[1] != 1:
        return False
    top, _, bottom, _ = op.attrs["padding"]
    return bool(op.attrs["stride"][0] == 1 and top == bottom == 0)


def _as_rows(tensor: Tensor) -> tuple[int, ...]:
    batch, height, *rest = tensor.shape
    return (1, batch * height, *rest)
