"""Writes examples/digits/digits.onnx: the bundled TFLite network once more, as ONNX with Q and DQ nodes.

It has what exports from PyTorch have: float edges, channels first, biases in int32 behind their own DQ.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph, Op, Tensor

FOLDER = Path(__file__).parent.parent / "examples" / "digits"


class Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attrs: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output.replace(".", "_"), **attrs))
        return output

    def quantised(self, real: str, tensor: Tensor) -> str:
        """Q and DQ with the scale of the tensor behind a float value."""
        scale = self.constant(f"{tensor.name}.scale", np.float32(tensor.scale))
        zero = self.constant(f"{tensor.name}.zero", np.int8(tensor.zero_point))
        codes = self.node("QuantizeLinear", [real, scale, zero], f"{tensor.name}.q")
        return self.node("DequantizeLinear", [codes, scale, zero], f"{tensor.name}.dq")

    def weights(self, name: str, order: tuple[int, ...]) -> str:
        tensor = self.graph.tensors[name]
        assert tensor.quant is not None and tensor.data is not None
        scale = self.constant(f"{name}.scale", tensor.quant.scales.astype(np.float32).squeeze())
        zero = self.constant(f"{name}.zero", tensor.quant.zero_points.astype(np.int8).squeeze())
        codes = self.constant(name, tensor.data.transpose(order))
        axis = {"axis": 0} if tensor.quant.scales.size > 1 else {}
        return self.node("DequantizeLinear", [codes, scale, zero], f"{name}.dq", **axis)

    def bias(self, op: Op) -> str:
        source, weights = self.graph.tensors[op.inputs[0]], self.graph.tensors[op.inputs[1]]
        bias = self.graph.tensors[op.inputs[2]]
        assert weights.quant is not None and bias.data is not None
        name = bias.name.replace(":", ".")
        scales = (source.scale * weights.quant.scales).astype(np.float32) * np.ones(bias.shape, np.float32)
        scale = self.constant(f"{name}.scale", scales)
        zero = self.constant(f"{name}.zero", np.zeros(bias.shape, np.int32))
        codes = self.constant(name, bias.data.astype(np.int32))
        return self.node("DequantizeLinear", [codes, scale, zero], f"{name}.dq", axis=0)

    def write(self, op: Op) -> str:
        x, out = f"{op.inputs[0]}.dq", op.outputs[0]
        if op.kind == "conv":
            inputs = [x, self.weights(op.inputs[1], (0, 3, 1, 2)), self.bias(op)]
            done = self.node("Conv", inputs, f"{out}.conv", pads=list(op.attrs["padding"]))
            return self.node("Relu", [done], f"{out}.real")
        if op.kind == "add":
            return self.node("Add", [x, f"{op.inputs[1]}.dq"], f"{out}.real")
        if op.kind == "max_pool":
            return self.node("MaxPool", [x], f"{out}.real", kernel_shape=[2, 2], strides=[2, 2])
        if op.kind == "mean":
            return self.node("Flatten", [self.node("GlobalAveragePool", [x], f"{out}.pooled")], f"{out}.real")
        if op.kind == "dense":
            return self.node("Gemm", [x, self.weights(op.inputs[1], (0, 1)), self.bias(op)], f"{out}.real", transB=1)
        return self.node("Softmax", [x], "probabilities", axis=-1)


def main() -> None:
    graph = read(FOLDER / "digits.tflite")
    writer = Writer(graph)
    writer.quantised("image", graph.tensors["image"])
    for op in graph.ops:
        real = writer.write(op)
        if op.kind != "softmax":
            writer.quantised(real, graph.tensors[op.outputs[0]])
    model = helper.make_model(
        helper.make_graph(
            writer.nodes,
            "digits",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
            [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
            writer.constants,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        producer_name="atonc",
        ir_version=8,
    )
    onnx.checker.check_model(model)
    (FOLDER / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
