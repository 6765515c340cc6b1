"""The parts of transformers, however they were spelled, as operators that the compiler has forms for: norms of rows as
one operator, so that nothing in them has codes; dense layers with their bias; attention as products; masks that codes
can say. The model computes the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import A_MASK, FloatGraph, attribute
from atonc.insight.quantizing.observe import part_of, run, session
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass

LAYER, RMS = "LayerNormalization", "RMSNormalization"
RMS_OPSET = 23  # the first that has RMSNormalization
OF_NORMS = ("ReduceMean", "Sub", "Mul", "Pow", "Add", "Sqrt", "Reciprocal", "Div", "Neg", "Identity", "Cast")
LOUDNESS = (1.7, 1.7, 1.7, 0.003)  # of what is tried; the last tells epsilon
NEAR = 1e-3  # of the largest value
MOST_EPSILON = 1e-2
MASKED = -1000.0  # exp of it is nothing; int8 can say 0 and it


def spelled_norms(model: Any, raised: Callable[[Any, int], Any]) -> Any:
    """LayerNorm and RMSNorm of the last axis that are written out become one node each. What a spelling computes is
    found by running it: it is a norm if its results are those of one, with a gain and an offset for each column."""
    from onnx import helper, numpy_helper

    graph, gone, found = FloatGraph(model), set[str](), list[_Norm]()
    for mean in [node for node in graph.nodes if node.op_type == "ReduceMean" and _of_rows(graph, node)]:
        norm = None if mean.output[0] in gone else _norm_at(graph, mean)
        if norm is not None:
            found.append(norm)
            gone.update(norm.inside)
    if any(norm.kind == RMS for norm in found) and model.opset_import[0].version < RMS_OPSET:
        try:
            return spelled_norms(raised(model, RMS_OPSET), raised)
        except UnsupportedError:  # an operator that cannot be converted: it stays as it is spelled
            found = [norm for norm in found if norm.kind != RMS]
    for norm in found:
        names = [f"{norm.last}:{word}" for word in ("gain", "offset")[: len(norm.parts)]]
        for name, value in zip(names, norm.parts, strict=True):
            model.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
        old = graph.producer[norm.last]
        made = helper.make_node(norm.kind, [norm.source, *names], [norm.last], old.name, axis=-1, epsilon=norm.epsilon)
        old.CopyFrom(made)
    _drop_unread(model.graph)
    return model


@dataclass(frozen=True, eq=False)
class _Norm:
    kind: str
    source: str
    last: str  # the tensor that is a norm of it
    epsilon: float
    parts: tuple[Array, ...]  # gain, and offset where the kind has one
    inside: tuple[str, ...]


def _drop_unread(graph: Any) -> None:
    while True:
        read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
        dead = [node for node in graph.node if read.isdisjoint(node.output)]
        if not dead:
            return
        for node in dead:
            graph.node.remove(node)


def _of_rows(graph: FloatGraph, node: Any) -> bool:
    """Whether it is the mean over the last axis, which stays."""
    axes = attribute(node, "axes", None) or graph.constants.get(node.input[1] if len(node.input) > 1 else "", ())
    rank = len(graph.shapes.get(node.input[0], ()))
    return rank > 0 and [int(a) % rank for a in axes] == [rank - 1] and bool(attribute(node, "keepdims", 1))


def _norm_at(graph: FloatGraph, mean: Any) -> _Norm | None:
    """The last tensor that is a norm of what this mean is of, or of what its squares are of."""
    source = mean.input[0]
    squared = graph.producer.get(source)
    before = graph.activations(squared) if squared is not None and squared.op_type in ("Pow", "Mul") else []
    for start in (source, *before[:1]):
        region = _functions_of(graph, start)
        shape, names = graph.shapes.get(start, ()), [node.output[0] for node in region]
        wanted = [name for name in names if graph.shapes.get(name) == shape]
        if mean.output[0] not in names or not wanted or not all(shape):
            continue
        used = [name for node in region for name in node.input if name in graph.constants]
        scalars = (float(graph.constants[name].reshape(-1)[0]) for name in used if graph.constants[name].size == 1)
        epsilon = next((value for value in scalars if 0 < value < MOST_EPSILON), 0.0)
        for last, values, x in _tried(graph, region, start, wanted):
            for kind in (LAYER, RMS):
                parts = _fitted(kind, x, values, epsilon)
                if parts:
                    return _Norm(kind, start, last, epsilon, parts, tuple(names[: names.index(last) + 1]))
    return None


def _functions_of(graph: FloatGraph, start: str) -> list[Any]:
    """Nodes of the kinds that norms are written with, that read it and constants alone."""
    known, found = {start}, list[Any]()
    for node in graph.nodes:
        live = [name for name in node.input if name and name not in graph.constants]
        if node.op_type in OF_NORMS and live and known.issuperset(live):
            known.update(node.output)
            found.append(node)
    return found


def _tried(
    graph: FloatGraph, region: Sequence[Any], start: str, wanted: list[str]
) -> Iterator[tuple[str, Array, Array]]:
    """The last tensors first: what they hold for rows that mean nothing, and those rows."""
    from onnx import TensorProto, helper, numpy_helper

    shape = graph.shapes[start]
    inputs = [helper.make_tensor_value_info(start, TensorProto.FLOAT, shape)]
    read = dict.fromkeys(name for node in region for name in node.input if name in graph.constants)
    stored = [numpy_helper.from_array(graph.constants[name], name) for name in read]
    running, random = session(part_of(graph.model, region, inputs, wanted, stored)), np.random.default_rng(0)
    x = [(random.normal(0.3, 1, shape) * loud).astype(np.float32) for loud in LOUDNESS]
    runs = [run(running, {start: one}, wanted) for one in x]
    for name, values in reversed(list(zip(wanted, zip(*runs, strict=True), strict=True))):
        yield name, np.stack([value.reshape(-1, shape[-1]) for value in values]), np.stack(
            [one.reshape(-1, shape[-1]) for one in x])  # fmt: skip


def _fitted(kind: str, x: Array, values: Array, epsilon: float) -> tuple[Array, ...]:
    """Gain and offset (if it has one) with which a norm of the rows is what was computed; nothing if there are none."""
    rows = x.astype(np.float64)
    rows = rows - rows.mean(-1, keepdims=True) if kind == LAYER else rows
    normed = rows / np.sqrt(np.square(rows).mean(-1, keepdims=True) + epsilon)
    loud, heard = (one[:-1].reshape(-1, x.shape[-1]) for one in (normed, values.astype(np.float64)))
    middle = loud.mean(0) if kind == LAYER else np.zeros(x.shape[-1])
    gain = ((loud - middle) * heard).sum(0) / np.maximum(np.square(loud - middle).sum(0), 1e-12)
    offset = (heard - gain * loud).mean(0) if kind == LAYER else middle
    off = np.abs(gain * normed + offset - values).max()
    if off > NEAR * max(np.abs(values).max(), 1e-6):
        return ()
    return (gain, offset) if kind == LAYER else (gain,)


def dense_layers(graph: Any) -> None:
    """A product of rows with a matrix and the sum behind it are one layer: Gemm, which reads two axes. In place."""
    from onnx import helper, numpy_helper

    constants = {proto.name: proto for proto in graph.initializer}
    sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
             for v in (*graph.value_info, *graph.input, *graph.output)}  # fmt: skip
    readers = [name for node in graph.node for name in node.input]
    outputs = {value.name for value in graph.output}
    for node in [node for node in graph.node if node.op_type == "MatMul" and node.input[1] in constants]:
        shape, matrix, y = sizes.get(node.input[0], []), constants[node.input[1]], node.output[0]
        if len(matrix.dims) != 2 or len(shape) < 2 or not all(shape):
            continue
        after = [one for one in graph.node if y in one.input and one.op_type == "Add"]
        bias = next((n for one in after for n in one.input if n in constants), "")
        fits = bias and list(constants[bias].dims)[-1:] == [matrix.dims[1]] == [int(np.prod(constants[bias].dims))]
        if y in outputs or readers.count(y) != 1 or not fits:
            continue
        label, ends = node.name or y, (("rows", [-1, shape[-1]]), ("back", [*shape[:-1], matrix.dims[1]]))
        for word, size in ends:
            graph.initializer.append(numpy_helper.from_array(np.array(size, np.int64), f"{label}:{word}"))
        flat = numpy_helper.to_array(constants[bias]).reshape(-1)
        graph.initializer.append(numpy_helper.from_array(flat, f"{label}:bias"))
        made = helper.make_node("Gemm", [f"{label}:flat", node.input[1], f"{label}:bias"], [f"{label}:product"], label)
        first = helper.make_node("Reshape", [node.input[0], f"{label}:rows"], [f"{label}:flat"], f"{label}:reshape")
        last = helper.make_node("Reshape", [f"{label}:product", f"{label}:back"], [after[0].output[0]], after[0].name)
        node.CopyFrom(made)
        after[0].CopyFrom(last)
        graph.node.insert(list(graph.node).index(node), first)


def attention_as_products(model: Any) -> tuple[Any, bool]:
    """Attention and rotations as one node have no scales inside; their parts have. Whether there was any."""
    from onnx import helper, inliner

    whole = ("Attention", "RotaryEmbedding")
    if not any(node.op_type in whole and node.domain in ("", "ai.onnx") for node in model.graph.node):
        return model, False
    said = {value.name for value in (*model.graph.value_info, *model.graph.input)}
    for one in model.graph.initializer:  # a mask, say: the inliner wants its type in so many words
        if one.name not in said:
            model.graph.value_info.append(helper.make_tensor_value_info(one.name, one.data_type, one.dims))
    wanted = [("", kind) for kind in whole]
    return inliner.inline_selected_functions(model, wanted, inline_schema_functions=True), True


def sums_as_products(graph: Any) -> None:
    """An Einsum that multiplies rows of one tensor with columns of another is a MatMul between transposes. In place."""
    from onnx import helper

    for node in [node for node in graph.node if node.op_type == "Einsum" and len(node.input) == 2]:
        terms, _, y = attribute(node, "equation", b"").decode().replace(" ", "").partition("->")
        a, _, b = terms.partition(",")
        same, many = [one for one in y if one in a and one in b], [one for one in y if one in a and one not in b]
        inner, column = [one for one in a if one in b and one not in y], [one for one in y if one in b and one not in a]
        sides = [same + many + inner, same + inner + column, same + many + column]
        fits = len(inner) == len(column) == 1 and (len(many) == 1 or (many and not same))  # of a matrix: any rows
        if not fits or not (a + b + y).isalpha() or [*map(sorted, sides)] != [*map(sorted, (a, b, y))]:
            continue
        label, place = node.name or node.output[0], list(graph.node).index(node)
        orders = [
            [a.index(one) for one in sides[0]],
            [b.index(one) for one in sides[1]],
            [sides[2].index(one) for one in y],
        ]
        names = [f"{label}:{word}" for word in ("rows", "columns", "product")]
        reads = zip((*node.input, names[2]), (*names[:2], node.output[0]), orders, names, strict=True)
        made = [
            helper.make_node("Transpose", [old], [new], f"{name}:order", perm=perm) for old, new, perm, name in reads
        ]
        node.CopyFrom(helper.make_node("MatMul", names[:2], names[2:], label))
        for offset, one in zip((0, 0, 3), made, strict=True):
            graph.node.insert(place + offset, one)


def settle_choices(graph: Any) -> None:
    """A Where whose condition is one constant takes the one side. In place."""
    from onnx import helper, numpy_helper

    constants = {proto.name: proto for proto in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "Where" and node.input[0] in constants]:
        said = numpy_helper.to_array(constants[node.input[0]])
        if said.all() or not said.any():
            kept = node.input[1 if said.all() else 2]
            node.CopyFrom(helper.make_node("Identity", [kept], list(node.output), node.name))


def drop_empty(graph: Any) -> None:
    """Pieces without elements, such as the part of a head that no rotation turns: dropped. In place."""
    from onnx import helper

    empty = {value.name for value in graph.value_info if any(dim.HasField("dim_value") and dim.dim_value == 0
                                                             for dim in value.type.tensor_type.shape.dim)}  # fmt: skip
    for kind in ("Concat", "Split"):
        read = {name for node in graph.node if node.op_type != "Concat" for name in node.input}
        for node in [node for node in graph.node if node.op_type == kind]:
            ends = node.input if kind == "Concat" else node.output
            live = [name for name in ends if name not in empty or name in read]
            if len(live) == 1 < len(ends):
                source, made = (live, node.output) if kind == "Concat" else (node.input[:1], live)
                node.CopyFrom(helper.make_node("Identity", source, made, node.name))


def finite_masks(graph: Any) -> None:
    """What hides scores from a softmax is as low as it must be; a choice by a constant is a sum. In place."""
    from onnx import helper, numpy_helper

    constants = {proto.name: proto for proto in graph.initializer}
    kinds = {name: node.op_type for node in graph.node for name in node.input}
    for node in graph.node:
        if kinds.get(node.output[0]) != "Softmax":
            continue
        if node.op_type == "Add":
            for name in constants.keys() & set(node.input):
                value = numpy_helper.to_array(constants[name])
                if value.dtype == np.float32 and value.min() < MASKED and not np.isnan(value).any():
                    constants[name].CopyFrom(numpy_helper.from_array(np.maximum(value, np.float32(MASKED)), name))
        elif node.op_type == "Where" and node.input[0] in constants:
            seen = numpy_helper.to_array(constants[node.input[0]])
            live = [name for name in node.input[1:] if name not in constants]
            hidden = [numpy_helper.to_array(constants[name]) for name in node.input[1:] if name in constants]
            if len(live) == 1 and len(hidden) == 1 and hidden[0].max() < A_MASK:
                kept = seen if live[0] == node.input[1] else ~seen
                label = f"{node.name or node.output[0]}:mask"
                graph.initializer.append(numpy_helper.from_array(np.where(kept, 0, MASKED).astype(np.float32), label))
                node.CopyFrom(helper.make_node("Add", [live[0], label], list(node.output), node.name))
