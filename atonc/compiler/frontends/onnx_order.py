"""Nodes of a file in an order in which they can run: files may have them in any, and onnxruntime sorts them too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any


def in_order(nodes: Sequence[Any]) -> list[int]:
    """Numbers of the nodes, producers first, else as in the file; what waits for itself comes last."""
    producer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waits = [{producer[name] for name in _reads(node) if name in producer} for node in nodes]
    if all(all(other < index for other in others) for index, others in enumerate(waits)):
        return list(range(len(nodes)))
    readers: dict[int, list[int]] = {}
    for index, others in enumerate(waits):
        for other in others:
            readers.setdefault(other, []).append(index)
    open_inputs = [len(others) for others in waits]
    ready, found = [index for index, count in enumerate(open_inputs) if not count], list[int]()
    while ready:
        found.append(heappop(ready))
        for reader in readers.get(found[-1], ()):
            open_inputs[reader] -= 1
            if not open_inputs[reader]:
                heappush(ready, reader)
    return found + sorted(set(range(len(nodes))) - set(found))


def sort_nodes(graph: Any) -> None:
    """For whoever goes through the nodes of the file itself."""
    order = in_order(graph.node)
    if order != sorted(order):
        copies = [type(graph.node[index]).FromString(graph.node[index].SerializeToString()) for index in order]
        del graph.node[:]
        graph.node.extend(copies)


def _reads(node: Any) -> Iterator[str]:
    """Inputs, and what the graphs inside a loop or a branch take from outside; an empty name is no input."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for inside in (attribute.g, *attribute.graphs):
            for inner in inside.node:
                yield from _reads(inner)
