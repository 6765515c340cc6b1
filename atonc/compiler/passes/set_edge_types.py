"""Inputs and outputs in the number format that the user asked for.

float32 puts a conversion inside the network; int8 and int16 take conversions off the edge. A model that has no
conversion there gets one only if the real values stay the same, so codes keep their width.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor, check
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count

TYPES = ("float32", "int8", "uint8", "int16")
BITS = {"int8": 8, "uint8": 8, "int16": 16}  # of codes


def set_edge_types(graph: Graph, input_type: str, output_type: str) -> Graph:
    """One type for all inputs or outputs, or one for each with commas between. Edges that cannot change get a note."""
    if not input_type and not output_type:
        return graph
    inputs, outputs = _each(graph.inputs, input_type, "input"), _each(graph.outputs, output_type, "output")
    for name, wanted in inputs.items():
        graph = _set_input(graph, name, wanted)
    for name, wanted in outputs.items():
        graph = _set_output(graph, name, wanted)
    notes = [
        f"{name} stays {graph.tensors[name].dtype}: it holds no {_codes_of(wanted)} that could be given as {wanted}"
        for name, wanted in (*inputs.items(), *outputs.items())
        if graph.tensors[name].dtype != wanted
    ]
    return check(replace(graph, notes=(*graph.notes, *notes)))


def _codes_of(dtype: str) -> str:
    return f"{BITS[dtype]}-bit codes" if dtype in BITS else "codes"


def _may_be(codes: Tensor, dtype: str) -> bool:
    """Real numbers and indices are no codes."""
    if codes.quant is None or codes.dtype not in BITS:
        return False
    return dtype not in BITS or BITS[dtype] == BITS[codes.dtype]


def _each(names: tuple[str, ...], wanted: str, side: str) -> dict[str, str]:
    types = wanted.split(",") if wanted else []
    for dtype in types:
        if dtype not in TYPES:
            raise InputError(f"element type {dtype[:40]!r} is not one of {', '.join(TYPES)}")
    if len(types) > 1 and len(types) != len(names):
        raise InputError(
            f"{count(len(types), 'element type')} for {count(len(names), side)}",
            where=f"--{side}-data-type",
            remedy="give one for all, or one for each",
        )
    return dict(zip(names, types * len(names) if len(types) == 1 else types, strict=False))


def _other(tensor: Tensor, name: str, dtype: str) -> Tensor:
    """The same values as real numbers, or as codes shifted by 128."""
    if dtype == "float32":
        return Tensor(name, tensor.shape, "float32")
    shift = {("int8", "uint8"): 128, ("uint8", "int8"): -128}.get((tensor.dtype, dtype), 0)
    quant = None if tensor.quant is None else Quantisation.per_tensor(tensor.scale, tensor.zero_point + shift)
    return Tensor(name, tensor.shape, dtype, quant)


def _set_input(graph: Graph, name: str, dtype: str) -> Graph:
    """Peels the conversion off, then wraps the codes in the format that is wanted. The input keeps its name."""
    readers = graph.consumers.get(name, [])
    if graph.tensors[name].dtype == dtype or not readers:
        return graph
    peeled = [op for op in readers if op.kind in ("quantize", "uint8_to_int8")]
    alone = len(peeled) == len(readers) == 1 and name not in graph.outputs
    codes = graph.tensors[peeled[0].outputs[0] if alone else name]
    if not _may_be(codes, dtype):
        return graph
    if alone:
        graph = _without(graph, peeled[0], codes.name, name)
    codes = replace(codes, name=name)
    if codes.dtype == dtype:
        return replace(graph, tensors={**graph.tensors, name: codes})
    inner = f"{name}:codes"
    kind = "quantize" if dtype == "float32" else ("uint8_to_int8" if dtype == "uint8" else "int8_to_uint8")
    ops = [replace(op, inputs=tuple(inner if n == name else n for n in op.inputs)) for op in graph.ops]
    tensors = {**graph.tensors, name: _other(codes, name, dtype), inner: replace(codes, name=inner)}
    return replace(graph, ops=(Op(kind, inner, (name,), (inner,)), *ops), tensors=tensors)


def _without(graph: Graph, op: Op, gone: str, kept: str) -> Graph:
    ops = tuple(
        replace(other, inputs=tuple(kept if n == gone else n for n in other.inputs))
        for other in graph.ops
        if other is not op
    )
    tensors = {n: t for n, t in graph.tensors.items() if n != gone}
    outputs = tuple(kept if n == gone else n for n in graph.outputs)
    tensors[kept] = replace(graph.tensors[gone], name=kept)
    return replace(graph, ops=ops, tensors=tensors, outputs=outputs)


def _set_output(graph: Graph, name: str, dtype: str) -> Graph:
    producer = graph.producers.get(name)
    if graph.tensors[name].dtype == dtype or producer is None:
        return graph
    converted = producer.kind in ("dequantize", "int8_to_uint8")
    if not _may_be(graph.tensors[producer.inputs[0] if converted else name], dtype):
        return graph
    if converted:
        graph = _peel_output(graph, producer, name)
    codes = graph.tensors[name]
    if not _may_be(codes, dtype) or codes.dtype == dtype:
        return graph
    inner = f"{name}:codes"
    kind = "dequantize" if dtype == "float32" else ("int8_to_uint8" if dtype == "uint8" else "uint8_to_int8")
    ops = [
        replace(
            op,
            inputs=tuple(inner if n == name else n for n in op.inputs),
            outputs=tuple(inner if n == name else n for n in op.outputs),
        )
        for op in graph.ops
    ]
    tensors = {**graph.tensors, name: _other(codes, name, dtype), inner: replace(codes, name=inner)}
    return replace(graph, ops=(*ops, Op(kind, f"{name}:{dtype}", (inner,), (name,))), tensors=tensors)


def _peel_output(graph: Graph, producer: Op, name: str) -> Graph:
    """The codes behind the conversion become the output, if they are not one already."""
    codes = producer.inputs[0]
    if codes in graph.outputs or codes in graph.inputs or graph.consumers.get(name):
        return graph
    ops = tuple(
        replace(
            op,
            inputs=tuple(name if n == codes else n for n in op.inputs),
            outputs=tuple(name if n == codes else n for n in op.outputs),
        )
        for op in graph.ops
        if op is not producer
    )
    tensors = {n: t for n, t in graph.tensors.items() if n != codes}
    tensors[name] = replace(graph.tensors[codes], name=name)
    return replace(graph, ops=ops, tensors=tensors)
