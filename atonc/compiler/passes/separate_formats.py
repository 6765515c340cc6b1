"""Operators that move values change no number format: conversions become operators of their own, outside them.

The front ends let a reshape or a maximum write another format than it reads. Rounding and moving commute, so nothing
changes by separating them.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops import is_move
from atonc.compiler.ops.values import same_codes
from atonc.compiler.passes.edit import Editor, rewrite
from atonc.compiler.passes.name_conversions import conversion_kind

ALL_INPUTS = ("concat", "pack")


def separate_formats(graph: Graph) -> Graph:
    return rewrite(graph, _separate)


def _separate(op: Op, editor: Editor) -> list[Op] | None:
    if not (is_move(op.kind) or op.kind == "max_pool"):
        return None
    count = len(op.inputs) if op.kind in ALL_INPUTS else 1
    data, outputs = [editor.tensor(name) for name in op.inputs[:count]], editor.tensors_of(op.outputs)
    y = outputs[0]
    if not all(_same(other, y) for other in outputs):
        return _convert_each(op, data[0], outputs, editor)
    if all(_same(x, y) for x in data):
        return None
    if count == 1 and len(op.outputs) == 1 and _should_move_first(op, data[0], y):
        return _convert_after(op, data[0], y, editor)
    before: list[Op] = []
    inputs = [_converted(x, y, op, editor, before) for x in data]
    return [*before, replace(op, inputs=(*inputs, *op.inputs[count:]))]


def _same(x: Tensor, y: Tensor) -> bool:
    return x.dtype == y.dtype and same_codes(x, y)


def _should_move_first(op: Op, x: Tensor, y: Tensor) -> bool:
    """Codes are smaller than floats; a maximum is taken in the format that it was given in."""
    if op.kind == "max_pool":
        return op.attrs.get("activation", "none") == "none"
    plain_pad = op.kind != "pad" or (op.attrs.get("value", 0.0) == 0.0 and x.quant is not None)
    return y.is_float and x.quant is not None and x.quant.is_per_tensor and plain_pad


def _convert_after(op: Op, x: Tensor, y: Tensor, editor: Editor) -> list[Op]:
    moved = editor.add(Tensor(f"{y.name}:moved", y.shape, x.dtype, x.quant))
    convert = Op(conversion_kind(x, y), f"{op.name}:format", (moved,), op.outputs, {}, op.origin)
    return [replace(op, outputs=(moved,)), convert]


def _convert_each(op: Op, x: Tensor, outputs: list[Tensor], editor: Editor) -> list[Op]:
    """Parts with formats of their own are cut off first: no part may go through the format of another."""
    names, after = [], []
    for y in outputs:
        if _same(x, y):
            names.append(y.name)
            continue
        names.append(editor.add(Tensor(f"{y.name}:moved", y.shape, x.dtype, x.quant)))
        after.append(Op(conversion_kind(x, y), f"{op.name}:format", (names[-1],), (y.name,), {}, op.origin))
    return [replace(op, outputs=tuple(names)), *after]


def _converted(x: Tensor, y: Tensor, op: Op, editor: Editor, before: list[Op]) -> str:
    if _same(x, y):
        return x.name

    def make() -> str:
        name = editor.add(Tensor(f"{x.name}:as {y.name}", x.shape, y.dtype, y.quant))
        before.append(Op(conversion_kind(x, y), f"{op.name}:format", (x.name,), (name,), {}, op.origin))
        return name

    return editor.once(x.name, f"as {y.name}", make)
