"""One working call of every kernel in atonc_kernels.h: of an operator whose writer in emit/c/cpu calls it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from atonc.compiler.emit.c.calls import CpuCall
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops.recurrent import CELLS
from tests.kernels.three_ways import Memories, c_value, one_op, stored, tensor

F, Q = {"dtype": "float32"}, {"dtype": "int8", "scale": 0.5, "zero": 3}


def f(name: str, shape: tuple[int, ...], **kind: Any) -> Any:
    return tensor(name, shape, **(kind or F))


def examples() -> list[tuple[Graph, Op]]:
    x, y = f("x", (2, 4, 4, 4), **Q), f("y", (2, 4, 4, 4), **Q)
    picture = {"stride": (1, 1), "padding": (1, 1, 1, 1), "layout": "NHWC"}
    weights = tensor("w", (4, 3, 3, 4), "int8", 0.1, data=np.ones((4, 3, 3, 4), np.int8))
    numbers = tensor("n", (4,), "float64", data=np.ones(4))
    index = tensor("i", (3,), "int32")
    order = {"kernels": 3, "channels": 5, "units": ((0, 4), (0, 4, 0, 7)), "turned": True}
    return [
        one_op("reshape", [x], [f("y", (32, 4), **Q)]),
        one_op("pad", [x], [f("y", (2, 5, 4, 4), **Q)], pads=((0, 0), (0, 1), (0, 0), (0, 0))),
        one_op("resize_nearest", [x], [f("y", (2, 8, 8, 4), **Q)], coordinates="asymmetric", rounding="floor"),
        one_op("gather", [x, index], [f("y", (2, 3, 4, 4), **Q)], axis=1),
        one_op("gather_nd", [x, tensor("i", (5, 2), "int32")], [f("y", (5, 4, 4), **Q)]),
        one_op("logistic", [x], [y]),
        one_op("neg", [f("x", (3, 5), dtype="int16", scale=0.5)], [f("y", (3, 5), dtype="int16", scale=0.5)]),
        one_op("quantize", [f("x", (3, 5))], [f("y", (3, 5), **Q)]),
        one_op("logistic", [f("x", (3, 5))], [f("y", (3, 5))]),
        one_op("affine", [f("x", (3, 4)), numbers, numbers], [f("y", (3, 4))]),
        one_op("add", [x, f("b", (4,))], [y]),
        one_op("select", [tensor("c", (1,), "bool"), x, x], [y]),
        one_op("conv", [x, weights], [y], groups=1, rounded="twice", **picture),
        one_op("transpose_conv", [x, weights], [y], **picture),
        one_op("matmul", [x, f("b", (4, 4), **Q)], [y]),
        one_op("pack_kernels", [x], [f("z", (8, 48), **Q)], **order),
        one_op("max_pool", [x], [y], window=(3, 3), **picture),
        one_op("average_pool", [x], [y], window=(3, 3), rounded="as codes", **picture),
        one_op("mean", [x], [f("y", (2, 4), **Q)], axes=(1, 2)),
        one_op("arg_max", [x], [tensor("y", (2, 4, 4), "int32")], axis=3),
        one_op("softmax", [x], [y], axis=3),
        one_op("softmax", [f("x", (2, 4))], [f("y", (2, 4))], axis=1),
        one_op("l2_norm", [x], [y]),
        one_op("rms_norm", [x], [y], axis=3, epsilon=1e-5),
        one_op("layer_norm", [x, numbers, numbers], [y], axis=3, epsilon=1e-5),
        one_op("resize_linear", [x], [f("y", (2, 8, 8, 4), **Q)], coordinates="half_pixel"),
        lstm(),
        recurrent("gru", 5, 2, 3),
    ]


def lstm() -> tuple[Graph, Op]:
    shapes = {"w": (4, 3, 5), "r": (4, 3, 3)}
    constants = [tensor(name, shape, "int8", data=np.ones(shape, np.int8)) for name, shape in shapes.items()]
    biases = tensor("b", (8, 3), "int32", data=np.ones((8, 3), np.int32))
    attrs = {"multipliers": ((1 << 30, -3),) * 9, "cell_bits": 4, "cell_clip": 0}
    return one_op("lstm", [f("x", (2, 4, 5), **Q), *constants, biases], [f("y", (2, 4, 3), **Q)], **attrs)


def recurrent(
    cell: str,
    steps: int,
    batch: int,
    cells: int,
    start: bool = True,
    reverse: bool = False,
    given: str = "int8",
    seed: int = 0,
) -> tuple[Graph, Op]:
    rng, (gates, states) = np.random.default_rng(seed), CELLS[cell]
    weights = rng.normal(0, 1, (gates * cells, cells)).astype(np.float32)
    biases = rng.normal(0, 1, gates * cells).astype(np.float32)
    constants = [tensor("r", weights.shape, "float32", data=weights), tensor("b", biases.shape, "float32", data=biases)]
    before = [f("s", (states, batch, cells))] if start else []
    x = f("x", (steps, batch, gates * cells), **({"dtype": given} if given == "float32" else {**Q, "scale": 0.03}))
    out = f("y", (steps, states, batch, cells))
    return one_op("recurrent", [x, *constants, *before], [out], cell=cell, reverse=reverse)


@cache
def calls() -> dict[str, tuple[CpuCall, tuple[Any, ...], Memories]]:
    """One working call of every kernel, with its evaluated arguments."""
    found = {}
    for graph, op in examples():
        sizes = {t.name: t.elements * stored(t).itemsize for t in graph.tensors.values() if t.data is None}
        memories = Memories(sizes, {name: np.zeros(size, np.uint8) for name, size in sizes.items()})
        for call in cpu_calls(op, graph):
            found[call.function] = (call, tuple(c_value(a, memories) for a in call.arguments), memories)
    return found
