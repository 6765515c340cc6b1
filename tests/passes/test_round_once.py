"""`--numerics 2.x` rounds results once and leaves positions alone."""

from __future__ import annotations

from atonc.compiler.ir import Op
from atonc.compiler.passes.formats import round_once
from tests.lower.harness import activation, graph_of


def test_results_are_rounded_once() -> None:
    tensors = activation("x", (1, 2, 2, 1)), activation("y", (1, 2, 2, 1))
    graph = graph_of(Op("add", "a", ("x", "x"), ("y",), {"rounded": "twice"}), *tensors)
    assert round_once(graph).ops[0].attrs == {}


def test_resizes_keep_how_they_round_positions() -> None:
    op = Op("resize_nearest", "r", ("x",), ("y",), {"rounding": "floor", "coordinates": "asymmetric"})
    graph = graph_of(op, activation("x", (1, 2, 2, 1)), activation("y", (1, 4, 4, 1)))
    assert round_once(graph).ops[0].attrs == op.attrs
