"""Which tensors become int8: a plan over the float graph.

Functions of one value (SiLU, hard-swish and their like, however many nodes they are written with) stay in float between
one QuantizeLinear and the next: the compiler makes one table of them. A ReLU stays with the layer before it. Tails that
int8 would spoil (softmax, non-maximum suppression) stay in float.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from atonc.compiler.ops.functions import FUNCTIONS
from atonc.insight.quantizing.graph import FloatGraph, attribute
from atonc.machine.base.frozen import dataclass

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "MaxPool", "Identity", "Gather",
         "DepthToSpace", "SpaceToDepth", "Expand", "Tile", "Pad", "Concat", "GlobalMaxPool")  # fmt: skip
# nodes of one value that the reader makes of others, or that are one with a constant beside it
COMPOSED = ("Clip", "Selu", "Celu", "Gelu", "Softsign", "Pow", "Add", "Sub", "Mul", "Div")
ONE_VALUE = (*(row.onnx for row in FUNCTIONS.values() if row.onnx), *COMPOSED)
ARITHMETIC = ("Add", "Sub", "Mul", "Max", "Min", "Div")
TAILS = ("Softmax",)
OTHERS = ("GlobalAveragePool", "AveragePool", "ReduceMean", "Resize", "PRelu", "InstanceNormalization")
FUSED = ("Relu", "Clip")


@dataclass(frozen=True)
class ScalePlan:
    """Tensors that get a scale, in the order of the graph, and which of them must share it."""

    tensors: tuple[str, ...]
    same: tuple[tuple[str, str], ...]  # a move gives its values on: both have one scale
    concats: tuple[tuple[str, tuple[str, ...]], ...]  # output, inputs: one scale would spare a conversion
    adds: tuple[tuple[str, ...], ...]  # operands of sums
    float_nodes: tuple[str, ...]  # left in float


def make_plan(graph: FloatGraph, float_tails: bool = True, apart: Iterable[str] = ()) -> ScalePlan:
    """`apart`: nodes at the end that join tensors, to be left in float."""
    kept = _float_nodes(graph, float_tails) | set(apart)
    roots = _roots(graph, kept)
    wanted = {name for name in graph.inputs if name in graph.floats and _needed(graph, name, roots, kept)}
    wanted |= {name for node in graph.nodes for name in node.output if _needed(graph, name, roots, kept)}
    tensors = [name for name in (*graph.inputs, *(o for n in graph.nodes for o in n.output)) if name in wanted]
    same, concats, adds = list[tuple[str, str]](), list[tuple[str, tuple[str, ...]]](), list[tuple[str, ...]]()
    for node in graph.nodes:
        live = graph.activations(node)
        if node.name in kept or not wanted.issuperset(live):
            continue
        if node.op_type == "Concat" and node.output[0] in wanted:
            concats.append((node.output[0], tuple(live)))
        elif is_move(node) and live:
            same += [(live[0], name) for name in node.output if name in wanted]
        elif node.op_type == "Add" and len(live) == 2:
            adds.append(tuple(live))
    return ScalePlan(tuple(tensors), tuple(same), tuple(concats), tuple(adds), tuple(sorted(kept)))


def is_move(node: Any) -> bool:
    return node.op_type in MOVES or (node.op_type == "Resize" and attribute(node, "mode", b"nearest") == b"nearest")


def _float_nodes(graph: FloatGraph, tails: bool) -> set[str]:
    """Nodes that compute in float: of kinds without an int8 form, and what follows such a node up to an output."""
    kept = set[str]()
    for node in graph.nodes:
        known = node.op_type in (*WEIGHTED, *MOVES, *ONE_VALUE, *ARITHMETIC, *OTHERS, *(() if tails else TAILS))
        no_float = not any(name in graph.floats for name in node.output)
        both_live = node.op_type in WEIGHTED and not graph.weights_of(node)
        if not known or no_float or (both_live and node.op_type != "MatMul"):
            kept.add(node.name)
    if tails:
        for node in graph.nodes:
            writers = [graph.producer.get(name) for name in graph.activations(node)]
            if writers and all(w is not None and w.name in kept for w in writers) and node.op_type not in WEIGHTED:
                kept.add(node.name)
    return kept


def is_scalar(graph: FloatGraph, name: str) -> bool:
    return name in graph.constants and graph.constants[name].size == 1


def _roots(graph: FloatGraph, kept: set[str]) -> dict[str, str]:
    """Tensor -> the tensor that it is a function of, value by value; itself where there is none."""
    roots = {name: name for name in graph.inputs}
    for node in graph.nodes:
        live = graph.activations(node)
        found = {roots[name] for name in live}
        shapes = {graph.shapes.get(name) for name in (*live, *node.output)}
        constants_ok = all(is_scalar(graph, n) for n in node.input if n and n not in live)
        single = node.op_type in ONE_VALUE and len(found) == 1 and len(shapes) == 1 and constants_ok
        for name in node.output:
            fused = single and name and _is_fused(graph, node)
            roots[name] = next(iter(found)) if single and not fused and node.name not in kept else name
    return roots


def _is_fused(graph: FloatGraph, node: Any) -> bool:
    """A ReLU that alone reads a layer's result is part of that layer."""
    source = graph.producer.get(node.input[0])
    if node.op_type not in FUSED or source is None or not graph.read_once(node.input[0]):
        return False
    whole = source.op_type in (*WEIGHTED, "GlobalAveragePool", "AveragePool")
    return whole or (source.op_type in ("Add", "Sub", "Mul") and len(graph.activations(source)) == 2
                     and len(set(map(graph.shapes.get, source.input))) == 1)  # fmt: skip


def _needed(graph: FloatGraph, name: str, roots: dict[str, str], kept: set[str]) -> bool:
    """Whether the tensor gets codes: it is the root of others, or somebody reads it who needs codes."""
    producer, readers = graph.producer.get(name), graph.readers[name]
    if name not in graph.floats or (producer is not None and producer.name in kept and not readers):
        return False
    if producer is not None and producer.name in kept:
        return any(reader.name not in kept for reader in readers)
    if len(readers) == 1 and name not in graph.outputs and _is_fused(graph, readers[0]):
        return False
    if roots[name] == name or name in graph.outputs:
        return True
    return any(roots[output] != roots[name] or reader.name in kept for reader in readers for output in reader.output)
