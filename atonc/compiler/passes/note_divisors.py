"""Says which divisors can be zero: x/0 and 0/0 have no value in codes, and runtimes differ in what they make of it."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, layer_name


def note_divisors(graph: Graph) -> Graph:
    """Nothing else changes."""
    notes = (_note(graph, op) for op in graph.ops if op.kind == "div" and _may_be_zero(graph, op.inputs[1]))
    return replace(graph, notes=tuple(dict.fromkeys((*graph.notes, *notes))))


def _may_be_zero(graph: Graph, name: str) -> bool:
    """Whether its codes hold the one of zero. Tables tell which codes they give; of all others any may come."""
    tensor, producer = graph.tensors[name], graph.producers.get(name)
    if tensor.quant is None or not tensor.quant.is_per_tensor:
        return False
    if tensor.data is not None:
        return bool((tensor.data == tensor.zero_point).any())
    table = producer.attrs.get("table") if producer is not None and producer.kind == "table" else None
    return table is None or tensor.zero_point in table


def _note(graph: Graph, op: Op) -> str:
    scale = graph.tensors[op.inputs[1]].scale
    return (
        f"{layer_name(op)}: its divisor can be 0, where runtimes differ; keep it away from 0, "
        f"with an epsilon of at least its scale, {scale:.3g}"
    )
