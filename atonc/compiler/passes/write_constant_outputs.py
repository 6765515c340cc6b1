"""Outputs that are constants: an operator writes them, like every other output."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op


def write_constant_outputs(graph: Graph) -> Graph:
    constants = {name: f"{name}:constant" for name in graph.outputs if graph.tensors[name].is_constant}
    if not constants:
        return graph
    tensors = dict(graph.tensors)
    for name, inner in constants.items():
        tensors[inner] = replace(tensors[name], name=inner)
        tensors[name] = replace(tensors[name], data=None)
    ops = [replace(op, inputs=tuple(constants.get(name, name) for name in op.inputs)) for op in graph.ops]
    copies = [Op("identity", f"{name}:copy", (inner,), (name,), {}, (name,)) for name, inner in constants.items()]
    return replace(graph, tensors=tensors, ops=(*ops, *copies))
