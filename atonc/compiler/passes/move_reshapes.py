"""Reshapes sink below operators that work value by value, where they meet others and vanish."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.passes.edit import Editor, rewrite
from atonc.compiler.passes.make_channel_last import BROADCASTING, ELEMENTWISE

MAX_RANK = 4
EDGES = ("dequantize", "int8_to_uint8")  # these write outputs: nothing should come after them


def move_reshapes(graph: Graph) -> Graph:
    return rewrite(graph, _sink)


def _sink(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in (*ELEMENTWISE, *BROADCASTING, "affine") or op.kind in EDGES:
        return None
    y = editor.tensor(op.outputs[0])
    live = [editor.tensor(name) for name in op.inputs if name and not editor.tensor(name).is_constant]
    sources = [_before_reshape(tensor, editor) for tensor in live if tensor.shape == y.shape]
    shapes = {source.shape for source in sources if source is not None}
    if len(sources) != len(live) or len(shapes) != 1:
        return None
    shape = shapes.pop()
    if len(shape) > MAX_RANK or (None in sources and len(shape) < MAX_RANK):
        return None
    before: list[Op] = []
    inputs = _inputs(op, y, shape, editor, before)
    if inputs is None:
        return None
    if shape == y.shape:
        return [*before, replace(op, inputs=inputs)]
    inner = editor.like(y.name, "before", shape=shape)
    return [
        *before,
        replace(op, inputs=inputs, outputs=(inner,)),
        Op("reshape", f"{op.name}:shape", (inner,), op.outputs, {}, op.origin),
    ]


def _before_reshape(tensor: Tensor, editor: Editor) -> Tensor | None:
    """The tensor that a chain of reshapes began with; None if there is no reshape."""
    producer, found = editor.producer(tensor.name), None
    while producer is not None and producer.kind == "reshape":
        found = editor.tensor(producer.inputs[0])
        producer = editor.producer(found.name)
    return found


def _inputs(op: Op, y: Tensor, shape: tuple[int, ...], editor: Editor, before: list[Op]) -> tuple[str, ...] | None:
    """Inputs in the shape from before; constants must be single values or belong to channels that stay last."""
    names = []
    for name in op.inputs:
        tensor = editor.tensor(name) if name else None
        if tensor is None:
            names.append(name)
        elif not tensor.is_constant:
            source = _before_reshape(tensor, editor)
            names.append(source.name if source is not None else _reshaped(tensor, shape, op, editor, before))
        else:
            fitted = _constant(tensor, y, shape, editor)
            if fitted is None:
                return None
            names.append(fitted)
    return tuple(names)


def _reshaped(tensor: Tensor, shape: tuple[int, ...], op: Op, editor: Editor, before: list[Op]) -> str:
    """Free of charge: the bytes stay where they are."""

    def make() -> str:
        name = editor.like(tensor.name, "before", shape=shape)
        before.append(Op("reshape", f"{tensor.name}:before", (tensor.name,), (name,), {}, op.origin))
        return name

    return editor.once(tensor.name, str(shape), make)


def _constant(tensor: Tensor, y: Tensor, shape: tuple[int, ...], editor: Editor) -> str | None:
    per_tensor = tensor.quant is None or tensor.quant.is_per_tensor
    if tensor.data is None or not per_tensor:
        return None
    if tensor.elements != 1 and not (tensor.elements == tensor.shape[-1] == y.shape[-1] == shape[-1]):
        return None
    wide = (1,) * (len(shape) - 1) + (tensor.elements,)
    if len(tensor.shape) <= 1 or tensor.shape == wide:
        return tensor.name
    data = tensor.data.reshape(wide)
    return editor.once(tensor.name, str(wide), lambda: editor.constant(tensor.name, data, tensor.quant, tensor.dtype))
