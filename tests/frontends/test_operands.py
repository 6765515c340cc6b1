"""Operands that do not fit each other are refused by name, whatever file they come from."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.frontends.operands import check_operands
from atonc.compiler.ir import Graph, Op
from atonc.machine.base.errors import ModelError
from tests.lower.harness import activation, constant, graph_of


def conv(outputs: int, groups: int, biases: int) -> Graph:
    weights = np.ones((outputs, 3, 3, 12 // groups), np.int8)
    return graph_of(
        Op("conv", "conv", ("x", "w", "b"), ("y",), {"groups": groups}),
        activation("x", (1, 8, 8, 12)),
        constant("w", weights, 0.1),
        constant("b", np.zeros(biases, np.int32)),
        activation("y", (1, 6, 6, outputs)),
    )


@pytest.mark.parametrize(("outputs", "groups", "biases"), [(8, 1, 8), (8, 1, 1), (8, 4, 8), (12, 12, 12)])
def test_layers_that_fit(outputs: int, groups: int, biases: int) -> None:
    graph = conv(outputs, groups, biases)
    assert check_operands(graph) is graph


@pytest.mark.parametrize(("outputs", "groups", "biases"), [(8, 3, 8), (8, 1, 7), (0, 1, 0)])
def test_layers_that_do_not(outputs: int, groups: int, biases: int) -> None:
    graph = conv(outputs, groups, biases)
    with pytest.raises(ModelError):
        check_operands(graph)
