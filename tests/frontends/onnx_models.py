"""Builds small quantised ONNX models, and runs them with whatever ONNX runtime is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.inputs.inputs import program_inputs
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation


class Net:
    """Collects nodes; `q` and `dq` add the pairs around an operator."""

    def __init__(self, seed: int = 0, opset: int = 21) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(seed)
        self.opset, self.count = opset, 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def const(self, data: Any, stem: str = "k") -> str:
        name = self.name(stem)
        self.constants.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def node(self, kind: str, inputs: list[str], outputs: int = 1, domain: str = "", **attrs: Any) -> list[str]:
        names = [self.name(kind.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"n_{names[0]}", domain=domain, **attrs))
        return names

    def q(self, x: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        return self.node("QuantizeLinear", [x, self.const(np.float32(scale)), self.const(np.array(zero, dtype))])[0]

    def dq(self, x: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        return self.node("DequantizeLinear", [x, self.const(np.float32(scale)), self.const(np.array(zero, dtype))])[0]

    def qdq(self, x: str, scale: float, zero: int = 0, dtype: str = "int8") -> str:
        return self.dq(self.q(x, scale, zero, dtype), scale, zero, dtype)

    def weights(self, shape: tuple[int, ...], axis: int = 0) -> tuple[str, Any]:
        """Per-channel int8 weights behind a DequantizeLinear, and their scales."""
        scales = self.rng.uniform(0.004, 0.01, shape[axis]).astype(np.float32)
        codes = self.rng.integers(-127, 128, shape).astype(np.int8)
        inputs = [self.const(codes, "w"), self.const(scales), self.const(np.zeros(shape[axis], np.int8))]
        return self.node("DequantizeLinear", inputs, axis=axis)[0], scales

    def bias(self, scales: Any) -> str:
        codes = self.rng.integers(-500, 500, scales.size).astype(np.int32)
        inputs = [self.const(codes, "b"), self.const(scales), self.const(np.zeros(scales.size, np.int32))]
        return self.node("DequantizeLinear", inputs, axis=0)[0]

    def conv(self, x: str, shape: tuple[int, ...], input_scale: float, **attrs: Any) -> str:
        weights, scales = self.weights(shape)
        return self.node("Conv", [x, weights, self.bias(scales * np.float32(input_scale))], **attrs)[0]

    def model(self, inputs: dict[str, tuple[Any, ...]], outputs: list[str]) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())


def model_of(net: Net, inputs: dict[str, tuple[int, tuple[int, ...]]], outputs: list[str]) -> bytes:
    """Inputs with element types of ONNX; outputs have the types that their nodes give them."""
    graph = helper.make_graph(
        net.nodes,
        "net",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        net.constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)], ir_version=10)
    return bytes(made.SerializeToString())


def emulated(data: bytes, inputs: dict[str, Any]) -> list[Any]:
    """What the compiled program gives."""
    compiled = compile_graph(read_onnx(data), Options(allow_float=True, verify=False))
    found = Emulation(compiled.program, compiled.graph).run(program_inputs(compiled, inputs))
    return [found[name] for name in compiled.graph.outputs]


def same(data: bytes, inputs: dict[str, Any], codes: float = 0.0, scale: float = 1.0) -> list[Any]:
    """Runs both ways; outputs have equal shapes and types, and differ by so many codes at most."""
    found, expected = emulated(data, inputs), run(data, inputs)
    for got, wanted in zip(found, expected, strict=True):
        assert got.shape == wanted.shape
        assert got.dtype == (np.uint8 if wanted.dtype == np.bool_ else wanted.dtype)
        apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max(initial=0.0)
        assert apart <= codes * scale * 1.001 + 1e-5, (got.reshape(-1)[:6], wanted.reshape(-1)[:6])
    return found


def run(data: bytes, inputs: dict[str, Any]) -> list[Any]:
    """onnxruntime without optimisation if it is installed, else the (slower) evaluator of onnx itself."""
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(onnx.ModelProto.FromString(data)).run(None, inputs))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return list(onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, inputs))
