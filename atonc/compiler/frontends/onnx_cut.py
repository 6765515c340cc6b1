"""Cutting an ONNX graph before it is translated: what lies behind the cut need not be supported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atonc.machine.base.errors import InputError, ModelError
from atonc.machine.base.words import instead

QUANTISE = ("QuantizeLinear",)


def find_cuts(graph: Any, names: Sequence[str]) -> list[str]:
    """Values for the names of values or nodes. A real value that is only quantised is cut after that."""
    producers = {output: node for node in graph.node for output in node.output if output}
    by_node = {node.name: node for node in graph.node if node.name}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    cuts = []
    for name in names:
        found = [name] if name in producers else [o for o in by_node[name].output if o] if name in by_node else []
        if not found:
            what = f"the model has no tensor {name[:100]!r} to cut at"
            raise InputError(what, where="--cut-output-tensors", remedy=instead(name, [*producers, *by_node]))
        cuts += [_after_quantisation(value, readers) for value in found]
    return list(dict.fromkeys(cuts))


def _after_quantisation(value: str, readers: dict[str, list[Any]]) -> str:
    after = readers.get(value, [])
    only = after[0] if len(after) == 1 else None
    return str(only.output[0]) if only is not None and only.op_type in QUANTISE and only.output else value


def needed_nodes(graph: Any, outputs: Sequence[str]) -> set[int]:
    """Indices of the nodes that the outputs depend on."""
    producers = {output: index for index, node in enumerate(graph.node) for output in node.output if output}
    waiting, needed = list(outputs), set[int]()
    while waiting:
        index = producers.get(waiting.pop())
        if index is None or index in needed:
            continue
        needed.add(index)
        waiting += [name for name in graph.node[index].input if name]
    if not needed:
        raise ModelError("nothing is left of the model after the cut")
    return needed
