"""Whatever depends on constants only is computed now; so are shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops import run_op
from atonc.compiler.passes.edit import Editor, rewrite

MAX_ELEMENTS = 1 << 25  # in all; what goes beyond stays computed


class _Budget:
    """How many values may still be folded."""

    def __init__(self) -> None:
        self.left = MAX_ELEMENTS

    def take(self, elements: int) -> bool:
        if elements > self.left:
            return False
        self.left -= elements
        return True


def fold_constants(graph: Graph) -> Graph:
    budget = _Budget()
    return rewrite(graph, lambda op, editor: _fold(op, editor, budget))


def _fold(op: Op, editor: Editor, budget: _Budget) -> list[Op] | None:
    if op.kind == "shape":
        data = np.array(editor.tensor(op.inputs[0]).shape, editor.tensor(op.outputs[0]).dtype)
        return _keep_outputs(op, editor, [data])
    if op.kind == "dequantize" and op.outputs[0] in editor.outputs:
        return None  # the codes are smaller than what they become at the output
    inputs = editor.tensors_of(op.inputs)
    size = sum(tensor.elements for tensor in editor.tensors_of(op.outputs))
    if any(not tensor.is_constant for tensor in inputs) or not budget.take(size):
        return None
    scratch = replace(editor.graph, tensors=editor.tensors)
    results = run_op(scratch, op, {tensor.name: tensor.data for tensor in inputs if tensor.data is not None})
    return _keep_outputs(op, editor, [result.codes for result in results])


def _keep_outputs(op: Op, editor: Editor, values: list[np.ndarray]) -> list[Op]:
    """Results become constants. One that is an output of the graph is copied there by an operator that remains."""
    kept = []
    for name, value in zip(op.outputs, values, strict=True):
        if not name:
            continue
        tensor = editor.tensor(name)
        data = np.ascontiguousarray(value.astype(tensor.dtype if tensor.dtype != "int4" else "int8"))
        if name not in editor.outputs:
            editor.tensors[name] = replace(tensor, data=data.reshape(tensor.shape))
        elif op.kind != "identity":
            made = editor.add(replace(tensor, name=f"{name}:value", data=data.reshape(tensor.shape)))
            kept.append(Op("identity", op.name, (made,), (name,), {}, op.origin))
        else:
            kept.append(op)
    return kept
