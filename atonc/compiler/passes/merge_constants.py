"""Equal constants are one constant."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from atonc.compiler.ir import Graph, Tensor, check

Key = tuple[object, ...]


def merge_constants(graph: Graph) -> Graph:
    first: dict[Key, str] = {}
    moved: dict[str, str] = {}
    for name, tensor in graph.tensors.items():
        if tensor.data is not None and name not in graph.outputs:
            moved[name] = first.setdefault(_key(tensor), name)
    ops = tuple(replace(op, inputs=tuple(moved.get(name, name) for name in op.inputs)) for op in graph.ops)
    gone = {name for name, kept in moved.items() if kept != name}
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in gone}
    return check(replace(graph, ops=ops, tensors=tensors), graph.tensors)


def _key(tensor: Tensor) -> Key:
    quant, data = tensor.quant, tensor.data
    scales = () if quant is None else (quant.scales.tobytes(), quant.zero_points.tobytes(), quant.axis)
    content = b"" if data is None else data.tobytes()
    return tensor.dtype, tensor.shape, scales, hashlib.sha256(content).digest()
