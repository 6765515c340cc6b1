"""ST's releases 2.x round every result once, whatever the kernels did that the model was made for."""

from __future__ import annotations

from dataclasses import replace

from atonc.ir import Graph, Op
from atonc.ops.rounding import ATTRIBUTE


def round_once(graph: Graph) -> Graph:
    return replace(graph, ops=tuple(_rounding_once(op) for op in graph.ops))


def _rounding_once(op: Op) -> Op:
    """Resizes round positions, not results."""
    if op.kind.startswith("resize"):
        return op
    return replace(op, attrs={k: v for k, v in op.attrs.items() if k != ATTRIBUTE})
