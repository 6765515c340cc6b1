"""Operators that change nothing vanish: reshapes to the same shape, conversions to the same format, empty pads."""

from __future__ import annotations

from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite

CONVERSIONS = ("identity", "requantize", "quantize", "dequantize", "cast")
MOVES = ("reshape", "expand", "tile", "resize_nearest", "resize_linear", "slice", "concat", "split")


def drop_identities(graph: Graph) -> Graph:
    return rewrite(graph, _drop)


def _drop(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind == "reshape":
        op = _join_reshapes(op, editor)
    if changes_nothing(op, editor) and editor.redirect(op.outputs[0], op.inputs[0]):
        return []
    return [op]


def _join_reshapes(op: Op, editor: Editor) -> Op:
    before = editor.producer(op.inputs[0])
    if before is None or before.kind != "reshape":
        return op
    x, middle = editor.tensor(before.inputs[0]), editor.tensor(op.inputs[0])
    if not same_codes(x, middle) or x.dtype != middle.dtype:
        return op
    editor.readers[op.inputs[0]] -= 1
    editor.readers[before.inputs[0]] += 1
    return Op(op.kind, op.name, before.inputs[:1], op.outputs, op.attrs, (*before.origin, *op.origin))


def changes_nothing(op: Op, editor: Editor) -> bool:
    if len(op.outputs) != 1 or not op.inputs or not op.inputs[0] or "clip" in op.attrs:
        return False
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if x.shape != y.shape or x.dtype != y.dtype or not same_codes(x, y):
        return False
    if op.kind in CONVERSIONS:
        return True
    if op.kind == "transpose":
        return tuple(op.attrs["perm"]) == tuple(range(len(x.shape)))
    if op.kind == "pad":
        return not any(amount for both in op.attrs["pads"] for amount in both)
    if op.kind == "slice":
        return all(step == 1 for step in op.attrs["steps"])
    if op.kind in ("resize_nearest", "resize_linear"):
        scales = op.attrs.get("scales")
        return not scales or all(scale == 1.0 for scale in scales)
    if op.kind in ("max_pool", "average_pool"):
        plain = tuple(op.attrs["window"]) in ((1,), (1, 1)) and tuple(op.attrs["stride"]) == (1, 1)
        return plain and op.attrs.get("activation", "none") == "none" and not any(op.attrs["padding"])
    return op.kind in MOVES
