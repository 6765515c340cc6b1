"""Values that are only moved before they are quantised are quantised first: rounding and moving commute.

Some tools leave islands of real numbers that move and join values, for example the shuffles between two parts of a
network: DequantizeLinear - Concat - Reshape - Transpose - QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import is_move
from atonc.compiler.passes.name_conversions import conversion_kind

Format = tuple[str, Quantisation]
ALL_INPUTS = ("concat", "pack")


def quantise_earlier(graph: Graph) -> Graph:
    """Quantises earlier, from the last operator to the first, so that whole chains change."""
    tensors, readers = dict(graph.tensors), _readers(graph)
    for op in reversed(graph.ops):
        if is_move(op.kind) and all(_is_inner(graph, tensors[name]) for name in op.outputs):
            wanted = [_wanted(reader, name, tensors) for name in op.outputs for reader in readers.get(name, ())]
            found = _common(wanted)
            for name in op.outputs if found else ():
                tensors[name] = replace(tensors[name], dtype=found[0], quant=found[1])  # type: ignore[index]
    if all(tensors[name] is graph.tensors[name] for name in tensors):
        return graph
    return replace(graph, tensors=tensors, ops=tuple(_renamed(op, tensors) for op in graph.ops))


def _readers(graph: Graph) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in graph.ops:
        for name in dict.fromkeys(op.inputs):
            found.setdefault(name, []).append(op)
    return found


def _is_inner(graph: Graph, tensor: Tensor) -> bool:
    return tensor.is_float and not tensor.is_constant and tensor.name not in graph.outputs


def _wanted(reader: Op, name: str, tensors: Mapping[str, Tensor]) -> Format | None:
    """The format that a reader turns the value into without computing on it."""
    data = reader.inputs if reader.kind in ALL_INPUTS else reader.inputs[:1]
    moves = is_move(reader.kind) and name in data and name not in reader.inputs[len(data) :]
    if not moves and reader.kind != "quantize":
        return None
    formats = [(tensors[output].dtype, tensors[output].quant) for output in reader.outputs]
    return _common([(dtype, quant) if quant is not None else None for dtype, quant in formats])


def _common(formats: list[Format | None]) -> Format | None:
    first = formats[0] if formats else None
    if first is None or not first[1].is_per_tensor:
        return None
    same = all(other is not None and other[0] == first[0] and first[1].same_as(other[1]) for other in formats)
    return first if same else None


def _renamed(op: Op, tensors: Mapping[str, Tensor]) -> Op:
    if op.kind != "quantize":
        return op
    return replace(op, kind=conversion_kind(tensors[op.inputs[0]], tensors[op.outputs[0]]))
