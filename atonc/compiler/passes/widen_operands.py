"""Inputs of elementwise operators that repeat along several groups of dimensions are written out along all but the
first: one engine walks one repetition."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.passes.edit import Editor, rewrite

BINARY = ("add", "sub", "mul", "minimum", "maximum")


def widen_operands(graph: Graph) -> Graph:
    return rewrite(graph, _widen)


def _widen(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in BINARY:
        return None
    out, before = editor.tensor(op.outputs[0]).shape, list[Op]()
    inputs = tuple(_wide_enough(editor.tensor(name), out, op, editor, before) for name in op.inputs)
    return [*before, replace(op, inputs=inputs)] if before else None


def _wide_enough(x: Tensor, out: tuple[int, ...], op: Op, editor: Editor, before: list[Op]) -> str:
    shape = walkable(x.shape, out)
    if x.is_constant or x.is_float or shape == x.shape:
        return x.name

    def make() -> str:
        name = editor.add(replace(x, name=f"{x.name}:{'x'.join(map(str, shape))}", shape=shape))
        before.append(Op("expand", name, (x.name,), (name,), {}, op.origin))
        return name

    return editor.once(x.name, f"as {shape}", make)


def walkable(shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    """The smallest shape that repeats along one group of dimensions only; the same if it does so already."""
    dims = (1,) * (len(out) - len(shape)) + shape
    groups, previous = 0, True
    found = []
    for own, whole in zip(dims, out, strict=True):
        varies = own == whole != 1 if whole != 1 else previous
        groups += previous and not varies
        found.append(own if groups <= 1 else whole)
        previous = varies
    return shape if tuple(found) == dims else tuple(found)
