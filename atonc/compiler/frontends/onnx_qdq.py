"""ONNX (QDQ and QLinear forms, float islands) -> Graph. Values keep ONNX's order of dimensions (channels second)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from atonc.compiler.frontends import (
    limits,
    onnx_attention,
    onnx_control,
    onnx_custom,
    onnx_elements,
    onnx_layers,
    onnx_moves,
    onnx_recurrent,
    onnx_sound,
)
from atonc.compiler.frontends.limits import (
    FIX,
    advise,
    model_bytes,
    refuse,
    require_names,
    size_given,
    told_equalised,
    value_given,
)
from atonc.compiler.frontends.onnx_builder import TRANSLATORS, Builder, Node
from atonc.compiler.frontends.onnx_control import renamed_nodes
from atonc.compiler.frontends.onnx_elements import ELEMENT_TYPES, HALF_BYTES, constant_data, type_name
from atonc.compiler.frontends.operands import check_operands, check_work
from atonc.compiler.frontends.tails import ends_of, in_order, needed_nodes, note_of, reads_of, told_tail
from atonc.compiler.ir import Array, Graph, Tensor, check
from atonc.compiler.ir.types import check_shape
from atonc.compiler.ops.run import REPORT, said
from atonc.machine.base.errors import AtoncError, InputError, ModelError, UnsupportedError, not_loaded, plain
from atonc.machine.base.user_c import CustomOperator
from atonc.machine.base.words import count

MOST_DEPTH = 16  # of graphs inside each other

_REGISTERED = (onnx_attention, onnx_control, onnx_elements, onnx_layers, onnx_moves, onnx_recurrent)
_MOST_OPSETS = 1 << 30
_AGAIN = "the file may be cut, damaged or of another format: export or fetch it again"
_WELL_FORMED = "a node has the inputs and attributes that its operator asks for, with values it can take"


def read_file(path: Path) -> Graph:
    return read_onnx(model_bytes(path), path.stem)


def read_onnx(
    data: bytes,
    name: str = "",
    cut_outputs: Sequence[str] = (),
    fixed_shapes: Mapping[str, Any] | None = None,
    custom: Mapping[str, CustomOperator] = MappingProxyType({}),
    cut_inputs: Sequence[str] = (),
) -> Graph:
    """The graph of the file; anything damaged is a ModelError. External data is never followed."""
    model = onnx_sound.behind(parse(data, name), cut_inputs, name)
    graph = model.graph
    limits.count(len(graph.node), limits.MAX_OPS, "nodes")
    limits.count(len(graph.initializer), limits.MAX_TENSORS, "constants")
    if model.functions or graph.sparse_initializer:
        raise UnsupportedError("local functions and sparse constants are not supported", where=name)
    ends, tail = ends_of(model, cut_outputs)
    outputs = ends or [output.name for output in graph.output]
    builder = _start(graph, outputs)
    builder.custom, builder.stated = custom, _stated(graph) if custom else {}
    notes = require_names(fixed_shapes or {}, open_sizes(graph.input), {v.name for v in graph.input})
    inputs = _read_edges(graph, builder, fixed_shapes or {})
    opsets = {entry.domain: int(entry.version) for entry in model.opset_import}
    builder.inline = partial(_inline, builder, opsets)
    needed = needed_nodes(graph, outputs) if ends else None
    for index in in_order(graph.node):
        if needed is None or index in needed:
            _translate(_node(graph.node[index], index, opsets, builder))
    onnx_custom.require_stated(builder)
    found = check_work(check_operands(check(builder.finish(inputs, name))))
    batch = any(_has_open_batch(value, fixed_shapes or {}) for value in graph.input if value.name in inputs)
    cut, tail = tail, tail or told_tail(model, outputs)
    said = [*notes, *([note_of(tail, cut is None)] if tail else [])]
    return replace(found, notes=(*found.notes, *said), equalised=told_equalised(model), tail=tail, open_batch=batch)


def _inline(builder: Builder, opsets: dict[str, int], graph: Any, label: str, given: Mapping[str, str]) -> list[str]:
    """Reads the nodes of an inner graph as if they stood here; the names of its outputs. `given`: its inputs."""
    _require_text(graph, label)
    builder.inlined = limits.count(builder.inlined + len(graph.node), limits.MAX_OPS, "nodes of inner graphs")
    size = sum(len(proto.raw_data) or proto.ByteSize() for proto in graph.initializer)
    builder.inlined_bytes = limits.count(
        builder.inlined_bytes + size, limits.MAX_TOTAL_CONSTANT_BYTES, "bytes of constants of inner graphs"
    )
    if graph.sparse_initializer:
        raise UnsupportedError("sparse constants are not supported", where=label)
    nodes, constants, outputs = renamed_nodes(graph, label, given)
    for proto in constants:
        builder.bind(proto.name, builder.constant(proto.name, constant_data(proto)))
        if proto.data_type in HALF_BYTES:
            builder.half_bytes.add(proto.name)
    builder.readers.update(name for node in nodes for name in reads_of(node))
    builder.readers.update(outputs)
    builder.computed |= {name for node in nodes for name in node.output if name}
    builder.depth = limits.count(builder.depth + 1, MOST_DEPTH, "graphs inside each other")
    for index in in_order(nodes):
        _translate(_node(nodes[index], index, opsets, builder))
    builder.depth -= 1
    return outputs


def parse(data: bytes, name: str) -> Any:
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    except ImportError as error:
        raise not_loaded(error, "the package onnx", "'onnx>=1.21'") from error
    try:
        model = onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise ModelError(f"not an ONNX file: {error}", where=name, remedy=_AGAIN) from error
    if not model.graph.node and not model.graph.output:
        raise ModelError("not an ONNX file: it has no graph", where=name, remedy=_AGAIN)
    _require_text(model.graph, name)
    return model


def _require_text(graph: Any, where: str) -> None:
    """Strings of a damaged file may be no text; then they come as bytes."""
    listed = [part.name for part in (*graph.initializer, *graph.input, *graph.output, *graph.node)]
    listed += [text for node in graph.node for text in (node.op_type, node.domain, *node.input, *node.output)]
    listed += [attribute.name for node in graph.node for attribute in node.attribute]
    if not all(isinstance(text, str) for text in listed):
        raise ModelError("not an ONNX file: a name is no text", where=where)
    if not all(text.isprintable() for text in listed):
        _rename(graph)


def _rename(graph: Any) -> None:
    """So that no name can act on a terminal, wherever it is shown."""
    for part in (*graph.initializer, *graph.input, *graph.output, *graph.node):
        part.name = plain(part.name)
    for node in graph.node:
        node.input[:], node.output[:] = map(plain, node.input), map(plain, node.output)


def _start(graph: Any, outputs: Sequence[str]) -> Builder:
    readers = Counter(name for node in graph.node for name in reads_of(node))
    builder = Builder(readers, outputs)
    types = {o.name: ELEMENT_TYPES.get(int(o.type.tensor_type.elem_type), "") for o in graph.output}
    builder.computed = frozenset(name for node in graph.node for name in node.output)
    builder.output_types = {name: types.get(name) for name in outputs}
    return builder


def _stated(graph: Any) -> dict[str, tuple[int, ...]]:
    """Shapes that the file says of values, where all sizes are numbers."""
    found = dict[str, tuple[int, ...]]()
    for value in (*graph.value_info, *graph.output):
        if value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.HasField("shape"):
            sizes = tuple(int(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
            found |= {value.name: check_shape(sizes, value.name)} if all(size > 0 for size in sizes) else {}
    return found


def _read_edges(graph: Any, builder: Builder, fixed_shapes: Mapping[str, Any]) -> list[str]:
    """Constants and graph inputs; old files list their constants among the inputs."""
    total = 0
    for proto in graph.initializer:
        data = constant_data(proto)
        total = limits.count(total + data.nbytes, limits.MAX_TOTAL_CONSTANT_BYTES, "bytes of constants")
        builder.bind(proto.name, builder.constant(proto.name, data))
        if proto.data_type in HALF_BYTES:
            builder.half_bytes.add(proto.name)
    inputs = []
    for value in graph.input:
        if value.name in builder.holder:
            continue
        if value.name in fixed_shapes:
            data = given_value(value, fixed_shapes)
            builder.bind(value.name, builder.constant(value.name, data))
            continue
        tensor = Tensor(value.name, _input_shape(value, fixed_shapes), _element_type(value))
        builder.bind(value.name, tensor := builder.add_tensor(tensor))
        builder.given.add(tensor.name)
        inputs.append(tensor.name)
    return inputs


def given_value(value: Any, given: Mapping[str, Any]) -> Array:
    """What the user says of an input, such as a sampling rate or axes; a list gives its length where that is open."""
    dims = enumerate(value.type.tensor_type.shape.dim)
    sizes = [int(dim.dim_value) or size_given(given, dim.dim_param, f"{value.name}:{k}") for k, dim in dims]
    shape = tuple(sizes) if all(sizes) else None
    data = value_given(given[value.name], value.name, shape, _element_type(value))
    if len(data.shape) != len(sizes):
        raise InputError(f"the input {value.name[:60]!r} has {count(len(sizes), 'dimension')}", where=FIX)
    return data


def _element_type(value: Any) -> str:
    code = int(value.type.tensor_type.elem_type)
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        raise UnsupportedError("an input that is no tensor is not supported", where=value.name)
    if code not in ELEMENT_TYPES:
        raise UnsupportedError(f"element type {type_name(code)} is not supported", where=value.name)
    return ELEMENT_TYPES[code]


def open_sizes(inputs: Iterable[Any]) -> set[str]:
    """What `--fix-parametric-shapes` may give a size: dimensions by their names, or as INPUT:NUMBER."""
    found = set[str]()
    for value in inputs:
        dims = enumerate(value.type.tensor_type.shape.dim)
        found |= {name for k, d in dims if d.dim_value <= 0 for name in (d.dim_param or f"{value.name}:{k}",)}
    return found


def _has_open_batch(value: Any, fixed_shapes: Mapping[str, Any]) -> bool:
    first = [*value.type.tensor_type.shape.dim][:1]
    return any(dim.dim_value <= 0 and not size_given(fixed_shapes, dim.dim_param, f"{value.name}:0") for dim in first)


def _input_shape(value: Any, fixed_shapes: Mapping[str, Any]) -> tuple[int, ...]:
    """Sizes may be given; a batch that is left open becomes 1."""
    dims = []
    for index, dim in enumerate(value.type.tensor_type.shape.dim):
        number = f"{value.name}:{index}"
        size = max(0, int(dim.dim_value)) or size_given(fixed_shapes, dim.dim_param, number)
        if size <= 0 and index:
            stated = dim.dim_value if dim.HasField("dim_value") else f"not fixed ({dim.dim_param[:40] or 'unnamed'!r})"
            raise ModelError(
                f"dimension {index} of input {value.name!r} is {stated}",
                rule="all shapes are known when the model is compiled",
                remedy=f"give the size that it was trained with: {FIX} {dim.dim_param[:40] or number}=SIZE",
            )
        dims.append(max(size, 1))
    return check_shape(tuple(dims), value.name)


def _node(proto: Any, index: int, opsets: dict[str, int], builder: Builder) -> Node:
    domain = "" if proto.domain in ("", "ai.onnx") else proto.domain
    kind = f"{_text(domain)}.{_text(proto.op_type)}" if domain else _text(proto.op_type)
    name = (_text(proto.name) or f"{kind}_{index}")[: limits.MAX_NAME]
    if max(len(proto.input), len(proto.output)) > limits.MAX_OPERANDS or not proto.output:
        raise ModelError(f"{count(len(proto.input), 'input')} and {count(len(proto.output), 'output')}", where=name)
    inner = onnx_control.KINDS.get(kind, ())
    attrs = {a.name: a.g if a.name in inner else _attribute(a, name) for a in proto.attribute}
    opset = opsets.get(proto.domain, opsets.get(domain, 1))
    if not domain and opsets:
        _require_known(kind, opset, name)
    return Node(kind[:200], name, tuple(proto.input), tuple(proto.output), attrs, opset, builder)


def _require_known(kind: str, opset: int, node: str) -> None:
    """What came with a later opset means nothing in this one; unknown names are refused elsewhere."""
    from onnx import defs

    if kind not in TRANSLATORS or not defs.has(kind):
        return
    try:
        defs.get_schema(kind, max(0, min(opset, _MOST_OPSETS)), "")
    except defs.SchemaError:
        raise ModelError(
            f"{kind} is no operator of opset {opset}",
            where=node,
            rule="a file names the opset that its nodes belong to",
            remedy="save it with a later opset: onnx.version_converter.convert_version",
        ) from None


def _text(value: str | bytes) -> str:
    """Damaged names come as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _attribute(proto: Any, node: str) -> Any:
    from onnx import AttributeProto

    readers = {
        AttributeProto.FLOAT: lambda: float(proto.f),
        AttributeProto.INT: lambda: int(proto.i),
        AttributeProto.STRING: lambda: bytes(proto.s),
        AttributeProto.TENSOR: lambda: constant_data(proto.t),
        AttributeProto.FLOATS: lambda: [float(v) for v in proto.floats],
        AttributeProto.INTS: lambda: [int(v) for v in proto.ints],
        AttributeProto.STRINGS: lambda: [bytes(v) for v in proto.strings],
    }
    if proto.type not in readers:
        raise UnsupportedError(f"attribute {proto.name[:80]!r} holds a graph or an unknown type", where=node)
    return readers[proto.type]()


def _translate(node: Node) -> None:
    if node.kind in node.builder.custom:
        return onnx_custom.translate(node, node.builder.custom[node.kind])
    if node.kind not in TRANSLATORS:
        raise refuse(node.kind, node.name, node.computed)
    try:
        made = TRANSLATORS[node.kind](node)
        if made is not None:
            node.bind(node.outputs[0], made)
    except AtoncError as error:
        error.where = error.where or node.name
        if isinstance(error, UnsupportedError):
            advise(error, node.computed)
        raise
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        OverflowError,
        MemoryError,
        StopIteration,
        ZeroDivisionError,
    ) as error:
        what = f"{node.kind} is malformed{said(error)}"
        raise ModelError(what, where=node.name, rule=_WELL_FORMED, remedy=REPORT) from error
