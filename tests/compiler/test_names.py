"""Operators that share a name are told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Graph
from atonc.compiler.passes.tidy import name_uniquely
from tests.compiler.layer_checks import compile_checked, run_checked
from tests.compiler.random_graphs import Net, random_inputs


def two_conversions_before_a_concat() -> Graph:
    """Both inputs change their format, and the function of one is too rough for the NPU's tables."""
    net = Net(np.random.default_rng(36))
    x, y = net.add_input((1, 1, 11, 7)), net.add_input((1, 1, 11, 7))
    rough = tuple(int(v) for v in net.rng.integers(-128, 128, 256))
    table = net.op("table", [x], (1, 1, 11, 7), same_format=True, table=rough)[0]
    net.op("concat", [table, y], (1, 2, 11, 7), axis=1)
    return net.graph("two conversions")


def test_steps_on_the_cpu_run_their_own_operator() -> None:
    compiled = compile_checked(two_conversions_before_a_concat())
    assert compiled.choices.reasons, "the table should be on the CPU"
    assert not run_checked(compiled, random_inputs(compiled.graph, 1)).bad


def test_names_are_unique_and_stay_where_they_can() -> None:
    net = Net(np.random.default_rng(0))
    x = net.add_input((1, 4))
    for _ in range(3):
        x = net.op("relu", [x], (1, 4))[0]
    graph = net.graph("names")
    same = [replace(op, name=name) for op, name in zip(graph.ops, ("a", "a", "a#2"), strict=True)]
    renamed = name_uniquely(Graph(graph.tensors, tuple(same), graph.inputs, graph.outputs))
    assert [op.name for op in renamed.ops] == ["a", "a#3", "a#2"]
