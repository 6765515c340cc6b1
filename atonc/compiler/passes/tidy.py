"""What makes a graph smaller, or plainer, and changes no number: constants, repetitions, operators that do nothing."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph, Op, Tensor, check
from atonc.compiler.ops import run_op
from atonc.compiler.passes.edit import Editor, renamed, rewrite, rewrites, same_format

MAX_ELEMENTS = 1 << 25  # in all; what goes beyond stays computed


def fold_constants(graph: Graph) -> Graph:
    """Whatever depends on constants only is computed now; so are shapes."""
    left = MAX_ELEMENTS

    def fold(op: Op, editor: Editor) -> list[Op] | None:
        nonlocal left
        if op.kind == "shape":
            data = np.array(editor.tensor(op.inputs[0]).shape, editor.tensor(op.outputs[0]).dtype)
            return _keep_results(op, editor, [data])
        if op.kind == "dequantize" and op.outputs[0] in editor.outputs:
            return None  # the codes are smaller than what they become at the output
        inputs = editor.tensors_of(op.inputs)
        size = sum(tensor.elements for tensor in editor.tensors_of(op.outputs))
        if any(not tensor.is_constant for tensor in inputs) or size > left:
            return None
        left -= size
        scratch = replace(editor.graph, tensors=editor.tensors)
        results = run_op(scratch, op, {tensor.name: tensor.data for tensor in inputs if tensor.data is not None})
        return _keep_results(op, editor, [result.codes for result in results])

    return rewrite(graph, fold)


def _keep_results(op: Op, editor: Editor, values: list[np.ndarray]) -> list[Op]:
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


def merge_constants(graph: Graph) -> Graph:
    """Equal constants are one constant."""
    constants = {name: t for name, t in graph.tensors.items() if t.data is not None and name not in graph.outputs}
    looks = {name: _looks(tensor) for name, tensor in constants.items()}
    alike = Counter(looks.values())
    first: dict[object, str] = {}
    moved = {
        name: first.setdefault((looks[name], _content(tensor)), name)
        for name, tensor in constants.items()
        if alike[looks[name]] > 1
    }
    gone = {name for name, kept in moved.items() if kept != name}
    if not gone:
        return graph
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in gone}
    return check(replace(graph, ops=renamed(graph.ops, moved), tensors=tensors), graph.tensors)


def _looks(tensor: Tensor) -> tuple[object, ...]:
    quant = tensor.quant
    scales = () if quant is None else (quant.scales.tobytes(), quant.zero_points.tobytes(), quant.axis)
    return tensor.dtype, tensor.shape, scales


def _content(tensor: Tensor) -> bytes:
    return hashlib.sha256(b"" if tensor.data is None else tensor.data.tobytes()).digest()


def merge_repeats(graph: Graph) -> Graph:
    """The same operator on the same inputs is computed once."""
    seen: dict[tuple[object, ...], Op] = {}

    def merge(op: Op, editor: Editor) -> list[Op] | None:
        if len(op.outputs) != 1:
            return None
        y = editor.tensor(op.outputs[0])
        key = op.kind, op.inputs, repr(sorted(op.attrs.items())), y.dtype, y.shape, y.scale, y.zero_point
        first = seen.setdefault(key, op)
        if first is op or y.name in editor.outputs:
            return None
        x = editor.tensor(first.outputs[0])
        if x.shape != y.shape or not same_format(x, y):
            return None
        return [] if editor.redirect(y.name, x.name) else None

    return rewrite(graph, merge)


CONVERSIONS = ("identity", "requantize", "quantize", "dequantize", "cast")
MOVES = ("reshape", "expand", "tile", "resize_nearest", "resize_linear", "slice", "concat", "split")


@rewrites
def drop_identities(op: Op, editor: Editor) -> list[Op] | None:
    """Operators that change nothing vanish: reshapes to the same shape, conversions to the same format, empty pads."""
    if op.kind == "reshape":
        op = _join_reshapes(op, editor)
    if op.kind == "slice":
        op = _join_slices(op, editor)
    if op.kind == "concat":
        op = _join_parts(op, editor)
    if changes_nothing(op, editor) and editor.redirect(op.outputs[0], op.inputs[0]):
        return []
    return [op]


def _join_reshapes(op: Op, editor: Editor) -> Op:
    before = editor.producer(op.inputs[0])
    if before is None or before.kind != "reshape":
        return op
    x, middle = editor.tensor(before.inputs[0]), editor.tensor(op.inputs[0])
    if not same_format(x, middle):
        return op
    editor.readers[op.inputs[0]] -= 1
    editor.readers[before.inputs[0]] += 1
    return Op(op.kind, op.name, before.inputs[:1], op.outputs, op.attrs, (*before.origin, *op.origin))


def _join_slices(op: Op, editor: Editor) -> Op:
    """A slice of a part, or of a slice, is one of the whole."""
    before, middle = editor.producer(op.inputs[0]), editor.tensor(op.inputs[0])
    if before is None or before.kind not in ("slice", "split"):
        return op
    first, strides = [0] * len(middle.shape), [1] * len(middle.shape)
    if before.kind == "slice":
        first, strides = list(before.attrs["starts"]), list(before.attrs["steps"])
    else:
        axis, place = before.attrs["axis"] % len(middle.shape), before.outputs.index(middle.name)
        first[axis] = sum(editor.tensor(name).shape[axis] for name in before.outputs[:place])
    starts, stops, steps = (op.attrs[key] for key in ("starts", "stops", "steps"))
    known = None not in (*first, *starts, *stops) and min(*first, *starts, *stops) >= 0 and min(*strides, *steps) > 0
    if not known or not same_format(editor.tensor(before.inputs[0]), middle):
        return op
    editor.readers[op.inputs[0]] -= 1
    editor.readers[before.inputs[0]] += 1
    attrs = {
        **op.attrs,
        "starts": tuple(a + b * c for a, b, c in zip(first, strides, starts, strict=True)),
        "stops": tuple(a + b * c for a, b, c in zip(first, strides, stops, strict=True)),
        "steps": tuple(a * b for a, b in zip(strides, steps, strict=True)),
    }
    return Op(op.kind, op.name, before.inputs[:1], op.outputs, attrs, (*before.origin, *op.origin))


def _join_parts(op: Op, editor: Editor) -> Op:
    """All parts of a tensor, one behind the other, are that tensor: blocks of detectors split what they join again."""
    axis, joined = op.attrs["axis"] % len(editor.tensor(op.outputs[0]).shape), list[str]()
    open_parts: list[tuple[str, int]] = []  # of one tensor, each with where it ends
    for name in op.inputs:
        whole, first, stop = _part(name, axis, editor)
        follows = open_parts[-1:] == [(whole, first)]
        open_parts = [*(open_parts if first else ()), (whole, stop)] if follows or not first else []
        joined.append(name)
        if len(open_parts) > 1 and stop == editor.tensor(whole).shape[axis]:
            editor.readers.subtract(joined[-len(open_parts) :])
            editor.readers[whole] += 1
            joined[-len(open_parts) :] = [whole]
    return replace(op, inputs=tuple(joined))


def _part(name: str, axis: int, editor: Editor) -> tuple[str, int, int]:
    """The tensor that it is a part of along an axis, where it begins and ends there; itself, if it is none."""
    op, size = editor.producer(name), editor.tensor(name).shape[axis]
    if op is not None and "clip" not in op.attrs and same_format(editor.tensor(op.inputs[0]), editor.tensor(name)):
        shape, first = editor.tensor(op.inputs[0]).shape, -1
        if op.kind == "split" and op.attrs["axis"] % len(shape) == axis:
            before = editor.tensors_of(op.outputs[: op.outputs.index(name)])
            first = sum(one.shape[axis] for one in before)
        elif op.kind == "slice" and {1, *op.attrs["steps"]} == {1}:
            first = -1 if op.attrs["starts"][axis] is None else op.attrs["starts"][axis]
        if first >= 0 and (*shape[:axis], size, *shape[axis + 1 :]) == editor.tensor(name).shape:
            return op.inputs[0], first, first + size
    return name, 0, size


def changes_nothing(op: Op, editor: Editor) -> bool:
    if len(op.outputs) != 1 or not op.inputs or not op.inputs[0] or "clip" in op.attrs:
        return False
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if x.shape != y.shape or not same_format(x, y):
        return False
    if op.kind in CONVERSIONS:
        return True
    if op.kind == "transpose":
        return tuple(op.attrs["perm"]) == tuple(range(len(x.shape)))
    if op.kind == "pad":
        return not any(amount for both in op.attrs["pads"] for amount in both)
    if op.kind == "slice":
        return all(step == 1 for step in op.attrs["steps"])
    if op.kind in ("resize_nearest", "resize_linear"):
        scales = op.attrs.get("scales")
        return not scales or all(scale == 1.0 for scale in scales)
    if op.kind in ("max_pool", "average_pool"):
        plain = tuple(op.attrs["window"]) in ((1,), (1, 1)) and tuple(op.attrs["stride"]) == (1, 1)
        return plain and op.attrs.get("activation", "none") == "none" and not any(op.attrs["padding"])
    return op.kind in MOVES


def write_constant_outputs(graph: Graph) -> Graph:
    """Outputs that are constants: an operator writes them, like every other output."""
    constants = {name: f"{name}:constant" for name in graph.outputs if graph.tensors[name].is_constant}
    if not constants:
        return graph
    tensors = dict(graph.tensors)
    for name, inner in constants.items():
        tensors[inner] = replace(tensors[name], name=inner)
        tensors[name] = replace(tensors[name], data=None)
    copies = [Op("identity", f"{name}:copy", (inner,), (name,), {}, (name,)) for name, inner in constants.items()]
    return replace(graph, tensors=tensors, ops=(*renamed(graph.ops, constants), *copies))


def name_uniquely(graph: Graph) -> Graph:
    """No two operators share a name: CPU steps, costs and reports find operators by it. Later ones are numbered."""
    names = {op.name for op in graph.ops}
    seen, last = set[str](), dict[str, int]()  # the number that the last one of this name got
    ops = []
    for op in graph.ops:
        name, number = op.name, last.get(op.name, 1)
        while name in seen or (name != op.name and name in names):
            number += 1
            name = f"{op.name}#{number}"
        seen.add(name)
        last[op.name] = number
        ops.append(op if name == op.name else replace(op, name=name))
    return replace(graph, ops=tuple(ops))
