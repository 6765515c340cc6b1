"""Random networks in two formats: codes of 16 bits beside 8-bit weights (16x8), and the same network in 8 bits.

Scales are what a calibration would choose: the largest value that random inputs give.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from tests.frontends.tflite_models import O, T, build

Real = NDArray[np.float64]

POOLS = ("max_pool", "average_pool")  # TFLite wants one scale on both sides
CODES = {"int16": 32767, "int8": 127}
SAMPLES = 2


@dataclass
class NetworkBuilder:
    """Adds layers with real weights; keeps their values for a few inputs to choose scales."""

    rng: np.random.Generator
    size: tuple[int, int, int]  # height, width, channels of the input
    steps: list[tuple[str, str, tuple[str, ...], dict[str, Any], Real | None]] = field(default_factory=list)
    values: dict[str, list[Real]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values["x"] = [self.rng.normal(0, 1, (1, *self.size)).clip(-3, 3) for _ in range(SAMPLES)]

    def conv(self, source: str, outputs: int, kernel: int, stride: int = 1, depthwise: bool = False) -> str:
        channels = self.values[source][0].shape[3]
        taps = kernel * kernel * (1 if depthwise else channels)
        outputs = channels if depthwise else outputs
        weights = self.rng.normal(0, 1 / np.sqrt(taps), (outputs, kernel, kernel, 1 if depthwise else channels))
        attrs = {"stride": (stride, stride), "padding": _same(self.values[source][0].shape, kernel, stride)}
        attrs |= {"groups": channels if depthwise else 1, "dilation": (1, 1), "layout": "NHWC", "relu": True}
        return self._add("conv", (source,), attrs, weights)

    def dense(self, source: str, outputs: int) -> str:
        inputs = self.values[source][0].size
        return self._add("dense", (source,), {}, self.rng.normal(0, 1 / np.sqrt(inputs), (outputs, inputs)))

    def add(self, one: str, other: str) -> str:
        return self._add("add", (one, other), {}, None)

    def mean(self, source: str) -> str:
        return self._add("mean", (source,), {"axes": (1, 2)}, None)

    def pool(self, source: str, kind: str) -> str:
        attrs = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), "dilation": (1, 1), "layout": "NHWC"}
        return self._add(kind, (source,), attrs, None)

    def _add(self, kind: str, sources: tuple[str, ...], attrs: dict[str, Any], weights: Real | None) -> str:
        name = f"{kind}{len(self.steps)}"
        self.steps.append((kind, name, sources, attrs, weights))
        given = zip(*(self.values[source] for source in sources), strict=True)
        bias = 0.0 if weights is None else self._bias(name, len(weights))
        self.values[name] = [_value(kind, values, attrs, weights, bias) for values in given]
        return name

    def graph(self, dtype: str) -> Graph:
        """The network in codes of this type."""
        tensors: dict[str, Tensor] = {"x": self._tensor("x", dtype)}
        ops = []
        for kind, name, sources, attrs, weights in self.steps:
            tensors[name] = self._tensor(name, dtype, tensors[sources[0]] if kind in POOLS else None)
            inputs, attrs = sources, dict(attrs)
            if attrs.pop("relu", False):
                attrs["clip"] = (tensors[name].zero_point, tensors[name].code_range[1])
            if weights is not None:
                codes, scales = _weights(weights)
                quant = Quantisation(scales, np.zeros(scales.size, np.int64), 0)
                tensors[f"{name} w"] = Tensor(f"{name} w", codes.shape, "int8", quant, codes)
                bias = np.rint(self._bias(name, scales.size) / (scales * tensors[sources[0]].scale)).astype(np.int64)
                tensors[f"{name} b"] = Tensor(f"{name} b", bias.shape, "int32", None, bias.astype(np.int32))
                inputs = (*sources, f"{name} w", f"{name} b")
            ops.append(Op(kind, name, inputs, (name,), attrs, (name,)))
        return Graph(tensors, tuple(ops), ("x",), (self.steps[-1][1],))

    def tflite(self, dtype: str) -> bytes:
        """The same as a TFLite file: 16x8 with biases of 64 bits, or int8."""
        graph = self.graph(dtype)
        tensors = [_tflite_tensor(graph, name) for name in graph.tensors] + [T("axes", (2,), "int32", data=[1, 2])]
        return build(tensors, [_tflite_op(graph, op) for op in graph.ops], ["x"], list(graph.outputs))

    def _bias(self, name: str, outputs: int) -> Real:
        """The same in both formats."""
        seed = sum(name.encode())
        return np.random.default_rng(seed).normal(0, 0.1, outputs)

    def _tensor(self, name: str, dtype: str, like: Tensor | None = None) -> Tensor:
        shape, quant = self.values[name][0].shape, like.quant if like else None
        largest = max(float(np.abs(value).max()) for value in self.values[name])
        positive = min(float(value.min()) for value in self.values[name]) >= 0
        if quant is None and dtype == "int8" and positive:
            quant = Quantisation.per_tensor(largest / 255, -128)
        return Tensor(name, shape, dtype, quant or Quantisation.per_tensor(largest / CODES[dtype], 0))


def _weights(weights: Real) -> tuple[NDArray[np.int8], Real]:
    scales = np.abs(weights).reshape(weights.shape[0], -1).max(axis=1) / 127
    return np.rint(weights / scales.reshape(-1, *(1,) * (weights.ndim - 1))).astype(np.int8), scales


def _same(shape: tuple[int, ...], kernel: int, stride: int) -> tuple[int, int, int, int]:
    sides = []
    for size in shape[1:3]:
        total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
        sides.append((total // 2, total - total // 2))
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1]


def _value(
    kind: str, values: tuple[Real, ...], attrs: dict[str, Any], weights: Real | None, bias: Real | float = 0.0
) -> Real:
    x = values[0]
    if kind == "add":
        return x + values[1]
    if kind == "mean":
        return x.mean(axis=(1, 2))
    if kind == "dense":
        assert weights is not None
        return x.reshape(1, -1) @ weights.T + bias
    if kind in ("max_pool", "average_pool"):
        _, height, width, channels = x.shape
        cut = x[:, : height // 2 * 2, : width // 2 * 2].reshape(1, height // 2, 2, width // 2, 2, channels)
        return cut.max(axis=(2, 4)) if kind == "max_pool" else cut.mean(axis=(2, 4))
    assert weights is not None
    top, left, bottom, right = attrs["padding"]
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    rows, columns = weights.shape[1:3]
    windows = np.lib.stride_tricks.sliding_window_view(padded[0], (rows, columns), axis=(0, 1))
    windows = windows[:: attrs["stride"][0], :: attrs["stride"][1]]
    if attrs["groups"] > 1:
        found = np.einsum("yxcij,cij->yxc", windows, weights[..., 0])
    else:
        found = np.einsum("yxcij,oijc->yxo", windows, weights, optimize=True)
    return np.maximum(found + bias, 0.0)[None]


def random_network(seed: int, large: bool = False) -> NetworkBuilder:
    """Convolutions, separable and residual blocks, pools and a head. `large`: sizes of networks that people deploy."""
    rng = np.random.default_rng(seed)
    side, width = (int(rng.integers(32, 65)), 8 * int(rng.integers(2, 5))) if large else (int(rng.integers(8, 17)), 8)
    b = NetworkBuilder(rng, (side, side, int(rng.choice([4, 8]))))
    at = b.conv("x", width, 3, int(rng.integers(1, 3)))
    for _ in range(int(rng.integers(2, 6 if large else 4))):
        at, width = _block(b, at, width, rng)
    return _head(b, at, rng)


def _block(b: NetworkBuilder, at: str, width: int, rng: np.random.Generator) -> tuple[str, int]:
    kind = rng.choice(["conv", "separable", "residual", "pool"])
    if kind == "pool" and min(b.values[at][0].shape[1:3]) >= 4:
        return b.pool(at, str(rng.choice(["max_pool", "average_pool"]))), width
    if kind == "separable":
        deep = b.conv(at, width, 3, depthwise=True)
        width *= 2 if width < 64 else 1
        return b.conv(deep, width, 1), width
    if kind == "residual":
        return b.add(at, b.conv(b.conv(at, width, 1), width, 3)), width
    return b.conv(at, width, 3), width


def _head(b: NetworkBuilder, at: str, rng: np.random.Generator) -> NetworkBuilder:
    b.dense(b.mean(at), 2 * int(rng.integers(2, 9)))
    return b


def _tflite_tensor(graph: Graph, name: str) -> T:
    tensor = graph.tensors[name]
    if tensor.data is None:
        return T(name, tensor.shape, tensor.dtype, tensor.scale, tensor.zero_point)
    layer = name.rpartition(" ")[0]
    op = graph.producers[layer]
    scales = np.asarray(graph.tensors[f"{layer} w"].quant.scales)  # type: ignore[union-attr]
    if name.endswith(" b"):
        source = graph.tensors[op.inputs[0]]
        wide = "int64" if source.dtype == "int16" else "int32"
        return T(name, tensor.shape, wide, scales * source.scale, data=tensor.data)
    if op.attrs.get("groups", 1) == 1:
        return T(name, tensor.shape, "int8", scales, data=tensor.data)
    turned = tensor.data.transpose(3, 1, 2, 0)  # depthwise weights lie as one picture of all channels
    return T(name, turned.shape, "int8", scales, axis=3, data=turned)


def _tflite_op(graph: Graph, op: Op) -> O:
    outputs, relu = list(op.outputs), ("b", 1 if "clip" in op.attrs else 0)
    if op.kind == "conv":
        stride = ("i", op.attrs["stride"][0])
        if op.attrs["groups"] > 1:
            fields = {0: ("b", 0), 1: stride, 2: stride, 3: ("i", 1), 4: relu}
            return O("DEPTHWISE_CONV_2D", list(op.inputs), outputs, "DepthwiseConv2DOptions", fields)
        return O("CONV_2D", list(op.inputs), outputs, "Conv2DOptions", {0: ("b", 0), 1: stride, 2: stride, 3: relu})
    if op.kind in ("max_pool", "average_pool"):
        size = {number: ("i", 2) for number in (1, 2, 3, 4)}
        return O(f"{op.kind.upper()}_2D", list(op.inputs), outputs, "Pool2DOptions", {0: ("b", 1), **size})
    if op.kind == "mean":
        return O("MEAN", [*op.inputs, "axes"], outputs, "ReducerOptions")
    if op.kind == "dense":
        return O("FULLY_CONNECTED", list(op.inputs), outputs, "FullyConnectedOptions")
    return O("ADD", list(op.inputs), outputs, "AddOptions")
