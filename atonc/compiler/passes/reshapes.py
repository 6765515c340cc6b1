"""Operators that move values in terms of few: reshape, concat, split, slice and tile; and where reshapes stand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.passes.edit import Editor, rewrites
from atonc.compiler.passes.layout import BROADCASTING, ELEMENTWISE


@rewrites
def lower_packs(op: Op, editor: Editor) -> list[Op] | None:
    """Pack, unpack, gather of regular indices and slices with open ends, in terms of reshape, concat, split and
    slice."""
    lowering = {"pack": _pack, "unpack": _unpack, "gather": _gather, "slice": _slice, "expand": _expand}
    if op.kind == "split" and len(op.outputs) == 1:  # a single part is no split
        return [replace(op, kind="identity", attrs={})]
    return lowering[op.kind](op, editor) if op.kind in lowering else None


def _reshape(op: Op, source: str, target: str) -> Op:
    return Op("reshape", f"{op.name}:{target}", (source,), (target,), {}, op.origin)


def _pack(op: Op, editor: Editor) -> list[Op]:
    axis = op.attrs["axis"]
    ops, inputs = [], []
    for name in op.inputs:
        shape = editor.tensor(name).shape
        data = editor.tensor(name).data
        wide = (*shape[:axis], 1, *shape[axis:])
        if data is not None:
            tensor = editor.tensor(name)
            inputs.append(editor.constant(f"{name}:packed", data.reshape(wide), tensor.quant, tensor.dtype))
            continue
        inputs.append(editor.like(name, "packed", shape=wide))
        ops.append(_reshape(op, name, inputs[-1]))
    return [*ops, replace(op, kind="concat", inputs=tuple(inputs))]


def _unpack(op: Op, editor: Editor) -> list[Op]:
    axis, shape = op.attrs["axis"], editor.tensor(op.inputs[0]).shape
    part = (*shape[:axis], 1, *shape[axis + 1 :])
    inner = tuple(editor.like(name, "part", shape=part) for name in op.outputs)
    ends = [_reshape(op, source, target) for source, target in zip(inner, op.outputs, strict=True)]
    return [replace(op, kind="split", outputs=inner), *ends]


def _expand(op: Op, editor: Editor) -> list[Op] | None:
    """Broadcasting is tiling after the missing dimensions are there."""
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    missing = len(y.shape) - len(x.shape)
    if not missing:
        return [replace(op, kind="tile", attrs={})]
    wide = editor.like(x.name, "wide", shape=(1,) * missing + x.shape)
    return [_reshape(op, x.name, wide), replace(op, kind="tile", inputs=(wide,), attrs={})]


def _gather(op: Op, editor: Editor) -> list[Op] | None:
    """Constant indices in even steps upwards are a slice."""
    x, indices, y = (editor.tensor(name) for name in (op.inputs[0], op.inputs[1], op.outputs[0]))
    axis = op.attrs["axis"]
    if indices.data is None or not indices.elements or x.is_constant:
        return None
    positions = np.asarray(indices.data, np.int64).reshape(-1) % x.shape[axis]
    steps = np.diff(positions)
    step = int(steps[0]) if steps.size else 1
    if step < 1 or np.any(steps != step):
        return None
    bounds = [(0, size, 1) for size in x.shape]
    bounds[axis] = (int(positions[0]), int(positions[-1]) + 1, step)
    return _sliced(replace(op, kind="slice", inputs=op.inputs[:1]), bounds, x, y, editor)


def _slice(op: Op, editor: Editor) -> list[Op] | None:
    """Bounds become plain numbers; an axis that vanishes does so in a reshape."""
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    parts = list(zip(op.attrs["starts"], op.attrs["stops"], op.attrs["steps"], x.shape, strict=True))
    if any(step < 1 for _, _, step, _ in parts):
        return None
    bounds = [slice(start, stop, step).indices(size) for start, stop, step, size in parts]
    return _sliced(op, bounds, x, y, editor)


def _sliced(op: Op, bounds: list[tuple[int, int, int]], x: Tensor, y: Tensor, editor: Editor) -> list[Op]:
    attrs = dict(zip(("starts", "stops", "steps"), zip(*bounds, strict=True), strict=True))
    shape = tuple(len(range(*bound)) for bound in bounds)
    if shape == y.shape:
        return [replace(op, attrs=attrs)]
    inner = editor.like(y.name, "part", shape=shape)
    return [replace(op, attrs=attrs, outputs=(inner,)), _reshape(op, inner, y.name)]


MAX_RANK = 4
EDGES = ("dequantize", "int8_to_uint8")  # these write outputs: nothing should come after them


@rewrites
def move_reshapes(op: Op, editor: Editor) -> list[Op] | None:
    """Reshapes sink below operators that work value by value, where they meet others and vanish."""
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
    inputs = _inputs(op, y, shape, editor)
    if inputs is None:
        return None
    if shape == y.shape:
        return [replace(op, inputs=inputs)]
    inner = editor.like(y.name, "before", shape=shape)
    return [
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


def _inputs(op: Op, y: Tensor, shape: tuple[int, ...], editor: Editor) -> tuple[str, ...] | None:
    """Inputs in the shape from before; constants must be single values or belong to channels that stay last."""
    names = []
    for name in op.inputs:
        tensor = editor.tensor(name) if name else None
        if tensor is None:
            names.append(name)
        elif not tensor.is_constant:
            source, wide = _before_reshape(tensor, editor), replace(tensor, name=f"{name}:before", shape=shape)
            names.append(  # a reshape is free of charge: the bytes stay where they are
                editor.derived(name, wide, "reshape", wide.name, op.origin) if source is None else source.name
            )
        else:
            fitted = _constant(tensor, y, shape, editor)
            if fitted is None:
                return None
            names.append(fitted)
    return tuple(names)


def _constant(tensor: Tensor, y: Tensor, shape: tuple[int, ...], editor: Editor) -> str | None:
    if tensor.data is None:
        return None
    if tensor.elements != 1 and not (tensor.elements == tensor.shape[-1] == y.shape[-1] == shape[-1]):
        return None
    wide = (1,) * (len(shape) - 1) + (tensor.elements,)
    if len(tensor.shape) <= 1 or tensor.shape == wide:
        return tensor.name
    data, quant = tensor.data.reshape(wide), tensor.quant
    if quant is not None and not quant.is_per_tensor:  # only the last axis has more than one value
        quant = replace(quant, axis=len(wide) - 1)
    return editor.once(tensor.name, str(wide), lambda: editor.constant(tensor.name, data, quant, tensor.dtype))


BINARY = ("add", "sub", "mul", "minimum", "maximum")


@rewrites
def widen_operands(op: Op, editor: Editor) -> list[Op] | None:
    """Inputs of elementwise operators that repeat along several groups of dimensions are written out along all but the
    first: one engine walks one repetition.
    """
    if op.kind not in BINARY:
        return None
    inputs, before = [], len(editor.ops)
    for x in editor.tensors_of(op.inputs):
        shape = walkable(x.shape, editor.tensor(op.outputs[0]).shape)
        keeps = x.is_constant or x.is_float or shape == x.shape
        wide = replace(x, name=f"{x.name}:{'x'.join(map(str, shape))}", shape=shape)
        inputs.append(x.name if keeps else editor.derived(x.name, wide, "expand", "", op.origin))
    return [replace(op, inputs=tuple(inputs))] if len(editor.ops) > before else None


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
