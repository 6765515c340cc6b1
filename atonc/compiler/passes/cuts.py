"""The user names where the model begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from atonc.compiler.frontends.tails import UNCUT
from atonc.compiler.ir import Graph, Op, check
from atonc.compiler.passes.edit import rewrite
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import instead


def cut_outputs(graph: Graph, names: Sequence[str]) -> Graph:
    """The user names tensors that become the outputs; what comes after them goes."""
    if not names or tuple(names) == UNCUT:
        return graph
    outputs = [output for name in names for output in find(graph, name)]
    return rewrite(replace(graph, outputs=tuple(dict.fromkeys(outputs))), lambda op, editor: None)


def find(graph: Graph, name: str) -> tuple[str, ...]:
    """Finds tensors by their name, by a name of the source, or by operator."""
    tensor = graph.aliases.get(name, name)
    if tensor in graph.tensors and not graph.tensors[tensor].is_constant:
        return (tensor,)
    for op in graph.ops:
        if name == op.name or name in op.origin:
            return tuple(output for output in op.outputs if output)
    names = [*graph.aliases, *graph.tensors, *(op.name for op in graph.ops)]
    constants = {known.name for known in graph.tensors.values() if known.is_constant}
    known = [one for one in names if graph.aliases.get(one, one) not in constants]
    raise InputError(f"the model has no tensor {name[:100]!r} to cut at", where=graph.name, remedy=instead(name, known))


def cut_inputs(graph: Graph, tensors: Sequence[str], layers: Sequence[str] = ()) -> Graph:
    """The user names tensors, or layers, at which the model begins; what comes before them goes. Inputs of the model
    that are still needed stay inputs."""
    starts = [*(find(graph, name)[0] for name in tensors), *(t for name in layers for t in _inputs_of(graph, name))]
    if not starts:
        return graph
    needed, reached = _behind(graph, starts)
    for start in starts:
        if start not in reached:
            raise InputError(
                f"no output depends on {start!r}", where=graph.name, remedy="cut at a tensor on the way to the outputs"
            )
    inputs = dict.fromkeys((*(name for name in graph.inputs if name in reached), *starts))
    ops = tuple(op for op in graph.ops if id(op) in needed)
    if not ops:
        raise InputError("nothing is left of the model after the cut", where=graph.name)
    used = {name for op in ops for name in (*op.inputs, *op.outputs) if name} | set(inputs) | set(graph.outputs)
    left = {name: tensor for name, tensor in graph.tensors.items() if name in used}
    aliases = {name: held for name, held in graph.aliases.items() if held in used}
    return check(replace(graph, tensors=left, ops=ops, inputs=tuple(inputs), aliases=aliases))


def _inputs_of(graph: Graph, name: str) -> list[str]:
    """What a layer reads of the values that the network computes."""
    (written, *_) = find(graph, name)
    op = graph.producers.get(written)
    if op is None:
        return [written]
    return [read for read in op.inputs if read and not graph.tensors[read].is_constant]


def _behind(graph: Graph, starts: Sequence[str]) -> tuple[set[int], set[str]]:
    """Operators between the starts and the outputs, and every tensor met on the way."""
    waiting, needed, reached = list(graph.outputs), set[int](), set[str]()
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        op: Op | None = graph.producers.get(name)
        if op is not None and name not in starts:
            needed.add(id(op))
            waiting += [read for read in op.inputs if read]
    return needed, reached
