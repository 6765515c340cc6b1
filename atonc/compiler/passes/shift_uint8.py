"""Old models count in uint8: every tensor is shifted to int8, the same real values. The edges keep their bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops.rounding import AS_CODES, AS_UINT8, ATTRIBUTE
from atonc.compiler.passes.edit import Editor, rewrite

CODE_READERS = ("cast",)  # operators that look at the codes themselves


def shift_uint8(graph: Graph) -> Graph:
    if not any(_is_uint8(tensor) for tensor in graph.tensors.values()):
        return graph
    edges = {*graph.inputs, *graph.outputs}
    tensors = {
        name: shifted(tensor) if _is_uint8(tensor) and name not in edges else tensor
        for name, tensor in graph.tensors.items()
    }
    ops = tuple(_rounded_as_before(op) if _is_uint8(graph.tensors[op.outputs[0]]) else op for op in graph.ops)
    moved = {name for name, tensor in tensors.items() if tensor is not graph.tensors[name]}
    return rewrite(replace(graph, tensors=tensors, ops=ops), lambda op, editor: _shift_edges(op, editor, moved))


def _rounded_as_before(op: Op) -> Op:
    """What rounds codes goes on to round those of the model."""
    if op.attrs.get(ATTRIBUTE) != AS_CODES:
        return op
    return replace(op, attrs={**op.attrs, ATTRIBUTE: AS_UINT8})


def _is_uint8(tensor: Tensor) -> bool:
    return tensor.dtype == "uint8" and tensor.quant is not None


def shifted(tensor: Tensor) -> Tensor:
    quant = tensor.quant
    if quant is None:
        return tensor
    moved = Quantisation(quant.scales, quant.zero_points - 128, quant.axis)
    data = None if tensor.data is None else (tensor.data.astype(np.int16) - 128).astype(np.int8)
    return replace(tensor, dtype="int8", quant=moved, data=data)


def _shift_edges(op: Op, editor: Editor, moved: set[str]) -> list[Op]:
    before: list[Op] = []
    inputs = tuple(_input(name, op, editor, before, moved) for name in op.inputs)
    outputs, after = [], []
    for name in op.outputs:
        tensor = editor.tensor(name) if name else None
        if tensor is None or not _is_uint8(tensor):
            outputs.append(name)
            continue
        inner = editor.add(replace(shifted(tensor), name=f"{name}:int8"))
        editor.once(name, "int8", lambda inner=inner: inner)  # type: ignore[misc]
        outputs.append(inner)
        after.append(Op("int8_to_uint8", f"{op.name}:uint8", (inner,), (name,), {}, op.origin))
    return [*before, replace(op, inputs=inputs, outputs=tuple(outputs)), *after]


def _input(name: str, op: Op, editor: Editor, before: list[Op], moved: set[str]) -> str:
    if not name:
        return name
    tensor = editor.tensor(name)
    if op.kind in CODE_READERS and name in moved:
        made = editor.add(replace(tensor, name=f"{name}:uint8", dtype="uint8", quant=_unshifted(tensor)))
        before.append(Op("int8_to_uint8", f"{op.name}:uint8", (name,), (made,), {}, op.origin))
        return made
    if op.kind in CODE_READERS or not _is_uint8(tensor):
        return name

    def make() -> str:
        inner = editor.add(replace(shifted(tensor), name=f"{name}:int8"))
        before.append(Op("uint8_to_int8", f"{name}:int8", (name,), (inner,), {}, op.origin))
        return inner

    return editor.once(name, "int8", make)


def _unshifted(tensor: Tensor) -> Quantisation | None:
    quant = tensor.quant
    return None if quant is None else Quantisation(quant.scales, quant.zero_points + 128, quant.axis)
