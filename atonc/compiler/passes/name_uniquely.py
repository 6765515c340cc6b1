"""No two operators share a name: CPU steps, costs and reports find operators by it."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph


def name_uniquely(graph: Graph) -> Graph:
    """Later operators of the same name are numbered."""
    names = {op.name for op in graph.ops}
    seen: set[str] = set()
    ops = []
    for op in graph.ops:
        name, number = op.name, 2
        while name in seen or (name != op.name and name in names):
            name, number = f"{op.name}#{number}", number + 1
        seen.add(name)
        ops.append(op if name == op.name else replace(op, name=name))
    return replace(graph, ops=tuple(ops))
