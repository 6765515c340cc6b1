"""Small float models with random weights, built here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Build:
    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], f"{kind} {output}", **attributes))
        return output

    def conv(self, x: str, y: str, shape: tuple[int, ...], spread: float = 1.0, **attributes: Any) -> str:
        weights = self.random.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
        weights *= spread ** self.random.uniform(-1, 1, (shape[0], 1, 1, 1))  # channels of unlike size
        inputs = [x, self.constant(f"{y}.w", weights), self.constant(f"{y}.b", self.random.normal(0, 0.1, shape[0]))]
        pads = [shape[2] // 2, shape[3] // 2] * 2
        return self.node("Conv", inputs, y, pads=pads, kernel_shape=shape[2:], **attributes)

    def norm(self, x: str, y: str, channels: int, variance: float = 1.0) -> str:
        names = ("scale", "bias", "mean", "var")
        values = (np.ones(channels), np.zeros(channels), np.zeros(channels), np.full(channels, variance))
        inputs = [self.constant(f"{y}.{n}", v) for n, v in zip(names, values, strict=True)]
        return self.node("BatchNormalization", [x, *inputs], y)

    def model(self, shapes: dict[str, tuple[Any, ...]], outputs: list[str], opset: int = 13) -> Any:
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
        results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, "small", inputs, results, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def network(spread: float = 1.0, variance: float = 1.0) -> Any:
    """Conv, BatchNorm, ReLU, depthwise, SiLU, a residual sum, a join, pooling, a dense layer, softmax."""
    b = Build()
    x = b.node("Relu", [b.norm(b.conv("x", "c1", (8, 3, 3, 3), spread), "n1", 8, variance)], "r1")
    d = b.node("Relu", [b.conv(x, "c2", (8, 1, 3, 3), group=8)], "r2")
    s = b.conv(d, "c3", (8, 8, 1, 1))
    s = b.node("Mul", [s, b.node("Sigmoid", [s], "g3")], "s3")
    a = b.node("Add", [s, x], "a")
    j = b.node("Concat", [a, s], "j", axis=1)
    p = b.node("Flatten", [b.node("GlobalAveragePool", [j], "p")], "f")
    w, bias = b.constant("w", b.random.normal(0, 0.5, (16, 4))), b.constant("b", np.zeros(4))
    return b.model({"x": (1, 3, 12, 12)}, [b.node("Softmax", [b.node("Gemm", [p, w, bias], "logits")], "y", axis=1)])


def detector(pixels: float = 100.0) -> Any:
    """Boxes in pixels and scores between 0 and 1 in one output, as YOLOv8 has them."""
    b = Build(3)
    x = b.node("Relu", [b.conv("x", "c1", (8, 3, 3, 3))], "r1")
    boxes = b.node("Mul", [b.conv(x, "c2", (4, 8, 1, 1)), b.constant("pixels", pixels)], "boxes")
    scores = b.node("Sigmoid", [b.conv(x, "c3", (2, 8, 1, 1))], "scores")
    return b.model({"x": (1, 3, 12, 12)}, [b.node("Concat", [boxes, scores], "y", axis=1)])


def nested_detector(pixels: float = 100.0) -> Any:
    """The same at two sizes, each joined and made a row, then joined and turned, as YOLOX has them."""
    b = Build(4)
    x = b.node("Relu", [b.conv("x", "c1", (8, 3, 3, 3))], "r1")
    rows = []
    for size, places in ((x, 144), (b.node("Relu", [b.conv(x, "c2", (8, 8, 3, 3), strides=[2, 2])], "r2"), 36)):
        factor = b.constant(f"p{places}", pixels)
        boxes = b.node("Mul", [b.conv(size, f"b{places}", (4, 8, 1, 1)), factor], f"m{places}")
        scores = b.node("Sigmoid", [b.conv(size, f"s{places}", (2, 8, 1, 1))], f"g{places}")
        both = b.node("Concat", [boxes, scores], f"j{places}", axis=1)
        b.constants.append(numpy_helper.from_array(np.array([1, 6, places]), f"n{places}"))
        rows.append(b.node("Reshape", [both, f"n{places}"], f"t{places}"))
    y = b.node("Transpose", [b.node("Concat", rows, "j", axis=2)], "y", perm=[0, 2, 1])
    return b.model({"x": (1, 3, 12, 12)}, [y])


def save(folder: Path, model: Any, name: str = "float.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def samples(folder: Path, count: int = 24, shape: tuple[int, ...] = (3, 12, 12), top: float = 1.0) -> Path:
    path = folder / f"samples_{count}_{top:g}.npz"
    np.savez(path, x=np.random.default_rng(5).uniform(0, top, (count, *shape)).astype(np.float32))
    return path
