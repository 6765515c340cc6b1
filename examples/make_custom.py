"""Makes a small quantised ONNX network with an operator that nobody knows: two convolutions with `example.ops.Roll`
between them. Usage: python make_custom.py [OUTPUT]

    atonc generate custom.onnx --custom examples/custom_operator/operators.json
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DOMAIN, SIZE = "example.ops", 12


def model(shift: int = 3) -> onnx.ModelProto:
    random = np.random.default_rng(0)
    constants = {
        "scale": np.float32(0.02), "zero": np.int8(0), "middle": np.float32(0.05), "three": np.int8(3),
        "gain": np.float32(0.005), "first": random.integers(-100, 100, (8, 3, 3, 3)).astype(np.int8),
        "second": random.integers(-100, 100, (4, 8, 1, 1)).astype(np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x_codes"]),
        helper.make_node("DequantizeLinear", ["x_codes", "scale", "zero"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["first", "gain", "zero"], ["first_real"]),
        helper.make_node("Conv", ["x_real", "first_real"], ["a"], name="before", pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["a", "middle", "three"], ["a_codes"]),
        helper.make_node("Roll", ["a_codes"], ["b_codes"], name="rolled", domain=DOMAIN, shift=shift),
        helper.make_node("DequantizeLinear", ["b_codes", "middle", "three"], ["b"]),
        helper.make_node("DequantizeLinear", ["second", "gain", "zero"], ["second_real"]),
        helper.make_node("Conv", ["b", "second_real"], ["c"], name="behind"),
        helper.make_node("QuantizeLinear", ["c", "middle", "three"], ["c_codes"]),
        helper.make_node("DequantizeLinear", ["c_codes", "middle", "three"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, SIZE, SIZE])
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "custom", [x], [y], held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


if __name__ == "__main__":
    onnx.save(model(), Path(sys.argv[1] if len(sys.argv) > 1 else "custom.onnx"))
