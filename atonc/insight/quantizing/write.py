"""The quantised model as an ONNX file: QuantizeLinear and DequantizeLinear around what becomes int8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph, LinearLayer, ScalePlan, copied, is_move, is_scalar
from atonc.insight.quantizing.scales import EIGHT_ONLY, HIGH, LOW, WideForms, widened
from atonc.insight.quantizing.types import PRODUCER, Scale
from atonc.insight.quantizing.weights import QuantizedWeights, with_room


def decoded(name: str) -> str:
    """What the readers of a quantised tensor read."""
    return f"{name}_dequantized"


def codes_reach(model: Any, name: str) -> tuple[float, float]:
    """Between which values the codes of a tensor can be, half a step beyond them included; in float without end."""
    found = reaches(model)
    return found.get(name) or found.get(decoded(name)) or (-np.inf, np.inf)


def reaches(model: Any) -> dict[str, tuple[float, float]]:
    """The same of all tensors that are read as real numbers, by the name of those."""
    from onnx import numpy_helper

    stored, found = {one.name: one for one in model.graph.initializer}, dict[str, tuple[float, float]]()
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and not any(stored[key].dims for key in node.input[1:]):
            scale, zero = (numpy_helper.to_array(stored[key]) for key in node.input[1:])
            low, high = np.iinfo(zero.dtype).min - 0.5 - zero, np.iinfo(zero.dtype).max + 0.5 - zero
            found[node.output[0]] = float(low * scale), float(high * scale)
    return found


def raw(graph: FloatGraph, name: str) -> str:
    """What the producer writes: outputs of the graph keep their names behind the conversion."""
    return f"{name}_real" if name in graph.outputs else name


class OnnxWriter:
    def __init__(
        self,
        graph: FloatGraph,
        plan: ScalePlan,
        scales: Mapping[str, Scale],
        layers: Mapping[str, tuple[LinearLayer, QuantizedWeights]],
        wide: WideForms = EIGHT_ONLY,
    ) -> None:
        self.graph, self.scales, self.layers, self.wide = graph, scales, layers, wide
        self.kept = set(plan.float_nodes)
        self.names = {node.name for node in graph.nodes}
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.four_bits = set[str]()  # constants that are stored as INT4
        self.done: dict[str, str] = {}

    def model(self) -> Any:
        from onnx import numpy_helper

        for name in self.graph.inputs:
            self._quantise(name, name)
        for node in self.graph.nodes:
            self._node(node)
        made = copied(self.graph.model)
        del made.graph.node[:], made.graph.initializer[:], made.graph.value_info[:]
        made.graph.node.extend(self.nodes)
        used = {name for node in self.nodes for name in node.input} | set(self.graph.outputs)
        kept = {name: value for name, value in self.graph.constants.items() if name in used}
        for name, value in (kept | self.constants).items():
            array = np.asarray(value)
            made.graph.initializer.append(
                four_bit_tensor(array, name) if name in self.four_bits else numpy_helper.from_array(array, name)
            )
        made.producer_name = PRODUCER
        return made

    def _node(self, node: Any) -> None:
        copy = copied(node)
        for index, name in enumerate(node.input):
            copy.input[index] = self._read(node, name)
        if node.name in self.layers:
            self._weights(copy, *self.layers[node.name])
        elif node.name not in self.kept:
            self._operands(node, copy)
        for index, name in enumerate(node.output):
            if name in self.scales:
                copy.output[index] = raw(self.graph, name)
        self.nodes.append(copy)
        for name in node.output:
            self._quantise(name, raw(self.graph, name))

    def _quantise(self, name: str, source: str) -> None:
        if name not in self.scales:
            return
        found, target = self.scales[name], name if name in self.graph.outputs else decoded(name)
        if name in self.wide.scales:
            self._pair(source, name, self.wide.scales[name], target)
        else:
            if name in self.wide.results:
                source = self._pair(source, f"{name}_result", widened(found), f"{name}_sixteen_result")
            self._pair(source, name, found, target)
        self.done[name] = target

    def _read(self, node: Any, name: str) -> str:
        """What a node reads: its own width, converted where the tensor has the other."""
        done, wide = self.done.get(name, name), node.name in self.wide.nodes
        if name not in self.scales or name not in self.done or wide == (name in self.wide.scales):
            return done
        if not wide and (node.name in self.kept or is_move(node)):  # what computes in float reads either
            return done
        target = f"{name}_{'sixteen' if wide else 'eight'}"
        if target not in self.done:
            found = self.scales[name]
            self.done[target] = self._pair(done, target, widened(found) if wide else found, target)
        return target

    def _pair(self, source: str, name: str, form: Scale | float, target: str) -> str:
        """`form`: of 8 bits, or the scale of 16, which have no zero point."""
        if isinstance(form, Scale):
            keys = self._parameters(name, np.float32(form.scale), np.int8(form.zero))
        else:
            keys = self._parameters(name, np.float32(form), np.int16(0))
        self._add("QuantizeLinear", [source, *keys], f"{name}_quantized")
        self._add("DequantizeLinear", [f"{name}_quantized", *keys], target)
        return target

    def _scale_read(self, layer: LinearLayer) -> float | None:
        """What a layer reads has this scale; None where that is float."""
        found = self.scales.get(layer.source)
        if found is None or layer.name not in self.wide.nodes:
            return None if found is None else found.scale
        return self.wide.scales.get(layer.source, widened(found))

    def _weights(self, copy: Any, layer: LinearLayer, weights: QuantizedWeights) -> None:
        source = self._scale_read(layer)
        weights = weights if source is None else with_room(layer, weights, source)
        zeros = np.zeros(len(weights.scales), np.int8)
        keys = self._parameters(layer.weights, weights.scales.astype(np.float32), zeros)
        codes, axis = weights.codes, layer.axis
        if weights.bits == 4:
            self.four_bits |= {f"{layer.weights}_codes", keys[1]}
            if axis:  # published files have the output channels first
                codes, axis = _turned(copy, codes), 0
        self.constants[f"{layer.weights}_codes"] = codes
        self._add("DequantizeLinear", [f"{layer.weights}_codes", *keys], decoded(layer.weights), axis=axis)
        copy.input[1] = decoded(layer.weights)
        if layer.kind == "MatMul" or (not layer.bias and not weights.bias.any()):
            return
        name = layer.bias or f"{layer.name}_bias"
        while len(copy.input) < 3:
            copy.input.append("")
        if source is None or len(weights.bias) != len(weights.scales):  # groups share scales: biases stay real
            self.constants[name] = weights.bias.astype(np.float32)
            copy.input[2] = name
            return
        scales = (np.float32(source) * weights.scales).astype(np.float32)
        codes = np.rint(weights.bias / scales).astype(np.int32)
        keys = self._parameters(name, scales, np.zeros(len(scales), np.int32))
        self.constants[f"{name}_codes"] = codes
        self._add("DequantizeLinear", [f"{name}_codes", *keys], decoded(name), axis=0)
        copy.input[2] = decoded(name)

    def _operands(self, node: Any, copy: Any) -> None:
        """Constants that meet int8 values become int8, too: slopes of PRelu, factors by channel, rows to pick from."""
        table = self.graph.table_of(node)
        if table and node.output[0] in self.scales and node.output[0] not in self.wide.scales:
            found = self.scales[node.output[0]]
            copy.input[0] = self._stored(f"{table}:{node.name}", self.graph.constants[table], found)
        if node.op_type not in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"):
            return
        for index, name in enumerate(node.input):
            value = self.graph.constants.get(name)
            if value is None or is_scalar(self.graph, name) or value.dtype != np.float32:
                continue
            low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
            copy.input[index] = self._stored(name, value, Scale(max(high / HIGH, low / LOW, 1e-9), 0))

    def _stored(self, name: str, value: Array, form: Scale) -> str:
        """A constant as int8: what its readers read."""
        scale = np.float32(form.scale)
        keys = self._parameters(name, scale, np.int8(form.zero))
        if f"{name}_codes" not in self.constants:
            self.constants[f"{name}_codes"] = np.clip(np.rint(value / scale) + form.zero, LOW, HIGH).astype(np.int8)
            self._add("DequantizeLinear", [f"{name}_codes", *keys], decoded(name))
        return decoded(name)

    def _parameters(self, name: str, scale: Any, zero: Any) -> list[str]:
        keys = [f"{name}_scale", f"{name}_zero"]
        self.constants.update(zip(keys, (np.asarray(scale), np.asarray(zero)), strict=True))
        return keys

    def _add(self, kind: str, inputs: list[str], output: str, **more: Any) -> None:
        from onnx import helper

        name = f"{output}:{kind}" if output in self.names else output
        self.nodes.append(helper.make_node(kind, inputs, [output], name, **more))


def four_bit_tensor(codes: Array, name: str) -> Any:
    """As ONNX stores INT4: two to a byte, the first in the low bits."""
    from onnx import TensorProto, helper

    flat = codes.reshape(-1).astype(np.int8)
    pairs = np.append(flat, np.zeros(flat.size % 2, np.int8)).view(np.uint8).reshape(-1, 2) & 15
    data = (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8).tobytes()
    return helper.make_tensor(name, TensorProto.INT4, codes.shape, data, raw=True)


def _turned(node: Any, codes: Array) -> Array:
    """The weights of a Gemm with their output channels first; the node says so."""
    from onnx import helper

    for index in reversed([k for k, known in enumerate(node.attribute) if known.name == "transB"]):
        del node.attribute[index]
    node.attribute.append(helper.make_attribute("transB", 1))
    return np.ascontiguousarray(codes.T)
