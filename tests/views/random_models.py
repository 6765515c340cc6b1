"""Small random ONNX networks of every kind of operator, for the texts that the verbs print of them: codes of 8 and 16
bits, floats between, states, windows that no unit has, values at the edges of floats. All follows from the seed.

Every node is computed for one input as it is added, so shapes are known and formats fit what the tensors hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper
from onnx.helper import np_dtype_to_tensor_dtype

from tests.frontends.onnx_models import Net, run

STYLES = {"int8": 9, "uint8": 5, "int16": 3, "uint16": 1, "mixed": 3, "float": 2}  # how often
MOST_ELEMENTS, MOST_STEPS = 4_000, 8


class Unfit(Exception):
    """An operator does not fit the tensor that it was drawn for."""


class Draft(Net):
    """A network under construction, with what every tensor holds."""

    def __init__(self, seed: int, style: str = "") -> None:
        super().__init__(seed)
        weights = np.array(list(STYLES.values())) / sum(STYLES.values())
        self.style = style or str(self.rng.choice(list(STYLES), p=weights))
        self.values: dict[str, Any] = {}
        self.live: list[str] = []

    def draw(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def const(self, data: Any, stem: str = "k") -> str:
        name = super().const(data, stem)
        self.values[name] = np.asarray(data)
        return name

    def floats(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        return self.const(self.rng.uniform(low, high, shape).astype(np.float32))

    def node(self, kind: str, inputs: list[str], outputs: int = 1, domain: str = "", **attrs: Any) -> list[str]:
        """Computes it, too; a node that cannot be computed is none."""
        names = [self.name(kind.lower()) for _ in range(outputs)]
        made = helper.make_node(kind, inputs, names, name=f"n_{names[0]}", domain=domain, **attrs)
        known = {name: self.values[name] for name in inputs if name}
        edges = [helper.make_tensor_value_info(n, np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in known.items()]
        graph = helper.make_graph([made], "one", edges, [ValueInfoProto(name=name) for name in names])
        opsets = [helper.make_opsetid("", self.opset)]
        try:
            found = run(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), known)
        except Exception as error:
            raise Unfit(str(error)) from None
        if any(one.size == 0 or one.size > MOST_ELEMENTS for one in found):
            raise Unfit("too small or too large")
        self.nodes.append(made)
        self.values |= dict(zip(names, found, strict=True))
        return names

    def one(self, kind: str, *inputs: str, **attrs: Any) -> str:
        return self.node(kind, list(inputs), **attrs)[0]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.values[name].shape)

    def picture(self, name: str) -> tuple[int, ...]:
        if len(self.shape(name)) != 4:
            raise Unfit("no picture")
        return self.shape(name)

    def coded(self, name: str) -> str:
        """Behind a pair of QuantizeLinear and DequantizeLinear, in the style of the network."""
        dtype = self.draw("int8", "int8", "uint8", "int16", "") if self.style == "mixed" else self.style
        dtype = self.draw("int8", "") if dtype == "float" and self.rng.random() < 0.1 else dtype
        value = self.values[name]
        if dtype in ("", "float") or value.dtype != np.float32 or not np.isfinite(value).all():
            return name
        low, high = min(0.0, float(value.min())), max(1e-3, float(value.max()))
        info = np.iinfo(dtype)
        scale = np.float32((high - low) / (int(info.max) - int(info.min)))
        zero = int(np.clip(round(info.min - low / float(scale)), info.min, info.max))
        if dtype == "int16" and self.rng.random() < 0.8:
            scale, zero = np.float32(max(high, -low) / 32767), 0
        return self.qdq(name, scale, zero, dtype)

    def other(self, name: str) -> str:
        """A tensor of the same shape, or a constant that repeats."""
        same = [one for one in self.live if self.shape(one) == self.shape(name)]
        shapes = [(), self.shape(name)[-1:], self.shape(name), (1, *self.shape(name)[1:2], 1, 1)]
        if same and self.rng.random() < 0.6:
            return str(self.draw(*same))
        return self.coded(self.floats(*self.draw(*shapes)))


# ------------------------------------------------------------------------------------------------------------ operators


def conv(net: Draft, x: str) -> str:
    _, channels, height, width = net.picture(x)
    kernel, groups = net.draw(1, 3, 5, 7), net.draw(1, 1, channels)
    if kernel > min(height, width) + 2:
        raise Unfit("a kernel larger than the picture")
    weights, scales = net.weights((groups * net.draw(1, 2, 3), channels // groups, kernel, kernel))
    stride, dilation, pad = net.draw(1, 1, 2, 3), net.draw(1, 1, 1, 2), net.draw(0, kernel // 2)
    more = [net.bias(scales * np.float32(0.01))] if net.draw(0, 1) else []
    attrs = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4, "group": groups}
    return net.one("Conv", x, weights, *more, **attrs)


def transpose_conv(net: Draft, x: str) -> str:
    _, channels, *_ = net.picture(x)
    kernel = net.draw(1, 2, 3)
    weights, _ = net.weights((channels, net.draw(1, 4), kernel, kernel), axis=1)
    return net.one("ConvTranspose", x, weights, strides=[net.draw(1, 2)] * 2, pads=[net.draw(0, kernel // 2)] * 4)


def dense(net: Draft, x: str) -> str:
    flat = net.one("Flatten", x) if net.draw(0, 1) else x
    size = net.shape(flat)[-1]
    if net.draw(0, 1) and len(net.shape(flat)) == 2:
        weights, _ = net.weights((net.draw(1, 5, 16), size))
        return net.one("Gemm", flat, weights, transB=1)
    return net.one("MatMul", flat, net.coded(net.floats(size, net.draw(1, 5, 16))))


def product(net: Draft, x: str) -> str:
    axes = [*range(len(net.shape(x)) - 2), len(net.shape(x)) - 1, len(net.shape(x)) - 2]
    return net.one("MatMul", x, net.coded(net.one("Transpose", x, perm=axes)))


def pool(net: Draft, x: str) -> str:
    net.picture(x)
    kernel, kind = net.draw(2, 3, 5), net.draw("MaxPool", "AveragePool")
    dilated = {"dilations": [2, 2]} if net.rng.random() < 0.3 else {}
    pad = net.draw(0, kernel // 2)
    return net.one(kind, x, kernel_shape=[kernel] * 2, strides=[net.draw(1, 2)] * 2, pads=[pad] * 4, **dilated)


def reduced(net: Draft, x: str) -> str:
    kind = net.draw(*REDUCTIONS)
    axes = net.const(np.array(net.draw([1], [2], [2, 3], [-1], [1, 2]), np.int64))
    return net.one(kind, x, axes, keepdims=1)


FUNCTIONS = (
    "Relu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "Softplus", "Exp", "Erf", "Gelu", "Abs", "Neg",
    "Floor", "Ceil", "Round", "Mish", "Selu", "Sqrt", "Log", "Reciprocal", "Sin", "Cos", "Softsign", "LeakyRelu",
    "Sign", "Celu",
)  # fmt: skip
TABLES_ONLY = ("Sin", "Cos")  # no kernel computes them: 8 bits become a table
BINARY = ("Add", "Sub", "Mul", "Div", "Min", "Max", "Pow")
COMPARISONS = ("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual")
REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceProd", "ReduceLogSumExp")


def function(net: Draft, x: str) -> str:
    return net.one(net.draw(*FUNCTIONS), x)


def prelu(net: Draft, x: str) -> str:
    channels, (low, high) = net.shape(x)[1], net.draw((-0.5, 0.5), (0.01, 0.3), (0.2, 3.0))
    shape = net.draw((channels, 1, 1), (1,), net.shape(x)[1:])
    return net.one("PRelu", x, net.coded(net.floats(*shape, low=low, high=high)))


def binary(net: Draft, x: str) -> str:
    pair = [x, net.other(x)]
    if net.draw(0, 1):
        pair.reverse()
    return net.one(net.draw("Add", "Mul", *BINARY), *pair)


def compared(net: Draft, x: str) -> str:
    other = net.other(x)
    return net.one("Where", net.one(net.draw(*COMPARISONS), x, other), x, other)


def soft(net: Draft, x: str) -> str:
    return net.one(net.draw("Softmax", "Softmax", "LogSoftmax"), x, axis=net.draw(1, -1))


def clip(net: Draft, x: str) -> str:
    return net.one("Clip", x, net.const(np.float32(net.draw(0, -0.3))), net.const(np.float32(net.draw(0.2, 6))))


def transposed(net: Draft, x: str) -> str:
    return net.one("Transpose", x, perm=[0, *(1 + net.rng.permutation(len(net.shape(x)) - 1)).tolist()])


def reshaped(net: Draft, x: str) -> str:
    size = net.shape(x)[1:]
    wanted = net.draw((1, -1), (1, size[0], -1), (1, -1, 1, 1), (1, -1, size[-1], 1))
    return net.one("Reshape", x, net.const(np.array(wanted, np.int64)))


def joined(net: Draft, x: str) -> str:
    fit = [one for one in net.live if net.shape(one)[2:] == net.shape(x)[2:] and len(net.shape(one)) > 1]
    return net.one("Concat", x, net.draw(x, *fit), axis=1)


def sliced(net: Draft, x: str) -> str:
    axis, step = net.draw(1, -1), net.draw(1, 1, 2, -1)
    ends = (10**6, -(10**6)) if step < 0 else (net.draw(0, 1), 10**6)
    values = (*ends, axis, step)
    return net.one("Slice", x, *(net.const(np.array([value], np.int64)) for value in values))


def split(net: Draft, x: str) -> str:
    return str(net.draw(*net.node("Split", [x], outputs=2, axis=1, num_outputs=2)))


def padded(net: Draft, x: str) -> str:
    net.picture(x)
    pads = [0, net.draw(0, 1), *net.rng.integers(0, 3, 2).tolist(), 0, 0, *net.rng.integers(0, 3, 2).tolist()]
    return net.one("Pad", x, net.const(np.array(pads, np.int64)), mode=net.draw("constant", "reflect", "edge"))


def resized(net: Draft, x: str) -> str:
    net.picture(x)
    scales = net.const(np.array([1, 1, *net.draw((2, 2), (1.5, 2), (3, 1), (0.5, 0.5))], np.float32))
    how = net.draw("half_pixel", "asymmetric", "align_corners")
    return net.one("Resize", x, "", scales, mode=net.draw("nearest", "linear"), coordinate_transformation_mode=how)


def blocks(net: Draft, x: str) -> str:
    net.picture(x)
    return net.one(net.draw("DepthToSpace", "SpaceToDepth"), x, blocksize=2)


def gathered(net: Draft, x: str) -> str:
    axis = net.draw(1, len(net.shape(x)) - 1)
    rows = net.rng.integers(0, net.shape(x)[axis], net.draw(1, 3)).astype(np.int64)
    return net.one("Gather", x, net.const(rows), axis=axis)


def norm(net: Draft, x: str) -> str:
    """As it stands, or in its parts."""
    if net.draw(0, 1):
        size = net.shape(x)[-1]
        return net.one("LayerNormalization", x, net.floats(size, low=0.5), net.floats(size), axis=-1)
    axes = net.const(np.array([-1], np.int64))
    middle = net.coded(net.one("Sub", x, net.coded(net.one("ReduceMean", x, axes))))
    square = net.coded(net.one("Mul", middle, middle))
    root = net.coded(net.one("Sqrt", net.coded(net.one("ReduceMean", square, axes))))
    return net.one("Div", middle, root)


def recurrent(net: Draft, x: str) -> str:
    size, cells, (kind, gates) = net.shape(x)[-1], net.draw(3, 8), net.draw(("LSTM", 4), ("GRU", 3))
    if len(net.shape(x)) != 3 or net.shape(x)[0] != 1:
        x = net.one("Reshape", x, net.const(np.array((-1, 1, size), np.int64)))
    if net.shape(x)[0] > MOST_STEPS:
        raise Unfit("every step of a sequence is a dozen operators")
    weights = [net.floats(1, gates * cells, one) for one in (size, cells)]
    return net.one("Squeeze", net.one(kind, x, *weights, hidden_size=cells), net.const(np.array([1], np.int64)))


def largest(net: Draft, x: str) -> str:
    return net.one(net.draw("ArgMax", "ArgMin"), x, axis=net.draw(1, -1), keepdims=net.draw(0, 1))


def edges_of_floats(net: Draft, x: str) -> str:
    factor = net.draw(1e-30, 1e30, 1e-38, 3e38, 0.0, float("inf"))
    return net.one("Mul", x, net.const(np.float32(factor)))


MAKERS: Mapping[str, Callable[[Draft, str], str]] = {
    make.__name__: make
    for make in (
        conv, transpose_conv, dense, product, pool, reduced, function, prelu, binary, compared, soft, clip, transposed,
        reshaped, joined, sliced, split, padded, resized, blocks, gathered, norm, recurrent, largest, edges_of_floats,
    )
}  # fmt: skip
OFTEN = ("conv", "conv", "pool", "binary", "function", "prelu")
RARELY = ("edges_of_floats", "largest", "recurrent")


def every_operator(style: str) -> bytes:
    """One network with a branch for each operator, side by side."""
    net = Draft(0, style)
    shape = (1, 8, 6, 6)
    net.values["x"] = net.rng.uniform(-1, 1, shape).astype(np.float32)
    x = net.coded("x")
    net.live.append(x)
    branches = [partial(make, net, x) for name, make in MAKERS.items() if name != "edges_of_floats"]
    known = [kind for kind in FUNCTIONS if style.endswith("int8") or kind not in TABLES_ONLY]
    branches += [partial(net.one, kind, x) for kind in known]
    branches += [partial(net.one, kind, x, net.floats(1, 8, 1, 1, low=0.5)) for kind in BINARY]
    branches += [partial(net.one, kind, x, net.const(np.array([2, 3], np.int64))) for kind in REDUCTIONS]
    branches += [partial(_chosen, net, x, kind) for kind in COMPARISONS]
    branches += [partial(make, net, x) for make in (_rarer, _logic, _means, _linear, _gathered_nd)]
    branches += [partial(net.one, "Tile", x, net.const(np.array([1, 2, 1, 1], np.int64)))]
    for branch in branches:
        _added(net, branch)
    return _model(net, shape, net.live[1:])


def _rarer(net: Draft, x: str) -> str:
    one = net.one("Expand", net.one("GlobalAveragePool", x), net.const(np.array([1, 8, 6, 6], np.int64)))
    axes = net.const(np.array([0], np.int64))
    turned = net.one("Unsqueeze", net.one("Squeeze", x, axes), axes)
    return net.one("Mod", net.one("Mul", turned, net.one("Sigmoid", one)), net.const(np.float32(0.7)), fmod=1)


def _logic(net: Draft, x: str) -> str:
    low, high = (net.one(kind, x, net.const(np.float32(0.1))) for kind in ("Less", "Greater"))
    both = net.one("And", low, net.one("Not", net.one("Or", low, high)))
    return net.one("Cast", both, to=TensorProto.FLOAT)


def _means(net: Draft, x: str) -> str:
    return net.one("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2])


def _linear(net: Draft, x: str) -> str:
    return net.one("Resize", x, "", net.const(np.array([1, 1, 2, 2], np.float32)), mode="linear")


def _gathered_nd(net: Draft, x: str) -> str:
    return net.one("GatherND", x, net.const(np.array([[0, 1], [0, 3]], np.int64)))


def _chosen(net: Draft, x: str, kind: str) -> str:
    other = net.floats(1, 8, 1, 1)
    return net.one("Where", net.one(kind, x, other), x, other)


def _added(net: Draft, make: Callable[[], str]) -> None:
    before = len(net.nodes)
    try:
        net.live.append(net.coded(make()))
    except Unfit:
        del net.nodes[before:]


def random_model(seed: int, first: str = "", style: str = "") -> bytes:
    """`first`: the operator that it begins with."""
    net = Draft(seed, style)
    shape = net.draw((1, 8, 8, 8), (1, 3, 12, 9), (1, 16, 5, 5), (1, 4, 6, 10), (1, 1, 16, 16))
    net.values["x"] = net.rng.uniform(-1, 1, shape).astype(np.float32)
    net.live.append(net.coded("x"))
    often = [*MAKERS, *OFTEN, *(set(MAKERS) - set(RARELY))]
    wanted = [first] * bool(first) + [str(net.draw(*sorted(often))) for _ in range(int(net.rng.integers(1, 7)))]
    for name in wanted:
        _added(net, partial(MAKERS[name], net, net.live[-1]))
    if not net.nodes:
        net.live.append(net.one("Relu", "x"))
    outputs = [net.live[-1]]
    if len(net.live) > 3 and net.draw(0, 1):
        outputs.append(net.live[2])
    last = next(node for node in net.nodes if outputs[0] in node.output)
    if last.op_type == "DequantizeLinear" and net.rng.random() < 0.2:
        outputs[0] = last.input[0]  # codes, as they are
    return _model(net, shape, outputs)


def _model(net: Draft, shape: tuple[int, ...], wanted: Sequence[str]) -> bytes:
    outputs = [name for name in dict.fromkeys(wanted) if name != "x"]
    infos = [
        helper.make_tensor_value_info(n, np_dtype_to_tensor_dtype(net.values[n].dtype), net.shape(n)) for n in outputs
    ]
    entry = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(net.nodes, "net", entry, infos, net.constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)], ir_version=10)
    return bytes(made.SerializeToString())
