"""Small graphs written by hand, and what every pass owes: the same outputs as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor, check
from atonc.compiler.ir.text import dump
from atonc.compiler.ops import run_graph

PICTURE = (1, 6, 6, 4)


class Small:
    """Collects tensors and operators; activations are int8 unless told."""

    def __init__(self, source: str = "tflite") -> None:
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []
        self.source = source
        self.rng = np.random.default_rng(7)

    def input(self, shape: tuple[int, ...], **kind: Any) -> str:
        name = self.value(f"x{len(self.inputs)}", shape, **kind)
        self.inputs.append(name)
        return name

    def value(
        self, name: str, shape: tuple[int, ...], dtype: str = "int8", scale: float | None = 0.05, zero: int = -3
    ) -> str:
        quant = None if dtype.startswith("float") or scale is None else Quantisation.per_tensor(scale, zero)
        self.tensors[name] = Tensor(name, shape, dtype, quant)
        return name

    def const(self, name: str, data: Any, scale: Any = None, zero: int = 0, axis: int = 0) -> str:
        data, quant = np.asarray(data), None
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float64))
            quant = Quantisation(scales, np.full(scales.size, zero), axis if scales.size > 1 else None)
        self.tensors[name] = Tensor(name, data.shape, data.dtype.name, quant, data)
        return name

    def weights(self, name: str, *shape: int, per_channel: bool = True) -> str:
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        scale = self.rng.uniform(0.002, 0.01, shape[0]) if per_channel else 0.005
        return self.const(name, data, scale)

    def bias(self, name: str, size: int) -> str:
        return self.const(name, self.rng.integers(-2000, 2000, size).astype(np.int32))

    def op(self, kind: str, inputs: list[str], outputs: str | list[str], **attrs: Any) -> None:
        names = [outputs] if isinstance(outputs, str) else outputs
        name = f"{kind}_{len(self.ops)}"
        self.ops.append(Op(kind, name, tuple(inputs), tuple(names), attrs, (name,)))

    def conv(self, x: str, y: str, channels: int, kernel: int = 3, **attrs: Any) -> None:
        """A convolution whose output tensor exists already."""
        layout = attrs.get("layout", "NHWC")
        shape = self.tensors[x].shape
        inputs = shape[1] if layout == "NCHW" else shape[-1]
        groups = attrs.get("groups", 1)
        w = self.weights(f"{y}:w", channels, kernel, kernel, inputs // groups)
        edge = kernel // 2
        window = {"stride": (1, 1), "dilation": (1, 1), "padding": (edge,) * 4, "layout": "NHWC", "groups": 1}
        self.op("conv", [x, w, self.bias(f"{y}:b", channels)], y, **(window | attrs))

    def graph(self, *outputs: str) -> Graph:
        return check(Graph(self.tensors, tuple(self.ops), tuple(self.inputs), outputs, "small", self.source))


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    values = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.is_float:
            values[name] = rng.uniform(-3, 3, tensor.shape)
        else:
            low, high = tensor.code_range
            values[name] = rng.integers(low, high + 1, tensor.shape)
    return values


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def equal_after(graph: Graph, step: Callable[[Graph], Graph], within: int = 0) -> Graph:
    """Runs a pass and compares all outputs on random inputs: codes within so many steps, real numbers closely."""
    try:
        return _equal_after(graph, step, within)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{dump(graph, complete=True)}") from error


def _equal_after(graph: Graph, step: Callable[[Graph], Graph], within: int) -> Graph:
    changed = step(graph)
    check(changed)
    assert changed.inputs == graph.inputs and changed.outputs == graph.outputs
    for seed in range(3):
        before, after = (run_graph(g, random_inputs(graph, seed)) for g in (graph, changed))
        for name in graph.outputs:
            assert before[name].shape == after[name].shape, name
            if graph.tensors[name].is_float:
                np.testing.assert_allclose(after[name], before[name], rtol=1e-5, atol=1e-6)
            else:
                difference = np.abs(before[name].astype(np.int64) - after[name].astype(np.int64))
                assert difference.max(initial=0) <= within, name
    return changed
