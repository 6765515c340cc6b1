"""Pack, unpack, gather of regular indices and slices with open ends, in terms of reshape, concat, split and slice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.passes.edit import Editor, rewrite


def lower_packs(graph: Graph) -> Graph:
    return rewrite(graph, _lower)


def _lower(op: Op, editor: Editor) -> list[Op] | None:
    lowering = {
        "pack": _pack,
        "unpack": _unpack,
        "gather": _gather,
        "slice": _slice,
        "split": _split,
        "expand": _expand,
    }
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


def _split(op: Op, editor: Editor) -> list[Op] | None:
    """Parts of size 1 along the whole: nothing to do; a single part is no split."""
    return [replace(op, kind="identity", attrs={})] if len(op.outputs) == 1 else None


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
