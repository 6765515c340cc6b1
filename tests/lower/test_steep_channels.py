"""Channels where one step of the sum is worth more codes than there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.compiler.frontends.tflite_ops import shifts_overflow
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.conv.requantise import STEEP, tame
from atonc.compiler.ops import run_graph
from tests.lower.harness import activation, constant, graph_of, run

WINDOW = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC", "groups": 1}


def codes(scale: float, offset: float, sums: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(scale * sums + offset), -128, 127)


@given(
    st.floats(1e-3, 1e7),
    st.sampled_from((-1, 1)),
    st.floats(-3e4, 3e4),
    st.integers(-128, 127),
    st.integers(-4000, 0),
    st.integers(0, 4000),
)
def test_every_whole_sum_keeps_its_code(size: float, sign: int, bias: float, zero: int, low: int, high: int) -> None:
    scale, offset = sign * size, sign * size * bias + zero
    (slope,), (end,) = tame(np.array([scale]), np.array([offset]), np.array([float(low)]), np.array([float(high)]))
    sums = np.arange(low, high + 1)
    assert abs(slope) <= max(STEEP, 0 if size > STEEP else size)
    clear = np.abs(scale * sums + offset - np.floor(scale * sums + offset) - 0.5) > 1e-6  # of halves
    assert np.array_equal(codes(scale, offset, sums)[clear], codes(slope, end, sums)[clear])


def layer(kernel: int, inputs: int, groups: int, scales: np.ndarray) -> Graph:
    rng = np.random.default_rng(5)
    weights = rng.integers(-127, 128, (scales.size, kernel, kernel, inputs // groups)).astype(np.int8)
    half = kernel // 2
    attrs = {**WINDOW, "padding": (half,) * 4, "groups": groups}
    return graph_of(
        Op("conv", "conv", ("x", "w", "b"), ("y",), attrs),
        activation("x", (1, 8, 8, inputs), 0.02, -128),
        constant("w", weights, scales, axis=0),
        constant("b", rng.integers(-400, 400, scales.size).astype(np.int32)),
        activation("y", (1, 8, 8, scales.size), 8e-9, 0),
    )


@pytest.mark.parametrize(("kernel", "inputs", "groups"), [(1, 16, 1), (3, 16, 16), (3, 4, 1)])
def test_layers_with_degenerate_scales_are_bit_equal_on_the_npu(kernel: int, inputs: int, groups: int) -> None:
    graph = layer(kernel, inputs, groups, 10.0 ** np.linspace(-2.5, 0.5, 16))
    rng = np.random.default_rng(6)
    few = rng.integers(-128, -124, (1, 8, 8, inputs)).astype(np.int8)  # many sums near zero
    for values in (few, np.full_like(few, -128), rng.integers(-128, 128, few.shape).astype(np.int8)):
        exact = run_graph(graph, {"x": values})["y"]
        assert np.array_equal(run(graph, {"x": values})["y"], exact)


def test_ordinary_channels_beside_a_degenerate_one_are_not_given_up() -> None:
    """One shift for both would leave the ordinary ones without bits: groups of one channel, if need be."""
    graph = layer(1, 16, 1, np.where(np.arange(17) % 2, 5e4, 0.004))
    y = activation("y", graph.tensors["y"].shape, 0.1, 0)
    graph = Graph({**graph.tensors, "y": y}, graph.ops, graph.inputs, graph.outputs)
    values = np.random.default_rng(7).integers(-128, 128, (1, 8, 8, 16)).astype(np.int8)
    exact = run_graph(graph, {"x": values})["y"].astype(int)
    assert np.abs(run(graph, {"x": values})["y"].astype(int) - exact).max() <= 1


def test_where_the_kernels_of_tflite_overflow() -> None:
    steep, usual = (layer(1, 16, 1, np.full(4, scale)) for scale in (2.0, 1e-9))
    for graph, expected in ((steep, True), (usual, False)):
        x, weights, bias, y = (graph.tensors[name] for name in "xwby")
        assert shifts_overflow(x, weights, bias, y) is expected
        assert not shifts_overflow(x, weights, None, activation("z", y.shape, 1.0))
