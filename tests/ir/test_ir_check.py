"""A graph that is not well formed is refused, and the message names the place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor, check
from atonc.machine.base.errors import ModelError

INT8 = Quantisation.per_tensor(0.5, -3)


def tensors(*listed: Tensor) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in listed}


def small_graph() -> Graph:
    x, y = Tensor("x", (1, 4), "int8", INT8), Tensor("y", (1, 4), "int8", INT8)
    return Graph(tensors(x, y), (Op("relu", "r", ("x",), ("y",)),), ("x",), ("y",))


def test_a_good_graph_passes() -> None:
    graph = small_graph()
    assert check(graph) is graph
    assert graph.producers["y"].name == "r"
    assert [op.name for op in graph.consumers["x"]] == ["r"]


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("x", (1, 4), "int3"),
        Tensor("x", (1,) * 9, "int8"),
        Tensor("x", (1, -4), "int8"),
        Tensor("x", (1 << 20, 1 << 20), "int8"),
        Tensor("x", (1, 4), "float32", INT8),
        Tensor("x", (1, 4), "int8", Quantisation.per_tensor(0.0)),
        Tensor("x", (1, 4), "int8", Quantisation.per_tensor(float("nan"))),
        Tensor("x", (1, 4), "int8", Quantisation.per_tensor(0.5, 200)),
        Tensor("x", (1, 4), "int8", Quantisation(np.ones(3), np.zeros(3, np.int64), 1)),
        Tensor("x", (1, 4), "int8", Quantisation(np.ones(4), np.zeros(4, np.int64), 7)),
        Tensor("x", (1, 4), "int8", Quantisation(np.ones(4), np.zeros(3, np.int64), 1)),
        Tensor("x", (1, 4), "int8", INT8, np.zeros((4, 1), np.int8)),
    ],
)
def test_bad_tensors(tensor: Tensor) -> None:
    graph = small_graph()
    with pytest.raises(ModelError) as caught:
        check(replace(graph, tensors={**graph.tensors, "x": tensor}))
    assert caught.value.where == "x"


def test_bad_order() -> None:
    graph = small_graph()
    loop = Op("add", "loop", ("x", "z"), ("z",))
    z = Tensor("z", (1, 4), "int8", INT8)
    for broken in (
        replace(graph, inputs=()),
        replace(graph, outputs=("nothing",)),
        replace(graph, ops=graph.ops * 2),
        replace(graph, ops=(loop,), tensors={**graph.tensors, "z": z}),
        replace(graph, inputs=("x", "w")),
        replace(graph, ops=(Op("relu", "r", ("x",), ("w",)),)),
    ):
        with pytest.raises(ModelError):
            check(broken)


def test_quantisation_broadcasts_along_its_axis() -> None:
    quant = Quantisation(np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64), 1)
    assert quant.along(quant.scales, 4).shape == (1, 3, 1, 1)
    assert not quant.is_per_tensor
    assert quant.same_as(Quantisation(np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64), 1))
    assert not quant.same_as(Quantisation(np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64), 0))
    assert not quant.same_as(None)
