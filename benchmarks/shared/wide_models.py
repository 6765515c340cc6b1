"""Float networks with random weights, as ONNX, and the same with codes of 8 or of 16 bits between all layers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, shape_inference

Array = np.ndarray[Any, Any]
KEEPS_SCALE = ("Reshape", "Transpose", "Slice", "Concat", "MaxPool", "Resize")
SHARES = ("Sigmoid", "Softmax", "HardSigmoid")  # between 0 and 1
OPSET = 21  # INT16 in QuantizeLinear


class Picture:
    """Nodes one after the other; every tensor has its number of channels."""

    def __init__(self, name: str, channels: int, height: int, width: int) -> None:
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.name, self.shape = name, (1, channels, height, width)
        self.nodes: list[Any] = []
        self.stored: dict[str, Array] = {}
        self.channels = {"x": channels}

    def op(self, kind: str, *inputs: str, channels: int = 0, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        self.channels[name] = channels or self.channels[inputs[0]]
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        name = f"c{len(self.stored)}"
        self.stored[name] = np.asarray(value, kind)
        return name

    def conv(self, x: str, results: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> str:
        depth = self.channels[x] // groups
        weights = self.random.normal(0, 1.4 / np.sqrt(depth * kernel * kernel), (results, depth, kernel, kernel))
        bias = self.constant(self.random.normal(0, 0.1, results))
        sizes = {"kernel_shape": [kernel, kernel], "pads": [kernel // 2] * 4, "strides": [stride, stride]}
        return self.op("Conv", x, self.constant(weights), bias, channels=results, group=groups, **sizes)

    def act(self, x: str, kind: str) -> str:
        if kind == "SiLU":
            return self.op("Mul", x, self.op("Sigmoid", x))
        return self.op(kind, x) if kind else x

    def separable(self, x: str, results: int, kind: str, stride: int = 1, kernel: int = 3) -> str:
        deep = self.act(self.conv(x, self.channels[x], kernel, stride, self.channels[x]), kind)
        return self.act(self.conv(deep, results, 1), kind)

    def residual(self, x: str, kind: str) -> str:
        y = self.conv(self.act(self.conv(x, self.channels[x]), kind), self.channels[x])
        return self.act(self.op("Add", x, y), kind)

    def inverted(self, x: str, results: int, kind: str, stride: int = 1, squeeze: bool = False) -> str:
        y = self.act(self.conv(x, 4 * self.channels[x], 1), kind)
        y = self.act(self.conv(y, self.channels[y], 3, stride, self.channels[y]), kind)
        if squeeze:
            gate = self.act(self.conv(self.op("GlobalAveragePool", y), max(8, self.channels[y] // 4), 1), "Relu")
            y = self.op("Mul", y, self.op("HardSigmoid", self.conv(gate, self.channels[y], 1)))
        y = self.conv(y, results, 1)
        return self.op("Add", x, y) if stride == 1 and results == self.channels[x] else y

    def pooled(self, x: str) -> str:
        return self.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])

    def larger(self, x: str) -> str:
        how = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        return self.op("Resize", x, "", self.constant([1, 1, 2, 2]), **how)

    def joined(self, *inputs: str) -> str:
        return self.op("Concat", *inputs, channels=sum(self.channels[name] for name in inputs), axis=1)

    def classes(self, x: str, results: int, softmax: bool) -> str:
        flat = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        y = self.dense(flat, results)
        return self.op("Softmax", y, axis=1) if softmax else y

    def dense(self, x: str, results: int) -> str:
        weights = self.random.normal(0, 1.4 / np.sqrt(self.channels[x]), (self.channels[x], results))
        y = self.op("MatMul", x, self.constant(weights), channels=results)
        return self.op("Add", y, self.constant(self.random.normal(0, 0.1, results)))

    def tokens(self, x: str, count: int) -> str:
        y = self.op("Reshape", x, self.constant([1, self.channels[x], count], np.int64))
        return self.op("Transpose", y, perm=[0, 2, 1])

    def model(self, *outputs: str) -> Any:
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        stored = [numpy_helper.from_array(value, name) for name, value in self.stored.items()]
        graph = helper.make_graph(self.nodes, self.name, given, made, stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        return shape_inference.infer_shapes(model, data_prop=True)


# ------------------------------------------------------------------------------------------------------------ networks


def classifier(p: Picture, kind: str, softmax: bool = False) -> str:
    x = p.act(p.conv("x", 16, 3, 2), kind)
    for results, stride in ((32, 2), (32, 1), (64, 2), (64, 1)):
        x = p.separable(x, results, kind, stride)
    return p.classes(x, 10, softmax)


def resnet(p: Picture, kind: str, softmax: bool = False) -> str:
    x = p.residual(p.act(p.conv("x", 16), kind), kind)
    x = p.residual(p.act(p.conv(x, 32, 3, 2), kind), kind)
    return p.classes(p.residual(p.act(p.conv(x, 64, 3, 2), kind), kind), 10, softmax)


def mobile(p: Picture, kind: str, squeeze: bool = False) -> str:
    x = p.act(p.conv("x", 16, 3, 2), kind)
    for results, stride in ((16, 1), (24, 2), (24, 1), (40, 2), (40, 1)):
        x = p.inverted(x, results, kind, stride, squeeze)
    return p.classes(x, 10, softmax=True)


def unet(p: Picture, kind: str, end: str = "") -> str:
    top = p.act(p.conv(p.act(p.conv("x", 16), kind), 16), kind)
    middle = p.act(p.conv(p.pooled(top), 32), kind)
    low = p.act(p.conv(p.act(p.conv(p.pooled(middle), 64), kind), 64), kind)
    x = p.act(p.conv(p.joined(p.larger(low), middle), 32), kind)
    return p.act(p.conv(p.act(p.conv(p.joined(p.larger(x), top), 16), kind), 4, 1), end)


def detector(p: Picture, kind: str) -> str:
    x, levels = p.act(p.conv("x", 16, 3, 2), kind), []
    for results in (32, 64, 96):
        x = p.act(p.conv(x, results, 3, 2), kind)
        x = p.op("Add", x, p.act(p.conv(p.act(p.conv(x, results // 2, 1), kind), results), kind))
        levels.append(p.act(p.conv(x, 32, 1), kind))
    cells = p.shape[2] * p.shape[3]
    heads = [p.tokens(p.conv(p.act(p.conv(level, 32), kind), 24, 1), cells // 4 ** (k + 2))
             for k, level in enumerate(levels)]  # fmt: skip
    return p.op("Sigmoid", p.op("Concat", *heads, axis=1))


def gated(p: Picture) -> str:
    """Products of two paths, one behind tanh, the other behind a sigmoid."""
    x = p.act(p.conv("x", 24), "Relu")
    for _ in range(3):
        x = p.op("Add", x, p.conv(p.op("Mul", p.act(p.conv(x, 24), "Tanh"), p.act(p.conv(x, 24), "Sigmoid")), 24, 1))
    return p.classes(x, 12, softmax=True)


def mixer(p: Picture, kind: str) -> str:
    x = p.act(p.conv("x", 48, 3, 2), kind)
    for _ in range(3):
        x = p.op("Add", x, p.act(p.conv(x, 48, 5, 1, 48), kind))
        x = p.op("Add", x, p.conv(p.act(p.conv(x, 96, 1), kind), 48, 1))
    return p.classes(x, 10, softmax=True)


def autoencoder(p: Picture, kind: str, end: str = "") -> str:
    x = "x"
    for results in (16, 32, 48):
        x = p.act(p.conv(x, results, 3, 2), kind)
    for results in (32, 16, 16):
        x = p.act(p.conv(p.larger(x), results), kind)
    return p.act(p.conv(x, p.shape[1]), end)


NETWORKS: Mapping[str, tuple[tuple[int, int, int], Callable[[Picture], str]]] = {
    "DS-CNN, ReLU": ((1, 48, 40), partial(classifier, kind="Relu")),
    "DS-CNN, ReLU, softmax": ((1, 48, 40), partial(classifier, kind="Relu", softmax=True)),
    "DS-CNN, SiLU": ((3, 64, 64), partial(classifier, kind="SiLU", softmax=True)),
    "DS-CNN, tanh": ((1, 48, 40), partial(classifier, kind="Tanh", softmax=True)),
    "ResNet, ReLU": ((3, 32, 32), partial(resnet, kind="Relu")),
    "ResNet, softmax": ((3, 48, 48), partial(resnet, kind="Relu", softmax=True)),
    "ResNet, SiLU": ((3, 32, 32), partial(resnet, kind="SiLU")),
    "ResNet, leaky ReLU": ((3, 48, 48), partial(resnet, kind="LeakyRelu", softmax=True)),
    "MobileNet, ReLU": ((3, 64, 64), partial(mobile, kind="Relu")),
    "MobileNet, hard-swish": ((3, 64, 64), partial(mobile, kind="HardSwish")),
    "MobileNet, hard-swish, gates": ((3, 64, 64), partial(mobile, kind="HardSwish", squeeze=True)),
    "U-Net, ReLU": ((3, 64, 64), partial(unet, kind="Relu")),
    "U-Net, ReLU, sigmoid": ((3, 64, 64), partial(unet, kind="Relu", end="Sigmoid")),
    "U-Net, SiLU": ((1, 64, 64), partial(unet, kind="SiLU", end="Sigmoid")),
    "detector, ReLU": ((3, 96, 96), partial(detector, kind="Relu")),
    "detector, SiLU": ((3, 96, 96), partial(detector, kind="SiLU")),
    "gates of tanh and sigmoid": ((2, 32, 32), gated),
    "Mixer of convolutions, ReLU": ((3, 48, 48), partial(mixer, kind="Relu")),
    "Mixer of convolutions, SiLU": ((3, 48, 48), partial(mixer, kind="SiLU")),
    "autoencoder, tanh": ((3, 64, 64), partial(autoencoder, kind="Relu", end="Tanh")),
}


def network(name: str) -> Any:
    shape, build = NETWORKS[name]
    picture = Picture(name, *shape)
    return picture.model(build(picture))


# --------------------------------------------------------------------------------------------------------------- codes


def coded(model: Any, ranges: Mapping[str, tuple[float, float]], wide: bool) -> bytes:
    """Pairs of QuantizeLinear and DequantizeLinear on every tensor between nodes, except in front of a ReLU, which
    quantisers leave with its layer: INT16 around zero, or INT8."""
    formats = _formats(model, ranges, wide)
    stored = {proto.name: numpy_helper.to_array(proto) for proto in model.graph.initializer}
    nodes, read, made = list[Any](), dict[str, str](), dict[str, Array]()

    def pair(name: str, scale: Any, zero: Array, codes: Array | None = None, axis: int | None = None) -> None:
        made[f"{name}_s"], made[f"{name}_z"] = np.asarray(scale, np.float32), zero
        keys, read[name] = [f"{name}_s", f"{name}_z"], f"{name}_d"
        if codes is None:
            nodes.append(helper.make_node("QuantizeLinear", [name, *keys], [f"{name}_q"], f"{name}_q"))
        else:
            made[f"{name}_q"] = codes
        more = {} if axis is None else {"axis": axis}
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *keys], [f"{name}_d"], f"{name}_d", **more))

    def weights(name: str, value: Array, axis: int) -> None:
        scale = np.abs(value).max(axis=tuple(k for k in range(value.ndim) if k != axis), keepdims=True) / 127
        codes = np.rint(value / scale).astype(np.int8)
        pair(name, scale.reshape(-1), np.zeros(scale.size, np.int8), codes, axis)

    def flowing(name: str) -> None:
        scale, zero = formats[name]
        pair(name, scale, np.asarray(zero, np.int16 if wide else np.int8))

    inside = {name for node in model.graph.node if node.op_type == "Relu" for name in node.input}
    flowing("x")
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            if name not in stored or name in read or stored[name].dtype != np.float32 or node.op_type == "Resize":
                continue
            if place == 1 and node.op_type in ("Conv", "MatMul"):
                weights(name, stored[name], 0 if node.op_type == "Conv" else 1)
            elif node.op_type == "Conv":
                scale = formats[node.input[0]][0] * made[f"{node.input[1]}_s"]
                codes = np.rint(stored[name] / scale).astype(np.int32)
                pair(name, scale, np.zeros(scale.shape, np.int32), codes, 0)
            else:
                weights(name, stored[name].reshape(1, -1), 0)
                made[f"{name}_q"] = made[f"{name}_q"].reshape(stored[name].shape)
                made[f"{name}_s"], made[f"{name}_z"] = made[f"{name}_s"][0], made[f"{name}_z"][0]
        copy = helper.make_node(node.op_type, [read.get(n, n) for n in node.input], list(node.output), node.name)
        copy.attribute.extend(node.attribute)
        nodes.append(copy)
        if node.output[0] not in inside:
            flowing(node.output[0])
    return _whole(model, nodes, {**stored, **made}, read)


def _formats(model: Any, ranges: Mapping[str, tuple[float, float]], wide: bool) -> dict[str, tuple[float, int]]:
    """What only moves values keeps their format; results of a join decide about its parts."""
    found = {}
    for name, (low, high) in ranges.items():
        low, high = min(low, 0.0), max(high, 1e-6)
        scale = max(-low, high) / 32767 if wide else (high - low) / 255
        found[name] = scale, 0 if wide else int(np.clip(round(-128 - low / scale), -128, 127))
    for node in model.graph.node:
        if node.op_type in SHARES:
            found[node.output[0]] = (1 / 32768, 0) if wide else (1 / 256, -128)
    for _ in range(4):
        for node in model.graph.node:
            if node.op_type == "Concat":
                found |= dict.fromkeys(node.input, found[node.output[0]])
            elif node.op_type in KEEPS_SCALE:
                found[node.output[0]] = found[node.input[0]]
    return found


def _whole(model: Any, nodes: list[Any], stored: Mapping[str, Array], read: Mapping[str, str]) -> bytes:
    made = type(model)()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.initializer[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    made.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in stored.items() if n in used)
    for value in made.graph.output:
        value.name = read[value.name]
    data: bytes = made.SerializeToString()
    return data
