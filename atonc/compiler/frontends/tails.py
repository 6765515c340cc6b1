"""Where a model ends: at the tensors that the user names, or before what has sizes that depend on values.

A program of the chip has one size for each tensor. Boxes that a non-maximum suppression keeps, or values that a mask
picks, have not, and `TopK` in front of them has no kernel; so the model ends at the last tensors of fixed size, and
what follows is left to the application, by name and with its thresholds. Layers with weights are not left out: a model
that has some behind such an operator is refused where it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from types import SimpleNamespace
from typing import Any

from atonc.compiler.ir.types import Tail, TailOperator
from atonc.machine.base.errors import InputError, ModelError, plain
from atonc.machine.base.words import count, instead

UNCUT = ("none",)  # what is given for names of tensors where a model may not be cut by itself
BY_VALUES = (
    "NonMaxSuppression", "NonZero", "Unique", "Compress", "TopK", "EfficientNMS_TRT", "BatchedNMS_TRT",
    "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "WHERE", "UNIQUE", "TOPK_V2",
    "CUSTOM 'TFLite_Detection_PostProcess'",
)  # fmt: skip
LAYERS = (
    "Conv", "ConvTranspose", "Gemm", "LSTM", "GRU", "RNN", "QLinearConv", "ConvInteger", "CONV_2D", "DEPTHWISE_CONV_2D",
    "FULLY_CONNECTED", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM",
)  # fmt: skip
PRODUCTS = ("MatMul", "MatMulInteger", "QLinearMatMul", "BATCH_MATMUL")  # layers where a factor is constant
PIECES = ("Slice", "Gather", "Split", "SLICE", "STRIDED_SLICE", "GATHER", "SPLIT")
MOVES = (*PIECES, "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "SQUEEZE", "RESHAPE", "TRANSPOSE")
SCORES = ("Sigmoid", "Softmax")  # where they end a model before suppression, they are left with it
MANY = 8  # pieces of one tensor, such as the scores of each class: from so many on it is given whole
MOST_NAMED = 8  # in a sentence
MOST_REDONE = 64  # operators of one value that the application computes from others, rather than to get it, too
KEY, _MOST_CHARACTERS = "atonc.tail", 1 << 20  # in the metadata of an ONNX file: what was cut when it was quantised
FlatNode = SimpleNamespace  # of another format, with what nodes of ONNX have: op_type, name, input, output, attribute


def find_tail(
    nodes: Sequence[Any],
    ends: tuple[Collection[str], Sequence[str]],
    values: Callable[[], Collection[str]],
    said: Callable[[Any], Mapping[str, float]],
    layers: bool = False,
) -> Tail | None:
    """What is left to the application, if anything must be and can be; `layers`: even with layers in it.

    `nodes` come in an order in which they run, `ends` are inputs and outputs; `values`: tensors that are no indices and
    no masks; `said`: thresholds and numbers of a node.
    """
    (inputs, outputs), varying, behind = ends, set[str](), list[Any]()
    live = set(inputs)
    for node in nodes:
        reads = set(reads_of(node))
        if reads & live and node.op_type not in ("Shape", "Size", "SHAPE"):
            live.update(filter(None, node.output))
            if reads & varying or _decides(node, live):
                varying.update(filter(None, node.output))
                behind.append(node)
    makers = {name: node for node in nodes for name in node.output if name}
    if not varying.intersection(outputs) or (not layers and any(_is_layer(node, live) for node in behind)):
        return None
    needed = _behind(makers, [name for name in outputs if name in varying], ())
    met = dict.fromkeys(name for node in behind if id(node) in needed for name in reads_of(node))
    last = _last(values(), [name for name in met if name in live - varying], makers)
    fixed = [name for name in outputs if name not in varying]
    cuts = _fewest(dict.fromkeys([*last, *fixed]), fixed, makers, live)
    if not any(name in makers for name in cuts):
        return None
    wanted = _behind(makers, outputs, cuts) - _behind(makers, cuts, ())
    left = [node for node in nodes if id(node) in wanted and live.intersection(node.output)]
    rows = tuple(TailOperator(one.op_type, one.name or one.output[0], said(one)) for one in left)
    return Tail(tuple(cuts), rows, tuple(fixed))


def note_of(tail: Tail, before: bool = False) -> str:
    """For whoever writes the application; `before`: it was cut when it was quantised."""
    named = [one for one in tail.operators if one.values or one.kind in (*BY_VALUES, *SCORES)]
    shown = "; ".join(map(str, named[:MOST_NAMED])) + ("; ..." if len(named) > MOST_NAMED else "")
    ends = ", ".join(name[:60] for name in tail.outputs[:MOST_NAMED])
    return (
        f"the model {'was cut at' if before else 'ends with'} {ends}: sizes behind depend on values, so "
        f"{count(len(tail.operators), 'operator')} {'stays' if len(tail.operators) == 1 else 'stay'} with the "
        f"application: {shown}" + ("" if before else " (--cut-output-tensors none: refuse it)")
    )


def _decides(node: Any, live: Collection[str]) -> bool:
    """Whether the values that it is given say how much it gives, or how often."""
    if node.op_type in ("Loop", "If"):
        inner = {one.op_type for held in node.attribute for one in held.g.node}
        late = any(name in live for name in node.input[:2])
        return late and (node.op_type == "Loop" or not inner.isdisjoint(BY_VALUES))
    return node.op_type in BY_VALUES and (node.op_type != "WHERE" or len(node.input) == 1)


def _is_layer(node: Any, live: Collection[str]) -> bool:
    product = node.op_type in PRODUCTS and any(name not in live for name in node.input[:2])
    return product or node.op_type in LAYERS


def _behind(makers: Mapping[str, Any], names: Sequence[str], ends: Collection[str]) -> set[int]:
    """What computes the tensors, from the ends on."""
    waiting, found = [name for name in names if name not in ends], set[int]()
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and id(node) not in found:
            found.add(id(node))
            waiting += [name for name in reads_of(node) if name not in ends]
    return found


def _last(known: Collection[str], names: Sequence[str], makers: Mapping[str, Any]) -> Iterator[str]:
    """What masks and indices are computed from, instead of them."""
    left, seen = list(names), set[str]()
    while left:
        name = left.pop(0)
        if name not in seen:
            seen.add(name)
            if name in known:
                yield name
            elif name in makers:
                left.extend(reads_of(makers[name]))


def _fewest(
    ends: Mapping[str, None], fixed: Collection[str], makers: Mapping[str, Any], live: Collection[str]
) -> list[str]:
    """Without tensors that follow from others by a little arithmetic, and one tensor for many pieces of it."""
    cuts, sources = dict[str, None](ends), dict[str, list[str]]()
    for name in ends:
        source, pieces, node = name, 0, makers.get(name)
        while node is not None and node.op_type in MOVES and not pieces:
            pieces, source = int(node.op_type in PIECES), node.input[0]
            node = makers.get(source)
        if pieces and name not in fixed:
            sources.setdefault(source, []).append(name)
    for source, names in sources.items():
        if len(names) >= MANY:
            cuts = dict.fromkeys(source if name in names else name for name in cuts)
    for name in reversed(list(cuts)):
        others = cuts.keys() - {name}
        if name not in fixed and others and (name not in makers or _follows(name, others, makers, live)):
            del cuts[name]
    return list(cuts)


def _follows(name: str, others: Collection[str], makers: Mapping[str, Any], live: Collection[str]) -> bool:
    """Whether it can be computed from the others without layers."""
    waiting, seen = [name], set[str]()
    while waiting:
        node = makers.get(waiting.pop())
        if node is None or _is_layer(node, live) or len(seen) > MOST_REDONE:
            return False
        new = [one for one in reads_of(node) if one in live and one not in others and one not in seen]
        seen.update(new)
        waiting += new
    return True


def onnx_tail(model: Any, layers: bool = False) -> Tail | None:
    """The tail of an ONNX model; shapes and types are looked for only where there is something to cut."""
    graph = model.graph
    if not any(node.op_type in (*BY_VALUES, "Loop", "If") for node in graph.node):
        return None
    nodes, constants = [graph.node[index] for index in in_order(graph.node)], _numbers(graph)
    stored = {proto.name for proto in graph.initializer}
    inputs = {value.name for value in graph.input} - stored
    outputs = [value.name for value in graph.output]
    return find_tail(nodes, (inputs, outputs), lambda: _floats(model), lambda node: _said(node, constants), layers)


def _floats(model: Any) -> set[str]:
    from onnx import TensorProto
    from onnx.shape_inference import infer_shapes

    kinds = (TensorProto.FLOAT, TensorProto.FLOAT16)
    graph = infer_shapes(model).graph
    known = [*graph.value_info, *graph.output, *graph.input]
    return {value.name for value in known if value.type.tensor_type.elem_type in kinds}


def _numbers(graph: Any) -> dict[str, float]:
    """Constants of one value."""
    from onnx import numpy_helper

    protos = [(proto.name, proto) for proto in graph.initializer]
    protos += [(node.output[0], held.t) for node in graph.node if node.op_type == "Constant" and node.output
               for held in node.attribute if held.name == "value"]  # fmt: skip
    found = dict[str, float]()
    for name, proto in protos:
        if all(dim == 1 for dim in proto.dims) and not proto.external_data:
            try:
                value = numpy_helper.to_array(proto).reshape(-1)[0]
                found[name] = float(value if value.dtype.kind in "iu" else f"{value:.7g}")
            except (ValueError, TypeError, IndexError):
                continue  # a damaged constant is refused where it is read
    return found


CENTRES = "centre and size"  # 1 where boxes are given so
_OPERANDS = {
    "NonMaxSuppression": ((2, "boxes of a class"), (3, "IoU"), (4, "score")), "TopK": ((1, "k"),),
    **{kind: ((1, "limit"), (0, "limit")) for kind in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
}  # fmt: skip
_ATTRIBUTES = {
    "max_output_boxes": "boxes", "keepTopK": "boxes", "iou_threshold": "IoU", "iouThreshold": "IoU",
    "score_threshold": "score", "scoreThreshold": "score", "k": "k",
    "center_point_box": CENTRES,
}  # fmt: skip


def _said(node: Any, constants: Mapping[str, float]) -> dict[str, float]:
    rows = [(title, node.input[place]) for place, title in _OPERANDS.get(node.op_type, ()) if place < len(node.input)]
    found = {title: constants[name] for title, name in rows if name in constants}
    custom = {_ATTRIBUTES[one.name]: one.f or float(one.i) for one in node.attribute if one.name in _ATTRIBUTES}
    custom = {title: value for title, value in custom.items() if value or title != CENTRES}
    return {**custom, **found}


_FLEXIBLE = {"max_detections": "boxes", "nms_iou_threshold": "IoU", "nms_score_threshold": "score"}


def custom_numbers(data: bytes) -> dict[str, float]:
    """What the options of a custom operator of TFLite say of boxes."""
    from flatbuffers import flexbuffers

    try:
        found = flexbuffers.Loads(data)
        return {_FLEXIBLE[key]: float(value) for key, value in found.items() if key in _FLEXIBLE}
    except Exception:  # whatever a damaged file makes of it: numbers for a sentence, nothing is computed from them
        return {}


def tell_tail(model: Any, tail: Tail) -> None:
    """Writes it into an ONNX model, instead of what stands there."""
    for entry in [entry for entry in model.metadata_props if entry.key == KEY]:
        model.metadata_props.remove(entry)
    model.metadata_props.add(key=KEY, value=json.dumps(tail.as_dict(), separators=(",", ":")))


def told_tail(model: Any, ends: Collection[str] = ()) -> Tail | None:
    """Reads it; what makes no sense, or is of a model that ends elsewhere, is as if nothing had been said."""
    ends = set(ends or (value.name for value in model.graph.output))
    coded = {(*node.output, "")[0] for node in model.graph.node  # a model may end with the codes of its output
             if node.op_type == "DequantizeLinear" and not ends.isdisjoint(node.input[:1])}  # fmt: skip
    text = next((entry.value for entry in model.metadata_props if entry.key == KEY), "")
    try:
        found = json.loads(text[:_MOST_CHARACTERS])
        rows = [TailOperator(plain(str(row["kind"])), plain(str(row["name"])),
                             {plain(str(key)): float(value) for key, value in row["values"].items()})
                for row in found["operators"]]  # fmt: skip
        outputs, fixed = (tuple(plain(str(name)) for name in found[key]) for key in ("outputs", "fixed"))
        return Tail(outputs, tuple(rows), fixed) if outputs and ends | coded >= {*outputs} else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def ends_of(model: Any, names: Sequence[str]) -> tuple[list[str], Tail | None]:
    """Tensors at which an ONNX model ends: those that are named, or the last ones of fixed size; none where it is
    taken whole."""
    tail = None if names else onnx_tail(model)
    wanted = () if tuple(names) == UNCUT else tail.outputs if tail else names
    return find_cuts(model.graph, wanted), tail


QUANTISE = ("QuantizeLinear",)


def find_cuts(graph: Any, names: Sequence[str]) -> list[str]:
    """Values for the names of values or nodes. A real value that is only quantised is cut after that."""
    producers = {output: node for node in graph.node for output in node.output if output}
    by_node = {node.name: node for node in graph.node if node.name}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    cuts = []
    for name in names:
        found = [name] if name in producers else [o for o in by_node[name].output if o] if name in by_node else []
        if not found:
            what = f"the model has no tensor {name[:100]!r} to cut at"
            known = [n for names in (producers, by_node) for n, node in names.items() if node.op_type not in BY_VALUES]
            raise InputError(what, where="--cut-output-tensors", remedy=instead(name, known))
        cuts += [_after_quantisation(value, readers) for value in found]
    return list(dict.fromkeys(cuts))


def _after_quantisation(value: str, readers: dict[str, list[Any]]) -> str:
    after = readers.get(value, [])
    only = after[0] if len(after) == 1 else None
    return str(only.output[0]) if only is not None and only.op_type in QUANTISE and only.output else value


def needed_nodes(graph: Any, outputs: Sequence[str]) -> set[int]:
    """Indices of the nodes that the outputs depend on."""
    producers = {output: index for index, node in enumerate(graph.node) for output in node.output if output}
    waiting, needed = list(outputs), set[int]()
    while waiting:
        index = producers.get(waiting.pop())
        if index is None or index in needed:
            continue
        needed.add(index)
        waiting += reads_of(graph.node[index])
    if not needed:
        raise ModelError("nothing is left of the model after the cut")
    return needed


def in_order(nodes: Sequence[Any]) -> list[int]:
    """Numbers of the nodes, producers first, else as in the file; what waits for itself comes last."""
    producer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waits = [{producer[name] for name in reads_of(node) if name in producer} for node in nodes]
    if all(all(other < index for other in others) for index, others in enumerate(waits)):
        return list(range(len(nodes)))
    readers: dict[int, list[int]] = {}
    for index, others in enumerate(waits):
        for other in others:
            readers.setdefault(other, []).append(index)
    open_inputs = [len(others) for others in waits]
    ready, found = [index for index, count in enumerate(open_inputs) if not count], list[int]()
    while ready:
        found.append(heappop(ready))
        for reader in readers.get(found[-1], ()):
            open_inputs[reader] -= 1
            if not open_inputs[reader]:
                heappush(ready, reader)
    return found + sorted(set(range(len(nodes))) - set(found))


def sort_nodes(graph: Any) -> None:
    """For whoever goes through the nodes of the file itself."""
    order = in_order(graph.node)
    if order != sorted(order):
        copies = [type(graph.node[index]).FromString(graph.node[index].SerializeToString()) for index in order]
        del graph.node[:]
        graph.node.extend(copies)


def reads_of(node: Any) -> Iterator[str]:
    """Inputs, and what the graphs inside a loop or a branch take from outside; an empty name is no input."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for inside in (attribute.g, *attribute.graphs):
            for inner in inside.node:
                yield from reads_of(inner)
