"""Windows over sequences become windows over pictures of height 1."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op
from atonc.compiler.passes.edit import Editor, rewrite

WINDOWED = ("conv", "transpose_conv", "max_pool", "average_pool")


def lift_sequences(graph: Graph) -> Graph:
    return rewrite(graph, _lift)


def _lift(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in WINDOWED or len(editor.tensor(op.inputs[0]).shape) != 3 or op.attrs["layout"] != "NHWC":
        return None
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    before: list[Op] = []

    def make() -> str:
        name = editor.like(x.name, "picture", shape=(x.shape[0], 1, *x.shape[1:]))
        before.append(Op("reshape", f"{op.name}:picture", (x.name,), (name,), {}, op.origin))
        return name

    picture = editor.once(x.name, "picture", make)
    result = editor.like(y.name, "picture", shape=(y.shape[0], 1, *y.shape[1:]))
    lifted = replace(op, inputs=(picture, *op.inputs[1:]), outputs=(result,))
    return [*before, lifted, Op("reshape", f"{op.name}:sequence", (result,), op.outputs, {}, op.origin)]
