"""Transformers with random weights, as float ONNX: the structures of published ones, in the spellings of exporters; and
`coded`, which gives every tensor between operators 8-bit codes, as TFLite files have them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, shape_inference

Array = np.ndarray[Any, Any]
SPELLINGS = ("parts", "layer_norm", "pow", "rms", "keras")
KEEPS_SCALE = ("Reshape", "Transpose", "Slice", "Split", "Concat")
OPSET = 17


@dataclass(frozen=True)
class Network:
    """`inputs`: shapes and how loud they are."""

    model: Any
    inputs: Mapping[str, tuple[tuple[int, ...], float]]
    inside: frozenset[str]  # tensors between the nodes of a function of one value

    def samples(self, count: int, seed: int) -> list[dict[str, Array]]:
        random, given = np.random.default_rng(seed), self.inputs.items()
        return [{name: random.normal(0, loud, shape).astype(np.float32) for name, (shape, loud) in given}
                for _ in range(count)]  # fmt: skip


class Writer:
    """Nodes one after the other; tensors have numbers as names."""

    def __init__(self, name: str, spelling: str) -> None:
        self.name, self.spelling = name, spelling
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self.inputs: dict[str, tuple[tuple[int, ...], float]] = {}
        self.inside = set[str]()

    def given(self, name: str, *shape: int, loud: float = 1.0) -> str:
        self.inputs[name] = shape, loud
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def sizes(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def within(self, kind: str, *inputs: str) -> str:
        """What follows belongs to the same function of one value."""
        name = self.op(kind, *inputs)
        self.inside.add(name)
        return name

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"{kind.lower()}_{len(self.nodes)}_{k}" for k in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, f"{kind}_{len(self.nodes)}", **attributes))
        return names

    def whole(self, outputs: list[str]) -> Network:
        given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, (shape, _) in self.inputs.items()]
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, self.name, given, made, self.stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        model = shape_inference.infer_shapes(model, data_prop=True)
        checker.check_model(model)
        return Network(model, self.inputs, frozenset(self.inside))

    # --------------------------------------------------------------------------------------------------------- layers

    def dense(self, x: str, inputs: int, results: int, gain: float = 1.0, bias: bool = True) -> str:
        weights = self.random.normal(0, gain / np.sqrt(inputs), (inputs, results))
        y = self.op("MatMul", x, self.constant(weights))
        return self.op("Add", y, self.constant(self.random.normal(0, 0.1, results))) if bias else y

    def conv(self, x: str, inputs: int, results: int, kernel: int, **attributes: Any) -> str:
        fan = inputs // attributes.get("group", 1) * kernel
        weights = self.random.normal(0, 1 / np.sqrt(fan), (results, fan // kernel, 1, kernel))
        bias = self.constant(self.random.normal(0, 0.1, results))
        pads = [0, kernel // 2, 0, kernel // 2]
        return self.op("Conv", x, self.constant(weights), bias, kernel_shape=[1, kernel], pads=pads, **attributes)

    def norm(self, x: str, width: int) -> str:
        gain, offset = (
            self.constant(v) for v in (self.random.uniform(0.7, 1.3, width), self.random.normal(0, 0.1, width))
        )
        if self.spelling == "layer_norm":
            return self.op("LayerNormalization", x, gain, offset, axis=-1, epsilon=1e-5)
        if self.spelling == "keras":  # as tf2onnx writes it
            mean = self.op("ReduceMean", x, axes=[-1])
            c = self.op("Sub", x, mean)
            spread = self.op("Add", self.op("ReduceMean", self.op("Mul", c, c), axes=[-1]), self.constant(1e-5))
            factor = self.op("Mul", self.op("Reciprocal", self.op("Sqrt", spread)), gain)
            shift = self.op("Sub", offset, self.op("Mul", mean, factor))
            return self.op("Add", self.op("Mul", x, factor), shift)
        c = x if self.spelling == "rms" else self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        squares = self.op("Mul", c, c) if self.spelling == "parts" else self.op("Pow", c, self.constant(2.0))
        spread = self.within("Add", self.op("ReduceMean", squares, axes=[-1]), self.constant(1e-5))
        divided = self.spelling == "pow"
        root = self.op("Sqrt", spread) if divided else self.op("Reciprocal", self.within("Sqrt", spread))
        y = self.op("Div" if divided else "Mul", c, root)
        y = self.op("Mul", y, gain)
        return y if self.spelling == "rms" else self.op("Add", y, offset)

    def gelu(self, x: str) -> str:
        e = self.within("Erf", self.within("Div", x, self.constant(np.sqrt(2))))
        return self.op("Mul", self.within("Mul", x, self.within("Add", e, self.constant(1.0))), self.constant(0.5))

    def swish(self, x: str) -> str:
        return self.op("Mul", x, self.within("Sigmoid", x))

    def attention(self, x: str, tokens: int, width: int, heads: int, mask: Array | None = None) -> str:
        part = width // heads
        q, k, v = (
            self.op("Transpose", self.op("Reshape", self.dense(x, width, width, gain, bias),
                                         self.sizes(1, tokens, heads, part)), perm=perm)
            for gain, bias, perm in ((2.0, True, [0, 2, 1, 3]), (2.0, False, [0, 2, 3, 1]), (1.0, True, [0, 2, 1, 3]))
        )  # fmt: skip
        scores = self.op("Mul", self.op("MatMul", q, k), self.constant(part**-0.5))
        if mask is not None:
            scores = self.op("Add", scores, self.constant(mask))
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.sizes(1, tokens, width))
        return self.dense(y, width, width)

    def block(self, x: str, tokens: int, width: int, heads: int, mask: Array | None = None) -> str:
        x = self.op("Add", x, self.attention(self.norm(x, width), tokens, width, heads, mask))
        y = self.dense(self.norm(x, width), width, 4 * width)
        return self.op("Add", x, self.dense(self.gelu(y), 4 * width, width))


def encoder(name: str, tokens: int, width: int, heads: int, depth: int, spelling: str = "parts") -> Network:
    """As a vision transformer behind its patches."""
    w = Writer(name, spelling)
    x = w.given("tokens", 1, tokens, width)
    for _ in range(depth):
        x = w.block(x, tokens, width, heads)
    return w.whole([w.norm(x, width)])


def decoder(name: str, tokens: int, width: int, heads: int, depth: int, spelling: str = "rms") -> Network:
    """All tokens at once, none reads those behind it."""
    w = Writer(name, spelling)
    x, mask = w.given("tokens", 1, tokens, width), np.triu(np.full((tokens, tokens), -1e9), 1)
    for _ in range(depth):
        x = w.block(x, tokens, width, heads, mask)
    return w.whole([w.dense(w.norm(x, width), width, 256, bias=False)])


def whisper(
    name: str, frames: int, width: int = 384, heads: int = 6, depth: int = 4, spelling: str = "parts"
) -> Network:
    """Two convolutions over a spectrogram, then an encoder."""
    w, tokens = Writer(name, spelling), frames // 2
    x = w.gelu(w.conv(w.given("mel", 1, 80, 1, frames), 80, width, 3, strides=[1, 1]))
    x = w.gelu(w.conv(x, width, width, 3, strides=[1, 2]))
    x = w.op("Transpose", w.op("Reshape", x, w.sizes(1, width, tokens)), perm=[0, 2, 1])
    x = w.op("Add", x, w.constant(w.random.normal(0, 0.3, (tokens, width))))
    for _ in range(depth):
        x = w.block(x, tokens, width, heads)
    return w.whole([w.norm(x, width)])


def conformer(name: str, tokens: int, width: int, heads: int, depth: int, spelling: str = "parts") -> Network:
    w = Writer(name, spelling)
    x = w.given("frames", 1, tokens, width)

    def half(y: str) -> str:
        y = w.dense(w.swish(w.dense(w.norm(y, width), width, 4 * width)), 4 * width, width)
        return w.op("Mul", y, w.constant(0.5))

    for _ in range(depth):
        x = w.op("Add", x, half(x))
        x = w.op("Add", x, w.attention(w.norm(x, width), tokens, width, heads))
        a, b = w.ops("Split", 2, w.dense(w.norm(x, width), width, 2 * width), w.sizes(width, width), axis=2)
        y = w.op("Transpose", w.op("Mul", a, w.op("Sigmoid", b)), perm=[0, 2, 1])
        y = w.conv(w.op("Reshape", y, w.sizes(1, width, 1, tokens)), width, width, 15, group=width)
        y = w.op("Transpose", w.op("Reshape", w.swish(y), w.sizes(1, width, tokens)), perm=[0, 2, 1])
        x = w.op("Add", x, w.dense(y, width, width))
        x = w.norm(w.op("Add", x, half(x)), width)
    return w.whole([x])


def token_decoder(name: str, width: int, heads: int, depth: int, context: int, spelling: str = "parts") -> Network:
    """One token; keys and values of those before it are inputs and outputs of one size, the oldest falls out."""
    w, part = Writer(name, spelling), width // heads
    x, mask = w.given("token", 1, 1, width), w.given("mask", 1, 1, 1, context, loud=2.0)
    kept = []
    for i in range(depth):
        y, moved = w.norm(x, width), []
        for word in "kv":
            old = w.given(f"{word}{i}", 1, heads, context, part)
            new = w.op("Reshape", w.dense(y, width, width), w.sizes(1, heads, 1, part))
            moved.append(w.op("Concat", w.op("Slice", old, w.sizes(1), w.sizes(context), w.sizes(2)), new, axis=2))
        kept += moved
        q = w.op("Reshape", w.dense(y, width, width, 2.0), w.sizes(1, heads, 1, part))
        scores = w.op("Mul", w.op("MatMul", q, w.op("Transpose", moved[0], perm=[0, 1, 3, 2])), w.constant(part**-0.5))
        y = w.op("MatMul", w.op("Softmax", w.op("Add", scores, mask), axis=-1), moved[1])
        x = w.op("Add", x, w.dense(w.op("Reshape", y, w.sizes(1, 1, width)), width, width))
        x = w.op("Add", x, w.dense(w.gelu(w.dense(w.norm(x, width), width, 4 * width)), 4 * width, width))
    return w.whole([w.dense(w.norm(x, width), width, 512), *kept])


# ----------------------------------------------------------------------------------------------------- 8-bit codes


def coded(network: Network, ranges: Callable[[Any, list[str]], dict[str, tuple[float, float]]]) -> Any:
    """`ranges`: lowest and highest value of each tensor of a model."""
    model, nodes, stored = network.model, list[Any](), dict[str, Array]()
    constants = {proto.name: numpy_helper.to_array(proto) for proto in model.graph.initializer}
    names = [*network.inputs, *(name for node in model.graph.node for name in node.output)]
    formats = _formats(model, ranges(model, names))
    read: dict[str, str] = {}

    def pair(name: str, scale: Any, zero: Any, codes: Array | None = None, axis: int | None = None) -> None:
        stored[f"{name}_s"], stored[f"{name}_z"] = np.asarray(scale, np.float32), np.asarray(zero)
        keys, read[name] = [f"{name}_s", f"{name}_z"], f"{name}_d"
        if codes is None:
            nodes.append(helper.make_node("QuantizeLinear", [name, *keys], [f"{name}_q"]))
        else:
            stored[f"{name}_q"] = codes
        more = {} if axis is None else {"axis": axis}
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *keys], [f"{name}_d"], **more))

    def constant(node: Any, place: int, name: str) -> None:
        value, weights = constants[name], node.op_type in ("MatMul", "Conv") and place == 1
        if name in read or value.dtype != np.float32 or value.size == 1:
            return
        if node.op_type == "Conv" and place == 2:
            scale = formats[node.input[0]][0] * stored[f"{node.input[1]}_s"]
            pair(name, scale, np.zeros(scale.shape, np.int32), np.rint(value / scale).astype(np.int32), 0)
            return
        axis = {"MatMul": value.ndim - 1, "Conv": 0}[node.op_type] if weights else None
        others = None if axis is None else tuple(k for k in range(value.ndim) if k != axis)
        scale = np.maximum(np.abs(value).max(axis=others), 1e-8) / 127
        wide = scale if axis is None else scale.reshape([-1 if k == axis else 1 for k in range(value.ndim)])
        pair(
            name,
            scale,
            np.zeros(np.shape(scale), np.int8),
            np.clip(np.rint(value / wide), -127, 127).astype(np.int8),
            axis,
        )

    for name in network.inputs:
        pair(name, formats[name][0], np.int8(formats[name][1]))
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            if name in constants:
                constant(node, place, name)
        copy = helper.make_node(node.op_type, [read.get(n, n) for n in node.input], list(node.output), node.name)
        copy.attribute.extend(node.attribute)
        nodes.append(copy)
        for name in node.output:
            if name not in network.inside:
                pair(name, formats[name][0], np.int8(formats[name][1]))
    return _whole(model, nodes, {**constants, **stored}, read)


def _formats(model: Any, ranges: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, int]]:
    """Scale and zero point; what only moves values keeps them."""
    found = {}
    for name, (low, high) in ranges.items():
        scale = max(max(high, 0.0) - min(low, 0.0), 1e-6) / 255
        found[name] = scale, int(np.clip(round(-128 - min(low, 0.0) / scale), -128, 127))
    for node in model.graph.node:
        if node.op_type == "Softmax":
            found[node.output[0]] = 1 / 256, -128
    for _ in range(3):
        for node in model.graph.node:
            live = [name for name in node.input if name in found]
            if node.op_type == "Concat":
                found |= {name: found[node.output[0]] for name in live}
            elif node.op_type in KEEPS_SCALE:
                found |= {name: found[live[0]] for name in node.output}
    return found


def _whole(model: Any, nodes: list[Any], stored: Mapping[str, Array], read: Mapping[str, str]) -> Any:
    made = type(model)()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.initializer[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    made.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in stored.items() if n in used)
    for value in made.graph.output:
        value.name = read[value.name]
    checker.check_model(made)
    return made
