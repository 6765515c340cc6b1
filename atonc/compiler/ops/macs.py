"""Multiplications that a model asks for; those of the units are counted in `hw/cycles/work.py`."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from atonc.compiler.ir import Graph, Op, Tensor


def macs(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """Counts the multiplications of one operator."""
    source, target = tensors[op.inputs[0]], tensors[op.outputs[0]]
    if op.kind in ("conv", "dense"):
        return target.elements * prod(tensors[op.inputs[1]].shape[1:])
    if op.kind == "transpose_conv":  # each input value meets all its weights
        weights = tensors[op.inputs[1]].shape
        return source.elements * prod(weights[:-1]) // max(1, op.attrs.get("groups", 1))
    if op.kind == "matmul":
        return target.elements * source.shape[-2 if op.attrs.get("transpose_a") else -1]
    if op.kind == "lstm":  # in every step of the sequence, input and state meet the weights of all gates
        return target.elements // target.shape[-1] * sum(prod(tensors[name].shape) for name in op.inputs[1:3])
    return 0


def graph_macs(graph: Graph) -> int:
    return sum(macs(op, graph.tensors) for op in graph.ops)
