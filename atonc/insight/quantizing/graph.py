"""A float ONNX graph to look at and to change: who writes and reads a tensor, its shape, its value if constant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from atonc.compiler.ir import Array


class FloatGraph:
    """An index over a model; `model` itself stays the one truth, `set_constant` is the only change."""

    def __init__(self, model: Any) -> None:
        from onnx import TensorProto, numpy_helper

        self.model, graph = model, model.graph
        self.nodes: tuple[Any, ...] = tuple(graph.node)
        self.constants: dict[str, Array] = {p.name: numpy_helper.to_array(p) for p in graph.initializer}
        self.inputs = tuple(v.name for v in graph.input if v.name not in self.constants)
        self.outputs = tuple(v.name for v in graph.output)
        self.producer = {name: node for node in self.nodes for name in node.output if name}
        self.readers: dict[str, list[Any]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                if name:
                    self.readers[name].append(node)
        known = [*graph.input, *graph.value_info, *graph.output]
        self.shapes = {v.name: tuple(int(d.dim_value) for d in v.type.tensor_type.shape.dim) for v in known}
        self.floats = {v.name for v in known if v.type.tensor_type.elem_type == TensorProto.FLOAT}

    def set_constant(self, name: str, value: Array) -> None:
        from onnx import numpy_helper

        proto = next(p for p in self.model.graph.initializer if p.name == name)
        proto.CopyFrom(numpy_helper.from_array(value.astype(np.float32), name))
        self.constants[name] = value.astype(np.float32)

    def is_activation(self, name: str) -> bool:
        return bool(name) and name in self.floats and name not in self.constants

    def activations(self, node: Any) -> list[str]:
        """Inputs that change from run to run, each once."""
        return [name for name in dict.fromkeys(node.input) if self.is_activation(name)]

    def read_once(self, name: str) -> bool:
        return len(self.readers[name]) == 1 and name not in self.outputs

    def weights_of(self, node: Any) -> str:
        """Name of the constant that the node multiplies with; empty if it has none."""
        if node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul") and node.input[1] in self.constants:
            return str(node.input[1])
        return ""

    def bias_of(self, node: Any) -> str:
        third = node.input[2] if len(node.input) > 2 else ""
        return str(third) if third in self.constants else ""


def copied(model: Any) -> Any:
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def attribute(node: Any, name: str, default: Any) -> Any:
    from onnx import helper

    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def own_constants(model: Any, kinds: Iterable[str]) -> Any:
    """Weights that several nodes share become a copy for each, so that each may be changed alone."""
    taken = set[str]()
    constants = {proto.name: proto for proto in model.graph.initializer}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if index and node.op_type in kinds and name in constants:
                if name in taken:
                    copy = model.graph.initializer.add()
                    copy.CopyFrom(constants[name])
                    copy.name = f"{name}:{node.name}"
                    node.input[index] = copy.name
                taken.add(name)
    return model
