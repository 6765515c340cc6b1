"""Small networks, one for each kind of work that a schedule can make slower."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from atonc.compiler.ir import Graph, Op, Tensor
from tests.lower.harness import activation, constant

Size = tuple[int, int]


@dataclass
class Sketch:
    """A network under construction; every operator's output becomes the input of the next one."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(15))
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    last: str = "x"

    def start(self, *shape: int, zero: int = -5) -> Sketch:
        self.tensors["x"] = activation("x", shape, 0.02, zero)
        return self

    def op(
        self, kind: str, shape: tuple[int, ...], *more: str, scale: float = 0.02, zero: int = -5, **attrs: Any
    ) -> str:
        name = f"{kind}{len(self.ops)}"
        self.tensors[name] = activation(name, shape, scale, zero)
        self.ops.append(Op(kind, name, (self.last, *more), (name,), attrs))
        self.last = name
        return name

    def conv(
        self, outputs: int, kernel: Size = (1, 1), stride: int = 1, depthwise: bool = False, zero: int = -5
    ) -> str:
        """Padded so that the picture keeps its size, divided by the stride."""
        _, height, width, channels = self.tensors[self.last].shape
        taps = (*kernel, 1 if depthwise else channels)
        edge = ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2)
        attrs = {
            "stride": (stride, stride),
            "dilation": (1, 1),
            "padding": (*edge, *edge),
            "groups": channels if depthwise else 1,
        }
        return self._weighted("conv", outputs, taps, (1, height // stride, width // stride, outputs), zero, **attrs)

    def dense(self, outputs: int) -> str:
        self.op("reshape", (1, self.tensors[self.last].elements))
        return self._weighted("dense", outputs, self.tensors[self.last].shape[1:], (1, outputs), -5)

    def upward(self, outputs: int) -> str:
        """A transposed convolution that doubles the picture."""
        _, height, width, channels = self.tensors[self.last].shape
        shape = (1, 2 * height, 2 * width, outputs)
        attrs = {"stride": (2, 2), "padding": (1, 1, 1, 1)}
        return self._weighted("transpose_conv", outputs, (4, 4, channels), shape, -5, **attrs)

    def _weighted(
        self, kind: str, outputs: int, taps: tuple[int, ...], shape: tuple[int, ...], zero: int, **attrs: Any
    ) -> str:
        weights = f"w{len(self.ops)}"
        codes = np.clip(np.rint(self.rng.normal(0, 40, (outputs, *taps))), -127, 127).astype(np.int8)
        scales = self.rng.uniform(0.002, 0.004, outputs)
        self.tensors[weights] = constant(weights, codes, scales, axis=0)
        bias = f"b{len(self.ops)}"
        self.tensors[bias] = constant(bias, self.rng.integers(-2000, 2000, outputs).astype(np.int32))
        spread = float(np.sqrt(np.prod(taps)) * 40 * 70 * 0.003 * 0.02 / 40)  # outputs that fill their codes
        return self.op(kind, shape, weights, bias, scale=spread, zero=zero, layout="NHWC", **attrs)

    def graph(self) -> Graph:
        return Graph(self.tensors, tuple(self.ops), ("x",), (self.last,))


def pictures() -> Graph:
    """Few channels, many pixels: the first layers of a network."""
    net = Sketch().start(1, 64, 64, 3, zero=-1)
    net.conv(16, (3, 3), stride=2)
    net.conv(24, (3, 3))
    return net.graph()


def depthwise() -> Graph:
    """Several chains side by side in an epoch."""
    net = Sketch().start(1, 24, 24, 96, zero=-128)
    net.conv(96, (3, 3), depthwise=True, zero=-128)
    net.conv(96, (5, 5), depthwise=True)
    return net.graph()


def pointwise() -> Graph:
    """Forms that differ in speed and in how the zero point is subtracted."""
    net = Sketch().start(1, 20, 20, 160, zero=17)
    net.conv(64, zero=9)
    net.conv(200, zero=-30)
    return net.graph()


def windows() -> Graph:
    """Long chains over many channels, with accumulators."""
    net = Sketch().start(1, 12, 12, 96, zero=-128)
    net.conv(80, (3, 3), zero=4)
    net.conv(40, (5, 5), zero=-9)
    net.conv(32, (7, 7))
    return net.graph()


def classifier() -> Graph:
    """Little arithmetic and many weights: bound by the flash."""
    net = Sketch().start(1, 4, 4, 96, zero=-128)
    net.dense(120)
    net.dense(10)
    net.op("softmax", (1, 10), scale=1 / 256, zero=-128, axis=-1)
    return net.graph()


def residual() -> Graph:
    """Branches that meet again, and functions of one value."""
    net = Sketch().start(1, 16, 16, 32, zero=3)
    first = net.conv(32, (3, 3))
    net.op("hard_swish", (1, 16, 16, 32), scale=0.015, zero=-110)
    net.conv(32)
    net.op("add", (1, 16, 16, 32), first, scale=0.04)
    net.op("logistic", (1, 16, 16, 32), scale=1 / 256, zero=-128)
    net.op("mul", (1, 16, 16, 32), first)
    return net.graph()


def pools() -> Graph:
    net = Sketch().start(1, 32, 32, 40)
    window = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), "layout": "NHWC"}
    net.op("max_pool", (1, 16, 16, 40), **window)
    net.op("average_pool", (1, 8, 8, 40), **window)
    net.op("max_pool", (1, 8, 8, 40), **{**window, "window": (5, 5), "stride": (1, 1), "padding": (2, 2, 2, 2)})
    net.op("mean", (1, 1, 1, 40), axes=(1, 2), keepdims=True)
    return net.graph()


def movements() -> Graph:
    """Bytes from place to place, and a picture that grows."""
    net = Sketch().start(1, 12, 12, 24)
    small = net.op("transpose", (1, 12, 12, 24), perm=(0, 2, 1, 3))
    net.op("concat", (1, 12, 12, 48), "x", axis=3)
    net.op("resize_nearest", (1, 24, 24, 48), coordinates="half_pixel", rounding="floor")
    net.upward(16)
    net.op("max_pool", (1, 12, 12, 16), window=(4, 4), stride=(4, 4), padding=(0,) * 4, layout="NHWC")
    net.op("concat", (1, 12, 12, 40), small, axis=3)
    return net.graph()


GRAPHS = {
    graph.__name__: graph for graph in (pictures, depthwise, pointwise, windows, classifier, residual, pools, movements)
}
