"""The same operator on the same inputs is computed once."""

from __future__ import annotations

from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite


def merge_repeats(graph: Graph) -> Graph:
    seen: dict[tuple[object, ...], Op] = {}
    return rewrite(graph, lambda op, editor: _merge(op, editor, seen))


def _merge(op: Op, editor: Editor, seen: dict[tuple[object, ...], Op]) -> list[Op] | None:
    if len(op.outputs) != 1:
        return None
    first = seen.setdefault((op.kind, op.inputs, repr(sorted(op.attrs.items())), _format(op, editor)), op)
    if first is op or op.outputs[0] in editor.outputs:
        return None
    x, y = editor.tensor(first.outputs[0]), editor.tensor(op.outputs[0])
    if x.shape != y.shape or x.dtype != y.dtype or not same_codes(x, y):
        return None
    return [] if editor.redirect(y.name, x.name) else None


def _format(op: Op, editor: Editor) -> tuple[object, ...]:
    y = editor.tensor(op.outputs[0])
    return y.dtype, y.shape, y.scale, y.zero_point
