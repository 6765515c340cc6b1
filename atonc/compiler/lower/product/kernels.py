"""Which factor of a product becomes kernels, and who packs them: the CPU does it by an operator of the graph in front
of each product, so that it is scheduled, placed, verified and priced as any other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.lower.product.plan import is_row, product_of
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.ops.shapes import infer_shape
from atonc.compiler.schedule.passes import ATTENTION, ENGINE_KERNELS
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.safety.evidence.epochs import BY_CPU


def packs_kernels(trust: Trust, without: Collection[str], asked: Collection[str]) -> bool:
    return trust.allows(trust.grade(BY_CPU)) and ATTENTION not in without and ENGINE_KERNELS not in asked


def with_columns(graph: Graph, on_cpu: Collection[str]) -> Graph:
    """A row by a matrix, as in a decoder, is a matrix by a column where the NPU can multiply that: then the row is what
    becomes kernels, and the matrix is read where it lies."""
    tensors, ops = dict(graph.tensors), list[Op]()
    for op in graph.ops:
        row = op.kind == "matmul" and op.name not in on_cpu and is_row(op, graph)
        column = _column(op, graph) if row else None
        if column is None:
            ops.append(op)
            continue
        product, result = column
        tensors[result.name] = result
        ops += [product, Op("reshape", f"{op.name}:row", product.outputs, op.outputs, {}, op.origin)]
    return graph if len(ops) == len(graph.ops) else replace(graph, ops=tuple(ops), tensors=tensors)


def _column(op: Op, graph: Graph) -> tuple[Op, Tensor] | None:
    """The product turned, with its result; None where no single chain of units adds it up."""
    y = graph.tensors[op.outputs[0]]
    result = replace(y, name=f"{y.name}:column", shape=(*y.shape[:-2], y.shape[-1], 1))
    turns = {f"transpose_{new}": not op.attrs.get(f"transpose_{old}") for new, old in ("ab", "ba")}
    turned = replace(op, inputs=op.inputs[1::-1], outputs=(result.name,), attrs={**op.attrs, **turns})
    try:
        found = product_of(turned, replace(graph, tensors={**graph.tensors, result.name: result}))
    except Refusal:
        return None
    return (turned, result) if found.chained and found.turned[0] else None


def with_packed_kernels(graph: Graph, on_cpu: Collection[str]) -> Graph:
    """With such an operator where the NPU can multiply; `on_cpu`: operators that the user wants there."""
    tensors, ops = dict(graph.tensors), list[Op]()
    for op in graph.ops:
        new = op.kind == "matmul" and len(op.inputs) == 2 and op.name not in on_cpu  # an application compiles it again
        packing = _packing(op, graph) if new else None
        if packing is not None:
            shape = infer_shape(packing.kind, packing.attrs, [graph.tensors[op.inputs[1]].shape])
            assert shape is not None
            factor, name = graph.tensors[op.inputs[1]], packing.outputs[0]
            tensors[name] = Tensor(name, shape, factor.dtype, quant=factor.quant)
            ops.append(packing)
            op = replace(op, inputs=(*op.inputs, name))
        ops.append(op)
    return graph if len(ops) == len(graph.ops) else replace(graph, ops=tuple(ops), tensors=tensors)


def _packing(op: Op, graph: Graph) -> Op | None:
    try:
        order = product_of(op, graph).order
    except Refusal:
        return None
    name = f"{op.name}:kernels"
    return Op("pack_kernels", name, op.inputs[1:2], (f"{op.inputs[1]}:{name}",), order.attrs, op.origin)
