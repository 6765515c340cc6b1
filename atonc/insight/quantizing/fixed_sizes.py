"""Outputs whose size depends on values (boxes that a detector keeps, values that a mask picks) are refused before the
work: samples cannot be compared value by value, and the chip has memory for one size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph
from atonc.machine.base.errors import UnsupportedError

BY_VALUES = ("NonMaxSuppression", "NonZero", "Unique", "Compress")  # how much they give depends on what they are given
RULE = "every tensor has one size, known when the model is compiled"
LATER = "and leave the rest to the application"


def require_fixed_outputs(graph: FloatGraph, exported: Any, where: str) -> None:
    """`graph`: tidy, with shapes; `exported`: the same model with the names that the user knows."""
    open_sizes = [name for name in graph.outputs if not all(graph.shapes.get(name, ()))]
    for name in open_sizes:
        node = next((node for node in _behind(exported, name) if node.op_type in BY_VALUES), None)
        if node is not None:
            raise UnsupportedError(
                f"{node.op_type} makes the size of output {name!r} depend on values",
                where=f"{where}, {node.name or node.output[0]}",
                rule=RULE,
                remedy=f"end the model before it (--cut-output-tensors {','.join(last_fixed(exported))}) {LATER}",
            )


def require_equal_sizes(names: Sequence[str], samples: Sequence[Sequence[Array]]) -> None:
    """Whatever else may change a size, such as a loop, is seen when the samples have run."""
    for name, values in zip(names, zip(*samples, strict=True), strict=True):
        shapes = list(dict.fromkeys("x".join(map(str, value.shape)) for value in values))
        if len(shapes) > 1:
            raise UnsupportedError(
                f"{shapes[0]} values for one sample, {shapes[1]} for another",
                where=f"output {name}",
                rule=RULE,
                remedy=f"end the model where its tensors have one size (--cut-output-tensors) {LATER}",
            )


def last_fixed(model: Any) -> list[str]:
    """Tensors of float values that nodes with open sizes read, directly or as masks, and outputs that are fixed."""
    varying: set[str] = set()
    read: dict[str, None] = {}
    for node in model.graph.node:
        if node.op_type in BY_VALUES or varying.intersection(node.input):
            varying.update(node.output)
            read |= dict.fromkeys(node.input)
    fixed = [name for name in read if name and name not in varying]
    outputs = [value.name for value in model.graph.output if value.name not in varying]
    return list(dict.fromkeys([*_floats(model, fixed), *outputs]))


def _floats(model: Any, names: Sequence[str]) -> Iterator[str]:
    """What masks and indices are computed from, instead of them; nothing of what is constant."""
    from onnx import TensorProto
    from onnx.shape_inference import infer_shapes

    graph = infer_shapes(model).graph
    known = [*graph.value_info, *graph.output, *graph.input]
    floats = {value.name for value in known if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    makers = {name: node for node in graph.node for name in node.output}
    constants = {proto.name for proto in graph.initializer}
    left, seen = list(names), set[str]()
    while left:
        name = left.pop(0)
        if not name or name in seen or name in constants:
            continue
        seen.add(name)
        if name in floats and (name not in makers or makers[name].op_type != "Constant"):
            yield name
        elif name in makers:
            left.extend(makers[name].input)


def _behind(model: Any, output: str) -> Iterator[Any]:
    """Nodes that an output is computed by, the last first."""
    wanted = {output}
    for node in reversed(model.graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            yield node
