"""Channels first or last at the inputs and outputs, if the user asks for it."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, check
from atonc.compiler.passes.edit import Editor
from atonc.compiler.passes.orders import Order, channel_last, permuted, plain
from atonc.machine.base.errors import InputError

POSITIONS = ("chfirst", "chlast")
CONVERSIONS = ("quantize", "dequantize", "uint8_to_int8", "int8_to_uint8")


def set_channel_positions(graph: Graph, inputs: str, outputs: str) -> Graph:
    """Only edges that have a transpose can be turned to channel last: all others are channel last already."""
    for wanted in (inputs, outputs):
        if wanted and wanted not in POSITIONS:
            raise InputError(f"channel position {wanted!r} is not one of {', '.join(POSITIONS)}")
    turned: dict[str, Order] = {}
    for turn, names, position in ((_turn_input, graph.inputs, inputs), (_turn_output, graph.outputs, outputs)):
        for name in names if position else ():
            before, rank = graph, len(graph.tensors[name].shape)
            graph = turn(graph, name, position)
            if graph is not before:
                turned[name] = channel_last(rank) if position == "chlast" else channel_first(rank)
    return replace(_tidy(graph), turned=turned)


def _tidy(graph: Graph) -> Graph:
    editor = Editor(graph)
    for op in graph.ops:
        editor.append(op)
    return check(editor.finish())


def channel_first(rank: int) -> Order:
    """The inverse of channel_last."""
    return (0, rank - 1, *range(1, rank - 1)) if rank > 2 else plain(rank)


def _turn_input(graph: Graph, name: str, position: str) -> Graph:
    """x - conversion - transpose, the way of an input with channels first."""
    tensor, chain = graph.tensors[name], _chain(graph, name)
    rank = len(tensor.shape)
    has_transpose = bool(chain) and chain[-1].kind == "transpose" and chain[-1].attrs["perm"] == channel_last(rank)
    if rank < 3 or has_transpose == (position == "chfirst"):
        return graph
    if position == "chlast":
        return _without_input_transpose(graph, name, chain)
    first = f"{name}:last"
    shape = permuted(tensor.shape, channel_first(rank))
    tensors = {**graph.tensors, name: replace(tensor, shape=shape), first: replace(tensor, name=first)}
    ops = tuple(replace(op, inputs=tuple(first if n == name else n for n in op.inputs)) for op in graph.ops)
    turn = Op("transpose", first, (name,), (first,), {"perm": channel_last(rank)})
    return replace(graph, tensors=tensors, ops=(turn, *ops))


def _chain(graph: Graph, name: str) -> list[Op]:
    """Conversions that are the only readers, up to and with a transpose."""
    found: list[Op] = []
    while True:
        readers = graph.consumers.get(name, [])
        if len(readers) != 1 or name in graph.outputs:
            return found
        found.append(readers[0])
        if readers[0].kind not in CONVERSIONS:
            return found
        name = readers[0].outputs[0]


def _without_input_transpose(graph: Graph, name: str, chain: list[Op]) -> Graph:
    perm, last = chain[-1].attrs["perm"], chain[-1]
    tensors = dict(graph.tensors)
    for before in (name, *(op.outputs[0] for op in chain[:-1])):
        tensors[before] = replace(tensors[before], shape=permuted(tensors[before].shape, perm))
    gone, kept = last.outputs[0], last.inputs[0]
    ops = tuple(
        replace(op, inputs=tuple(kept if n == gone else n for n in op.inputs)) for op in graph.ops if op is not last
    )
    return replace(graph, tensors=tensors, ops=ops)


def _turn_output(graph: Graph, name: str, position: str) -> Graph:
    """transpose - conversion - y, the way of an output with channels first."""
    tensor, rank = graph.tensors[name], len(graph.tensors[name].shape)
    convert = graph.producers.get(name)
    if convert is None or rank < 3 or graph.consumers.get(name):
        return graph
    end = graph.producers.get(convert.inputs[0]) if convert.kind in CONVERSIONS else convert
    has_transpose = end is not None and end.kind == "transpose" and end.attrs["perm"] == channel_first(rank)
    if has_transpose == (position == "chfirst"):
        return graph
    tensors = dict(graph.tensors)
    if position == "chlast" and end is not None:
        tensors[name] = replace(tensor, shape=permuted(tensor.shape, channel_last(rank)))
        if end is convert:
            ops = tuple(Op("identity", op.name, op.inputs, op.outputs, {}, op.origin) if op is end else op
                        for op in graph.ops)  # fmt: skip
        else:
            ops = tuple(replace(op, inputs=end.inputs) if op is convert else op for op in graph.ops if op is not end)
        return replace(graph, tensors=tensors, ops=ops)
    last = f"{name}:last"
    tensors[last] = replace(tensor, name=last)
    tensors[name] = replace(tensor, shape=permuted(tensor.shape, channel_first(rank)))
    ops = tuple(replace(op, outputs=tuple(last if n == name else n for n in op.outputs)) for op in graph.ops)
    turn = Op("transpose", f"{name}:first", (last,), (name,), {"perm": channel_first(rank)})
    return replace(graph, tensors=tensors, ops=(*ops, turn))
