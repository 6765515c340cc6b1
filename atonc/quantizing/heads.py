"""Outputs that join parts of unlike range: boxes in pixels and scores below 1 in one tensor, as detectors give them.

One scale for both leaves the scores a few codes. Such a Concat stays in float: its parts keep scales of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atonc.quantizing.graph import FloatGraph, attribute
from atonc.quantizing.ranges import Seen

UNLIKE = 4.0  # from which factor on between the largest values of two parts


def joined_outputs(graph: FloatGraph) -> dict[str, Any]:
    """Output -> the Concat that makes it of several tensors, which nobody else reads."""
    found = {}
    for name in graph.outputs:
        node = graph.producer.get(name)
        if node is None or node.op_type != "Concat" or len(node.input) < 2 or graph.readers[name]:
            continue
        if all(graph.shapes.get(part) for part in node.input):
            found[name] = node
    return found


def unlike_heads(graph: FloatGraph, seen: Mapping[str, Seen]) -> tuple[str, ...]:
    """Names of the nodes whose parts differ in range by more than a shared scale bears."""
    found = []
    for node in joined_outputs(graph).values():
        tops = [max(abs(seen[part].low), abs(seen[part].high)) for part in node.input if part in seen]
        if len(tops) > 1 and max(tops) > UNLIKE * max(min(tops), 1e-12):
            found.append(node.name)
    return tuple(found)


def parts_of(graph: FloatGraph) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Output -> axis and sizes of what is joined in it."""
    found = {}
    for name, node in joined_outputs(graph).items():
        axis = attribute(node, "axis", 0)
        found[name] = axis, tuple(graph.shapes[part][axis] for part in node.input)
    return found
