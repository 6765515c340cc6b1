"""Inputs at the ends of their range."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_extremes, make_inputs
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import run_graph
from tests.compiler.random_graphs import random_graph
from tests.lower.harness import activation, constant

ATTRS = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC", "groups": 1}


def dense(inputs: int = 300) -> Graph:
    weights = np.random.default_rng(1).integers(-127, 128, (6, inputs)).astype(np.int8)
    tensors = activation("x", (1, inputs)), constant("w", weights, 0.01), activation("y", (1, 6), 40.0)
    return Graph({t.name: t for t in tensors}, (Op("dense", "d", ("x", "w"), ("y",), {}),), ("x",), ("y",))


def picture(shape: tuple[int, ...] = (1, 16, 12, 4), dtype: str = "int8") -> Graph:
    weights = np.random.default_rng(2).integers(-127, 128, (5, 3, 3, shape[3])).astype(np.int8)
    x = activation("x", shape) if dtype == "int8" else Tensor("x", shape, dtype)
    tensors = x, constant("w", weights, 0.01), activation("y", (1, shape[1] - 2, shape[2] - 2, 5), 4.0)
    return Graph({t.name: t for t in tensors}, (Op("conv", "c", ("x", "w"), ("y",), ATTRS),), ("x",), ("y",))


@pytest.mark.parametrize("seed", range(4))
def test_one_channel_of_a_dense_layer_goes_as_far_as_it_can(seed: int) -> None:
    graph = dense()
    values = make_extremes(graph, seed)["x"]
    assert set(np.unique(values)) == {-128, 127}
    weights = np.asarray(graph.tensors["w"].data).astype(int)
    sums = (values.astype(int) @ weights.T)[0]
    best = np.where(weights > 0, 127, -128)
    most = (weights * best).sum(axis=1)
    assert (sums == most).sum() == 1  # one channel, as far up as any input takes it


def test_pictures_have_bands_at_both_ends() -> None:
    values = make_extremes(picture(), 0)["x"]
    assert set(np.unique(values)) == {-128, 127}
    first, second, third, last = np.split(values, 4, axis=1)
    assert np.array_equal(first, ~second) and (third == 127).all() and 0 < (last == 127).mean() < 1


def test_codes_of_16_bits_are_at_the_ends_of_theirs() -> None:
    graph = picture()
    x = Tensor("x", graph.tensors["x"].shape, "int16", Quantisation.per_tensor(1e-4, 0))
    values = make_extremes(Graph(graph.tensors | {"x": x}, graph.ops, ("x",), ("y",)), 0)["x"]
    assert values.dtype == np.int16 and set(np.unique(values)) == {-32768, 32767}


def test_floats_are_at_the_ends_of_their_range() -> None:
    values = make_extremes(picture(dtype="float32"), 3)["x"]
    assert values.dtype == np.float32 and set(np.unique(values)) == {0.0, 1.0}


def test_the_same_seed_gives_the_same_values_and_every_network_runs_on_them() -> None:
    for seed in range(12):
        graph = random_graph(seed)
        values = make_extremes(graph, seed)
        again, like = make_extremes(graph, seed), make_inputs(graph, seed)
        assert all(np.array_equal(values[name], again[name]) for name in graph.inputs)
        assert all(values[name].dtype == like[name].dtype for name in graph.inputs)
        run_graph(graph, values)
