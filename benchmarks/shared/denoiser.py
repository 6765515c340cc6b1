"""A denoiser as the one that a user of ST's forum described (June 2025): 257 frequencies, two LSTM cells of 256 whose
states are inputs and outputs, quantised as the script of that post does. Its weights are random: what runs where, and
how long it takes, does not depend on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

STATE = 256  # values of a cell
STATES = ("h_0", "c_0", "h_1", "c_1")


class _Nodes:
    """Nodes and weights as they are added; every `add` gives the name of what it computes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(257)

    @property
    def parameters(self) -> int:
        return sum(int(np.prod(weight.dims)) for weight in self.weights)

    def add(self, kind: str, output: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def weight(self, name: str, *shape: int) -> str:
        values = self._random.normal(0, 1 / np.sqrt(shape[-1]), shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, name: str, source: str, channels: int) -> str:
        weights = self.weight(f"{name}.w", channels, channels, 1), self.weight(f"{name}.b", channels)
        return self.add("Conv", name, source, *weights, kernel_shape=[1])

    def dense(self, name: str, source: str, inputs: int, outputs: int, bias: bool = True) -> str:
        weights = [self.weight(f"{name}.w", outputs, inputs)] + ([self.weight(f"{name}.b", outputs)] if bias else [])
        return self.add("Gemm", name, source, *weights, transB=1)

    def lstm(self, number: int, source: str, inputs: int) -> str:
        """One step of a cell: four gates from input and state, then the new states."""
        from_input = self.dense(f"lstm{number}.input", source, inputs, 4 * STATE)
        from_state = self.dense(f"lstm{number}.state", f"h_{number}", STATE, 4 * STATE, bias=False)
        gates = self.add("Add", f"lstm{number}.gates", from_input, from_state)
        parts = [f"lstm{number}.{part}" for part in ("in", "forget", "cell", "out")]
        self.nodes.append(helper.make_node("Split", [gates], parts, name=f"lstm{number}.split", axis=1, num_outputs=4))
        kinds = ("Sigmoid", "Sigmoid", "Tanh", "Sigmoid")
        opened = [self.add(kind, f"{part}.open", part) for kind, part in zip(kinds, parts, strict=True)]
        kept = self.add("Mul", f"lstm{number}.kept", opened[1], f"c_{number}")
        added = self.add("Mul", f"lstm{number}.added", opened[0], opened[2])
        cell = self.add("Add", f"c_{number}_next", kept, added)
        return self.add("Mul", f"h_{number}_next", opened[3], self.add("Tanh", f"lstm{number}.tanh", cell))


class _Random(CalibrationDataReader):  # type: ignore[misc]
    """One random sample, as in the post."""

    def __init__(self, channels: int) -> None:
        random = np.random.default_rng(1)
        sample = {name: random.normal(size=(1, STATE)).astype(np.float32) for name in STATES}
        sample["input"] = random.normal(size=(1, channels, 1)).astype(np.float32)
        self._samples = iter([sample])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._samples, None)


def write_denoiser(path: Path, channels: int = 257) -> int:
    """The quantised model; its number of parameters."""
    nodes = _Nodes()
    flat = nodes.add("Flatten", "flat", nodes.conv("conv_in", "input", channels))
    cells = nodes.lstm(1, nodes.lstm(0, flat, channels), STATE)
    frequencies = nodes.dense("dense_out", cells, STATE, channels)
    nodes.weights.append(numpy_helper.from_array(np.array([1, channels, 1], np.int64), "shape"))
    picture = nodes.add("Reshape", "picture", frequencies, "shape")
    nodes.add("Sigmoid", "mask", nodes.conv("conv_out", picture, channels))

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    states = [value(name, 1, STATE) for name in STATES]
    later = [value(f"{name}_next", 1, STATE) for name in STATES]
    graph = helper.make_graph(
        nodes.nodes, "denoiser", [value("input", 1, channels, 1), *states], [value("mask", 1, channels, 1), *later],
        nodes.weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    quantize_static(
        model, path, _Random(channels), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax,
        extra_options={"ForceQuantizeNoInputCheck": True},
    )  # fmt: skip
    return nodes.parameters - 3  # without the shape
