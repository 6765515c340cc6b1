"""Outputs that join parts of unlike range: boxes in pixels and scores below 1 in one tensor, as detectors give them.

One scale for both leaves the scores a few codes. From the first such Concat on the output stays in float, however often
it is joined and reshaped on the way: its parts keep scales of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.observe import run, session
from atonc.insight.quantizing.ranges import Seen
from atonc.machine.base.frozen import dataclass

UNLIKE = 4.0  # from which factor on between the largest values of two parts
JOINING = ("Concat", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity")  # nothing is lost or made


@dataclass(frozen=True)
class Joined:
    """An output that is put together of several tensors."""

    output: str
    nodes: tuple[Any, ...]  # that put it together, in the order of the graph
    parts: tuple[str, ...]


def joined_outputs(graph: FloatGraph) -> list[Joined]:
    found = []
    for output in graph.outputs:
        nodes, parts = _put_together(graph, output)
        if len(parts) > 1 and all(graph.shapes.get(part) for part in parts):
            ordered = tuple(node for node in graph.nodes if node.name in nodes)
            found.append(Joined(output, ordered, tuple(parts)))
    return found


def _put_together(graph: FloatGraph, output: str) -> tuple[set[str], dict[str, None]]:
    """Names of the nodes that only move values into this output and nowhere else, and the tensors they begin with."""
    nodes, parts, waiting = set[str](), dict[str, None](), [output]
    while waiting:
        name = waiting.pop(0)
        node = graph.producer.get(name)
        alone = not graph.readers[name] if name == output else graph.read_once(name)
        if node is None or node.op_type not in JOINING or not alone:
            parts[name] = None
            continue
        nodes.add(node.name)
        waiting += graph.activations(node)
    return nodes, parts


def unlike_heads(graph: FloatGraph, seen: Mapping[str, Seen]) -> tuple[str, ...]:
    """Names of the nodes that join what a shared scale does not bear, and of those that follow them to the output."""
    found = set[str]()
    for joined in joined_outputs(graph):
        tops = {part: [max(abs(seen[part].low), abs(seen[part].high))] for part in joined.parts if part in seen}
        apart = set[str]()  # tensors
        for node in joined.nodes:
            live = graph.activations(node)
            below = [top for name in live for top in tops.get(name, [])]
            unlike = node.op_type == "Concat" and bool(below) and max(below) > UNLIKE * max(min(below), 1e-12)
            if unlike or apart.intersection(live):
                found.add(node.name)
                apart.add(node.output[0])
            tops[node.output[0]] = below
    return tuple(node.name for node in graph.nodes if node.name in found)


def parts_of(graph: FloatGraph) -> dict[str, Array]:
    """Output -> for each of its values the number of the part that it comes from."""
    return {joined.output: _owners(graph, joined) for joined in joined_outputs(graph)}


def _owners(graph: FloatGraph, joined: Joined) -> Array:
    """The joining nodes themselves say it, run on parts that hold nothing but their number."""
    from onnx import TensorProto, helper, numpy_helper

    constants = {name for node in joined.nodes for name in node.input if name in graph.constants}
    inputs = [helper.make_tensor_value_info(p, TensorProto.FLOAT, graph.shapes[p]) for p in joined.parts]
    outputs = [helper.ValueInfoProto(name=joined.output)]
    stored = [numpy_helper.from_array(graph.constants[name], name) for name in sorted(constants)]
    body = helper.make_graph(list(joined.nodes), "joining", inputs, outputs, stored)
    source = graph.model
    model = helper.make_model(body, opset_imports=list(source.opset_import), ir_version=source.ir_version)
    feed = {part: np.full(graph.shapes[part], index, np.float32) for index, part in enumerate(joined.parts)}
    return run(session(model), feed)[0].astype(np.int64)
