"""The user names tensors that become the outputs; what comes after them goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from atonc.compiler.ir import Graph
from atonc.compiler.passes.edit import Editor
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import instead


def cut_outputs(graph: Graph, names: Sequence[str]) -> Graph:
    if not names:
        return graph
    outputs = [output for name in names for output in find(graph, name)]
    graph = replace(graph, outputs=tuple(dict.fromkeys(outputs)))
    editor = Editor(graph)
    for op in graph.ops:
        editor.append(op)
    return editor.finish()


def find(graph: Graph, name: str) -> tuple[str, ...]:
    """Finds tensors by their name, by a name of the source, or by operator."""
    tensor = graph.aliases.get(name, name)
    if tensor in graph.tensors and not graph.tensors[tensor].is_constant:
        return (tensor,)
    for op in graph.ops:
        if name == op.name or name in op.origin:
            return tuple(output for output in op.outputs if output)
    known = [*graph.aliases, *graph.tensors, *(op.name for op in graph.ops)]
    raise InputError(
        f"the model has no tensor {name[:100]!r} to cut at", where=graph.name, remedy=instead(name, known)
    )
