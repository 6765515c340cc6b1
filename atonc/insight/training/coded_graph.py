"""A quantised ONNX model as a plan for training: which tensors have codes, which of them share a scale, and which nodes
compute between them. The file that `quantize` writes is the one truth of where codes are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import WEIGHTED, is_move
from atonc.insight.quantizing.loading import parse
from atonc.insight.quantizing.scales import grouped
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass

TIED = ("Concat", "Add", "Max", "Min")  # operands that share a scale in the file go on doing so
LEARNT = ("LayerNormalization", "InstanceNormalization", "PRelu", *WEIGHTED)  # their real constants are trained, too


@dataclass(frozen=True)
class CodedActivation:
    """A QuantizeLinear: what it writes holds codes."""

    name: str  # its output
    source: str  # what it reads
    scale: str  # name of the constant
    zero: str
    group: int  # activations of one group share scale and zero point
    is_input: bool  # of the graph: the application's own scale


@dataclass(frozen=True)
class CodedWeights:
    """Constant codes of a layer or operand, symmetric, one scale for each channel along the axis or one for all."""

    name: str  # what the layer reads
    codes: str  # names of constants
    scale: str
    axis: int | None
    bits: int
    bias: str = ""  # name of the coded bias beside them
    source: int | None = None  # group of what the layer reads


@dataclass(frozen=True)
class CodedBias:
    """Codes of 32 bits in units of what is multiplied."""

    name: str
    codes: str
    scale: str
    weights: str  # name of the coded weights
    source: int  # group of what the layer reads


@dataclass(frozen=True, eq=False)
class CodedGraph:
    model: Any
    nodes: tuple[Any, ...]  # that compute, in order; conversions are in the tables below
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]  # of the inputs
    constants: Mapping[str, Array]
    activations: Mapping[str, CodedActivation]  # by what QuantizeLinear writes
    decoded: Mapping[str, str]  # what DequantizeLinear writes -> what it reads
    weights: Mapping[str, CodedWeights]
    biases: Mapping[str, CodedBias]
    learnt: tuple[str, ...]  # real constants that are trained

    @staticmethod
    def of(data: bytes, name: str = "model") -> CodedGraph:
        model = parse(data, name)
        return _Reader(model).graph()

    def members(self, group: int) -> Iterator[CodedActivation]:
        return (one for one in self.activations.values() if one.group == group)


class _Reader:
    def __init__(self, model: Any) -> None:
        from onnx import TensorProto, numpy_helper

        self.model, graph = model, model.graph
        self.constants = {proto.name: numpy_helper.to_array(proto) for proto in graph.initializer}
        four = [proto.name for proto in graph.initializer if proto.data_type == TensorProto.INT4]
        self.constants |= {name: self.constants[name].astype(np.int8) for name in four}
        self.bits = dict.fromkeys(self.constants, 8) | dict.fromkeys(four, 4)
        self.nodes = [node for node in graph.node if node.op_type not in ("QuantizeLinear", "DequantizeLinear")]
        self.quantised = {n.output[0]: n for n in graph.node if n.op_type == "QuantizeLinear"}
        self.dequantised = {n.output[0]: n for n in graph.node if n.op_type == "DequantizeLinear"}
        self.inputs = tuple(value.name for value in graph.input if value.name not in self.constants)

    def graph(self) -> CodedGraph:
        self._require_eight()
        decoded = {name: node.input[0] for name, node in self.dequantised.items() if node.input[0] in self.quantised}
        groups = self._groups(decoded)
        activations = {
            name: CodedActivation(
                name=name, source=node.input[0], scale=node.input[1], zero=node.input[2], group=groups[name],
                is_input=node.input[0] in self.inputs,
            )
            for name, node in self.quantised.items()
        }  # fmt: skip
        weights, biases = self._layers(decoded, groups)
        values = {v.name: v for v in self.model.graph.input}
        shapes = {n: tuple(d.dim_value for d in values[n].type.tensor_type.shape.dim) for n in self.inputs}
        learnt = {
            name
            for node in self.nodes if node.op_type in LEARNT
            for name in node.input[1:] if name in self.constants and self.constants[name].dtype == np.float32
        }  # fmt: skip
        outputs = tuple(value.name for value in self.model.graph.output)
        return CodedGraph(
            model=self.model,
            nodes=tuple(self.nodes),
            inputs=self.inputs,
            outputs=outputs,
            shapes=shapes,
            constants=self.constants,
            activations=activations,
            decoded=decoded,
            weights=weights,
            biases=biases,
            learnt=tuple(sorted(learnt)),
        )

    def _require_eight(self) -> None:
        for name, node in self.quantised.items():
            if len(node.input) < 3 or self.constants[node.input[2]].dtype != np.int8:
                raise UnsupportedError(
                    "activations of other than 8 bits are not trained",
                    where=name,
                    rule="training has int8 values with a zero point",
                    remedy="leave --wide out",
                )

    def _form(self, name: str) -> tuple[float, int]:
        node = self.quantised[name]
        return float(self.constants[node.input[1]].reshape(())), int(self.constants[node.input[2]].reshape(()))

    def _groups(self, decoded: Mapping[str, str]) -> dict[str, int]:
        """Moves keep scale and zero point; joins and sums that have one scale in the file keep to it."""
        pairs = list[tuple[str, str]]()
        written = {node.input[0]: name for name, node in self.quantised.items()}
        for node in self.nodes:
            if not is_move(node) and node.op_type not in TIED:
                continue
            read = [decoded[name] for name in node.input if name in decoded]
            made = [written[name] for name in node.output if name in written] if is_move(node) else []
            first, *others = (*read, *made) or ("",)
            pairs += [(first, other) for other in others if self._form(first) == self._form(other)]
        groups = grouped(tuple(self.quantised), pairs)
        return {name: number for number, members in enumerate(groups) for name in members}

    def _layers(
        self, decoded: Mapping[str, str], groups: Mapping[str, int]
    ) -> tuple[dict[str, CodedWeights], dict[str, CodedBias]]:
        weights: dict[str, CodedWeights] = {}
        biases: dict[str, CodedBias] = {}
        coded = {name for name, node in self.dequantised.items() if node.input[0] in self.constants}
        for node in self.nodes:
            source = decoded.get(node.input[0]) if node.op_type in WEIGHTED else None
            group = None if source is None else groups[source]
            for name in (name for name in node.input if name in coded):
                keys, axis = self.dequantised[name].input, self._axis(name)
                if self.constants[keys[0]].dtype == np.int32:
                    assert group is not None, "a bias with codes belongs to a layer that reads codes"
                    biases[name] = CodedBias(name, keys[0], keys[1], node.input[1], group)
                else:
                    bias = node.input[2] if node.op_type in WEIGHTED and len(node.input) > 2 else ""
                    bits = self.bits[keys[0]]
                    weights[name] = CodedWeights(
                        name, keys[0], keys[1], axis, bits, bias if bias in coded else "", group
                    )
        return weights, biases

    def _axis(self, name: str) -> int | None:
        node = self.dequantised[name]
        if self.constants[node.input[1]].ndim == 0:
            return None
        return next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), 1)
