"""Questions about the neighbourhood of a tensor in the graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atonc.compiler.compare.matching import Match
from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops import is_move

WEIGHTED = ("conv", "dense", "transpose_conv")
CONVERSIONS = ("quantize", "dequantize", "requantize", "identity")
MAX_STEPS = 64


def keeps_values(kind: str) -> bool:
    """True if the output may be the very buffer of the input."""
    return kind in CONVERSIONS or is_move(kind)


def code_size(graph: Graph, tensor: Tensor, values: Array) -> float:
    """What one code is worth: 1 for codes, for floats the scale of the quantised tensor that they come from."""
    if not tensor.is_float:
        return 1.0
    name = tensor.name
    for _ in range(MAX_STEPS):
        op = graph.producers.get(name)
        if op is None or not (op.kind in ("dequantize", "identity") or is_move(op.kind)):
            break
        name = op.inputs[0]
        if graph.tensors[name].quant is not None:
            return graph.tensors[name].scale
    return float(np.abs(values).max(initial=0)) / 255 or 1.0


def observed_ancestors(graph: Graph, name: str, observed: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operators between a tensor and the nearest observed tensors (in order), and those tensors."""
    between: set[str] = set()
    ancestors: dict[str, None] = {}
    pending = [name]
    while pending:
        current = pending.pop()
        op = graph.producers.get(current)
        if op is None or (current != name and current in observed):
            if not graph.tensors[current].is_constant:
                ancestors[current] = None
        elif op.name not in between:
            between.add(op.name)
            pending.extend(i for i in op.inputs if i)
    return tuple(op.name for op in graph.ops if op.name in between), tuple(ancestors)


def computed_ops(graph: Graph, names: tuple[str, ...]) -> int:
    """How many of these operators compute; the others only move values or shapes."""
    wanted = set(names)
    return sum(op.name in wanted and not is_move(op.kind) and not _is_shape_arithmetic(graph, op) for op in graph.ops)


def _is_shape_arithmetic(graph: Graph, op: Op) -> bool:
    return all(graph.tensors[o].quant is None and not graph.tensors[o].is_float for o in op.outputs if o)


def weighted_consumers(graph: Graph, name: str) -> list[tuple[Op, ...]]:
    """Chains (moves, then one convolution or dense layer) that read nothing but this tensor and constants."""
    found = []
    for op in graph.consumers.get(name, []):
        chain = [op]
        while is_move(chain[-1].kind) and len(chain) < 4:
            after = graph.consumers.get(chain[-1].outputs[0], [])
            if len(after) != 1:
                break
            chain.append(after[0])
        if chain[-1].kind in WEIGHTED and all(_has_one_input(graph, link) for link in chain):
            found.append(tuple(chain))
    return found


def _has_one_input(graph: Graph, op: Op) -> bool:
    return sum(not graph.tensors[i].is_constant for i in op.inputs if i) == 1 and len(op.outputs) == 1


def parts_of_concats(graph: Graph, matches: Mapping[str, Match]) -> dict[str, Match]:
    """Compilers let layers write straight into the buffer of a concatenation or reshape: find them there."""
    found: dict[str, Match] = {}
    for op in reversed(graph.ops):
        if op.kind not in ("concat", "reshape") or len(op.outputs) != 1:
            continue
        match = matches.get(op.outputs[0]) or found.get(op.outputs[0])
        if match is None:
            continue
        start, target = 0, graph.tensors[op.outputs[0]]
        for name in op.inputs:
            tensor = graph.tensors[name]
            values, start = _cut(op, match.values, tensor, start)
            same = tensor.quant is not None and tensor.quant.same_as(target.quant) and tensor.dtype == target.dtype
            if same and name not in matches and not tensor.is_constant and name not in graph.inputs:
                found.setdefault(name, Match(match.buffer, values, f"inside {match.buffer.name}"))
    return found


def _cut(op: Op, values: Array, tensor: Tensor, start: int) -> tuple[Array, int]:
    if op.kind == "reshape":
        return values.reshape(tensor.shape), 0
    axis = op.attrs["axis"]
    stop = start + tensor.shape[axis]
    window = tuple(slice(start, stop) if i == axis else slice(None) for i in range(values.ndim))
    return values[window], stop
