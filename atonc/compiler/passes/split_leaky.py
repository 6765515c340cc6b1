"""Layers whose real results go through a leaky ReLU before they are quantised: two layers and a maximum, all on codes.

max(x, a * x) is the leaky ReLU for a slope a below 1, and rounding keeps the order: the larger of both rounded results
is the rounded result. The second layer differs in the scale of its weights only.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Quantisation
from atonc.compiler.passes.edit import Editor, rewrite
from atonc.compiler.passes.fuse_affine import WEIGHTED


def split_leaky(graph: Graph) -> Graph:
    return rewrite(graph, _split)


def _split(op: Op, editor: Editor) -> list[Op] | None:
    alpha = float(op.attrs.get("alpha", 1.0)) if op.kind == "leaky_relu" else 1.0
    layer = editor.producer(op.inputs[0]) if 0.0 < alpha < 1.0 else None
    if layer is None or layer.kind not in WEIGHTED or "clip" in layer.attrs or not _fits(layer, op, editor):
        return None
    weights = editor.tensor(layer.inputs[1])
    quant = weights.quant
    assert quant is not None
    slower = editor.add(
        replace(
            weights,
            name=f"{weights.name}:leak",
            quant=Quantisation(alpha * quant.scales, quant.zero_points, quant.axis),
        )
    )
    plain, leak = (editor.like(op.outputs[0], part) for part in ("plain", "leak"))
    editor.replace_op(layer, replace(layer, outputs=(plain,), origin=(*layer.origin, *op.origin)))
    other = replace(
        layer, name=f"{layer.name}:leak", inputs=(layer.inputs[0], slower, *layer.inputs[2:]), outputs=(leak,)
    )
    return [other, Op("maximum", op.name, (plain, leak), op.outputs, {}, op.origin)]


def _fits(layer: Op, op: Op, editor: Editor) -> bool:
    x, weights = (editor.tensor(name) for name in layer.inputs[:2])
    bias = editor.tensor(layer.inputs[2]) if len(layer.inputs) > 2 and layer.inputs[2] else None
    middle, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    codes = all(t.quant is not None and t.dtype == "int8" for t in (x, weights, y))
    counted = bias is None or (bias.dtype == "int32" and bias.quant is None and bias.is_constant)
    return codes and counted and weights.is_constant and middle.is_float and editor.read_once(middle.name)
