"""Small networks whose best form depends on what a board has answered."""

from __future__ import annotations

import numpy as np

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.request.options import Options
from atonc.machine.hw.safety.evidence import Feature
from atonc.machine.hw.safety.evidence.epochs import view_features
from atonc.machine.hw.safety.view import EpochView, SafetyContext
from tests.lower.harness import activation, constant, graph_of

TWO_WRITERS = Feature("two writers", "", "interleaved, no word in common")


def convolution(
    channels: int,
    kernels: int,
    window: int = 3,
    zero: int = -5,
    stride: int = 1,
    pads: tuple[int, int, int, int] | None = None,
) -> Graph:
    """Pads are top, left, bottom, right; all that keep the size, unless told."""
    rng = np.random.default_rng(0)
    side = 31 + stride
    pads = pads or (window // 2,) * 4
    height, width = ((side + pads[axis] + pads[axis + 2] - window) // stride + 1 for axis in (0, 1))
    attrs = {"stride": (stride, stride), "dilation": (1, 1), "padding": pads, "groups": 1, "layout": "NHWC"}
    weights = rng.integers(-127, 128, (kernels, window, window, channels)).astype(np.int8)
    return graph_of(
        Op("conv", "conv", ("x", "w", "b"), ("y",), attrs),
        activation("x", (1, side, side, channels), 0.02, zero),
        constant("w", weights, rng.uniform(0.002, 0.004, kernels), axis=0),
        constant("b", rng.integers(-2000, 2000, kernels).astype(np.int32)),
        activation("y", (1, height, width, kernels), 0.05, 3),
    )


ROWS = convolution(3, 12, stride=2)  # lanes of rows, each padded on two or three sides: S1 and S2
LANES = convolution(16, 16)  # two lanes of kernels, whose writers interleave
TOP = convolution(3, 8, pads=(1, 0, 0, 0))  # a pad on one side: an epoch of its own, or an unpublished form
LOWEST = convolution(64, 64, 1, zero=-128)  # a zero point of -128: S5


def plainly(graph: Graph) -> Compiled:
    return compile_graph(graph, Options(verify=False))


def shown(compiled: Compiled) -> set[Feature]:
    return {one for epoch in compiled.program.epochs for one in view_features(EpochView(epoch, SafetyContext()))}
