"""Biases of quantised layers as int32 in units of the accumulator (input scale x weight scale), without a scale.

A bias that was float is rounded to half a unit of the accumulator, far below a code of the output.
"""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Graph, Op
from atonc.compiler.passes.edit import Editor, rewrite
from atonc.compiler.passes.fuse_affine import WEIGHTED, accumulator_units, bias_values

LIMIT = (1 << 31) - 1


def make_integer_biases(graph: Graph) -> Graph:
    return rewrite(graph, _convert)


def _convert(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in WEIGHTED or len(op.inputs) < 3 or not op.inputs[2]:
        return None
    x, weights, bias = (editor.tensor(name) for name in op.inputs[:3])
    if x.quant is None or weights.quant is None or bias.data is None:
        return None
    if bias.quant is None and bias.dtype == "int32" and len(bias.shape) == 1:
        return None
    steps = np.rint(bias_values(bias, x, weights) / accumulator_units(x, weights))
    if np.any(np.abs(steps) > LIMIT):
        return None
    steps = np.array(np.broadcast_to(steps, (weights.shape[0],)))
    name = editor.constant(f"{bias.name}:{op.outputs[0]}", steps.astype(np.int32))
    return [Op(op.kind, op.name, (*op.inputs[:2], name), op.outputs, op.attrs, op.origin)]
