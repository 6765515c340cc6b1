"""A float network, its quantised twin in QDQ form, and the places at which a fault can be planted into the twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass
class FloatNet:
    """Collects nodes of a float model; tensors have the names that they are given."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def op(self, kind: str, inputs: list[str], output: str, **attrs: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"n_{output}", **attrs))
        return output

    def constant(self, name: str, value: Array) -> str:
        self.constants[name] = value.astype(np.float32)
        return name

    def conv(self, x: str, output: str, channels: tuple[int, int], size: int = 3, groups: int = 1) -> str:
        into, out = channels
        fan = (into // groups) * size * size
        weights = self.rng.normal(0, (2 / fan) ** 0.5, (out, into // groups, size, size))
        w = self.constant(f"{output}_w", weights)
        b = self.constant(f"{output}_b", self.rng.normal(0, 0.1, out))
        return self.op("Conv", [x, w, b], output, pads=[size // 2] * 4, group=groups)

    def model(self, inputs: Mapping[str, tuple[int, ...]], outputs: list[str]) -> onnx.ModelProto:
        return _model(self.nodes, self.constants, inputs, outputs)


def _model(
    nodes: list[onnx.NodeProto],
    constants: Mapping[str, Array],
    inputs: Mapping[str, tuple[int, ...]],
    outputs: list[str],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "planted",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def tensors(model: onnx.ModelProto, sample: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor of a float model by name."""
    import onnxruntime

    names = [name for node in model.graph.node for name in node.output]
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, dict(sample)), strict=True)) | dict(sample)


@dataclass
class Format:
    """The format of an activation: int8 codes."""

    scale: float
    zero: int

    @classmethod
    def of(cls, low: float, high: float) -> Format:
        low, high = min(low, 0.0), max(high, 0.0)
        scale = max(high - low, 1e-6) / 255
        return cls(scale, round(-128 - low / scale))


@dataclass
class Quantiser:
    """Per-channel symmetric weights, int8 activations by their extremes; every choice can be changed before `model`."""

    source: onnx.ModelProto
    formats: dict[str, Format]
    per_tensor: set[str] = field(default_factory=set)  # weights
    weight_scales: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)  # float weights instead of the model's

    @classmethod
    def calibrated(cls, source: onnx.ModelProto, samples: list[dict[str, Array]]) -> Quantiser:
        runs = [tensors(source, sample) for sample in samples]
        ranges = {name: (min(r[name].min() for r in runs), max(r[name].max() for r in runs)) for name in runs[0]}
        return cls(source, {name: Format.of(float(low), float(high)) for name, (low, high) in ranges.items()})

    def model(self) -> onnx.ModelProto:
        graph = self.source.graph
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, Array] = {}
        floats = {k.name: self.weights.get(k.name, numpy_helper.to_array(k)) for k in graph.initializer}
        names = {one.name: self._pair(one.name, one.name) for one in graph.input}
        outputs = [one.name for one in graph.output]
        for node in graph.node:
            inputs = [names.get(name, name) for name in node.input]
            if node.op_type in ("Conv", "Gemm", "MatMul"):
                inputs[1], scales = self._weights(node.input[1], floats[node.input[1]], node.op_type == "Conv")
                if len(inputs) > 2:
                    inputs[2] = self._bias(node.input[2], floats[node.input[2]], scales * self._scale(node.input[0]))
            for place, name in enumerate(node.input):
                if inputs[place] == name and name in floats:
                    self._constants[name] = floats[name]
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            copy.input[:] = inputs
            written = node.output[0]
            copy.output[:] = [f"{written}_float" if written in outputs else written]
            self._nodes.append(copy)
            names[written] = self._pair(copy.output[0], written, written if written in outputs else "")
        shapes = {i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in graph.input}
        return _model(self._nodes, self._constants, shapes, outputs)

    def _scale(self, name: str) -> float:
        return self.formats[name].scale

    def _pair(self, tensor: str, name: str, output: str = "") -> str:
        """Quantised and back, under the names that onnxruntime's tool gives."""
        found = self.formats[name]
        scale, zero = f"{name}_scale", f"{name}_zero_point"
        self._constants |= {scale: np.float32(found.scale), zero: np.array(found.zero, np.int8)}
        codes, back = f"{name}_QuantizeLinear_Output", output or f"{name}_DequantizeLinear_Output"
        self._nodes.append(helper.make_node("QuantizeLinear", [tensor, scale, zero], [codes], name=f"{name}_q"))
        self._nodes.append(helper.make_node("DequantizeLinear", [codes, scale, zero], [back], name=f"{name}_dq"))
        return back

    def _weights(self, name: str, value: Array, conv: bool) -> tuple[str, Array]:
        axis = 0 if conv else 1
        reach = np.abs(value).max(axis=tuple(k for k in range(value.ndim) if k != axis)) / 127
        scales = np.maximum(np.full_like(reach, reach.max()) if name in self.per_tensor else reach, 1e-9)
        scales = self.weight_scales.get(name, scales).astype(np.float32)
        along = scales.reshape([-1 if k == axis else 1 for k in range(value.ndim)])
        codes = np.clip(np.rint(value / along), -127, 127).astype(np.int8)
        if name in self.per_tensor:
            return self._constant_pair(name, codes, scales[0], None), scales
        return self._constant_pair(name, codes, scales, axis), scales

    def _bias(self, name: str, value: Array, scales: Array) -> str:
        codes = np.clip(np.rint(value.astype(np.float64) / scales), -(2.0**31), 2.0**31 - 1).astype(np.int32)
        return self._constant_pair(name, codes, scales.astype(np.float32), 0)

    def _constant_pair(self, name: str, codes: Array, scale: Array, axis: int | None) -> str:
        parts = [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"]
        self._constants |= zip(parts, (codes, np.asarray(scale), np.zeros_like(scale, codes.dtype)), strict=True)
        attrs = {} if axis is None else {"axis": axis}
        back = f"{name}_DequantizeLinear_Output"
        self._nodes.append(helper.make_node("DequantizeLinear", parts, [back], name=f"{name}_dq", **attrs))
        return back
