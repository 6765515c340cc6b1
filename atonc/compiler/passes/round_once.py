"""ST's releases 2.x round every result once, whatever the kernels did that the model was made for."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph
from atonc.compiler.ops.rounding import ATTRIBUTE


def round_once(graph: Graph) -> Graph:
    ops = [replace(op, attrs={k: v for k, v in op.attrs.items() if k != ATTRIBUTE}) for op in graph.ops]
    return replace(graph, ops=tuple(ops))
