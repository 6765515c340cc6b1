"""A transpose of real numbers that were codes a moment ago is done on the codes: a quarter of the bytes."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.passes.edit import Editor, rewrite
from atonc.compiler.passes.make_channel_last import ELEMENTWISE
from atonc.compiler.passes.orders import permuted

MAX_STEPS = 8


def move_transposes(graph: Graph) -> Graph:
    """Transposes and reshapes climb above operators that make real numbers, until nothing moves any more."""
    for _ in range(MAX_STEPS):
        moved = rewrite(graph, _move)
        if _places(moved) == _places(graph):
            break
        graph = moved
    return graph


def _places(graph: Graph) -> list[tuple[str, tuple[str, ...]]]:
    return [(op.kind, op.outputs) for op in graph.ops]


def _move(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in ("transpose", "reshape"):
        return None
    source = editor.producer(op.inputs[0])
    if source is None or source.kind not in ELEMENTWISE or not editor.read_once(op.inputs[0]):
        return None
    x, middle, y = (editor.tensor(name) for name in (source.inputs[0], op.inputs[0], op.outputs[0]))
    if not _gets_smaller(x, middle) or x.is_constant or len(source.inputs) != 1:
        return None
    shape = permuted(x.shape, op.attrs["perm"]) if op.kind == "transpose" else y.shape
    inner = editor.like(x.name, "moved", shape=shape)
    editor.readers[x.name] += 1
    return [replace(op, inputs=(x.name,), outputs=(inner,)), replace(source, inputs=(inner,), outputs=op.outputs)]


def _gets_smaller(x: Tensor, middle: Tensor) -> bool:
    """Real numbers, or the bytes of an edge: above them are codes, or real numbers on their way from codes."""
    per_tensor = x.quant is None or x.quant.is_per_tensor
    return per_tensor and (middle.is_float or middle.dtype == "uint8") and x.dtype not in ("float64", "int64")
