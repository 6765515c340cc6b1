"""Bytes of tensors, and how many of them live beside an operator: what the graph alone shows of memory."""

from __future__ import annotations

from collections.abc import Mapping

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.plan.lives import live_bytes, spans

_ITEM_BYTES = {
    "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "float16": 2, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip

# kinds whose result may take the place of an operand: chains write one of the two only, reshapes none
_IN_PLACE = frozenset({"table", "requantize", "add", "sub", "mul", "minimum", "maximum", "div", "affine", "reshape"})


def item_bytes(tensor: Tensor) -> int:
    return _ITEM_BYTES.get(tensor.dtype, 4)


def free_bytes(graph: Graph, allowed: int = 0) -> Mapping[str, int]:
    """By operator: what may live beside it without the peak of all activations growing, or growing beyond what is
    allowed. Rather too little: copies between operators are not counted, and results lie in place of operands wherever
    they could."""
    owners, sizes = _owners(graph), dict[str, int]()
    for name, owner in owners.items():
        sizes[owner] = max(sizes.get(owner, 0), graph.tensors[name].elements * item_bytes(graph.tensors[name]))
    touched = [[*op.inputs, *op.outputs] for op in graph.ops]
    if touched:
        touched = [[*graph.inputs, *touched[0]], *touched[1:]]
        touched[-1] += graph.outputs
    lives = spans([owners[name] for name in names if name in owners] for names in touched)
    live = live_bytes(((sizes[name], *span) for name, span in lives.items()), len(touched))
    peak = max(allowed, live.max())
    return {op.name: int(peak - bytes_now) for op, bytes_now in zip(graph.ops, live[: len(touched)], strict=True)}


def _owners(graph: Graph) -> dict[str, str]:
    """Activation -> in whose memory it lies."""
    found: dict[str, str] = {name: name for name in graph.inputs}
    ends = {name: step for step, op in enumerate(graph.ops) for name in op.inputs}
    for step, op in enumerate(graph.ops):
        for name in op.outputs:
            found[name] = found.get(_replaced(op, step, name, graph, ends), name)
    return found


def _replaced(op: Op, step: int, output: str, graph: Graph, ends: Mapping[str, int]) -> str:
    """The operand that is of no use behind the operator, and as large as its result; else nothing."""
    if op.kind not in _IN_PLACE:
        return ""
    size = graph.tensors[output].elements
    fitting = (n for n in op.inputs if n and graph.tensors[n].data is None and graph.tensors[n].elements == size)
    return next((name for name in fitting if ends[name] == step and name not in graph.outputs), "")
