"""Advice that holds at the edge of a model only: inside it the same operator has no remedy of that kind."""

from __future__ import annotations

from atonc.compiler.ir import Graph, Op

_AT_THE_END, _AT_THE_START = ("softmax", "log_softmax", "dequantize"), ("quantize",)
# what may stand between such an operator and the outputs or inputs of the model
_BETWEEN = ("reshape", "squeeze", "expand_dims", "flatten", "identity", "transpose", "dequantize", "cast")
_OF_FLOATS = "quantise the operators {} it as well, so that no floats are needed here"
_INSIDE = {
    "softmax": "fewer rows or channels; inside the model it cannot be cut off",
    "log_softmax": "fewer rows or channels; inside the model it cannot be cut off",
    "dequantize": _OF_FLOATS.format("that read"),
    "quantize": _OF_FLOATS.format("before"),
}


def remedy(op: Op, graph: Graph, usual: str) -> str:
    """The usual one of its rule, or what is left where that cannot be followed."""
    if not holds(op, graph):
        return _INSIDE[op.kind]
    wide = any(graph.tensors[name].dtype == "int16" for name in (*op.inputs[:1], *op.outputs))
    return usual.replace("int8 or uint8", "int16").replace("int8", "int16") if wide else usual


def holds(op: Op, graph: Graph) -> bool:
    """Whether an operator is where its remedy can be followed; those that may be anywhere always are."""
    if op.kind in _AT_THE_END:
        return _ends(op, graph)
    return op.kind not in _AT_THE_START or _begins(op, graph)


def _ends(op: Op, graph: Graph) -> bool:
    """All that reads its result leads to outputs, and through nothing that computes with it."""
    waiting, seen, consumers = [op], {op.name}, graph.consumers
    while waiting:
        one = waiting.pop()
        readers = [reader for name in one.outputs for reader in consumers.get(name, ())]
        if any(reader.kind not in _BETWEEN for reader in readers):
            return False
        if not readers and not set(one.outputs) & set(graph.outputs):
            return False
        waiting += [reader for reader in readers if reader.name not in seen]
        seen |= {reader.name for reader in readers}
    return True


def _begins(op: Op, graph: Graph) -> bool:
    one, producers = op, graph.producers
    while one.inputs and one.inputs[0] not in graph.inputs:
        before = producers.get(one.inputs[0])
        if before is None or before.kind not in _BETWEEN:
            return False
        one = before
    return bool(one.inputs)
