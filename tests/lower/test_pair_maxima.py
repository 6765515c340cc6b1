"""Maxima of pairs, where pictures are too small for POOL units: bit for bit, and without such units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops import run_graph
from atonc.machine.hw.units.pool import PoolConfig
from tests.lower.harness import activation, graph_of, lower, run

Shape = tuple[int, ...]


def pooled(shape: Shape, window: Shape, stride: Shape, pads: Shape, zero_out: int = 3) -> Graph:
    attrs = {"layout": "NHWC", "window": window, "stride": stride, "padding": pads}
    sizes = [(shape[k] + pads[k] + pads[k + 2] - window[k]) // stride[k] + 1 for k in range(2)]
    x, y = activation("x", (1, *shape), 0.05, 3), activation("y", (1, *sizes, shape[2]), 0.05, zero_out)
    return graph_of(Op("max_pool", "op", ("x",), ("y",), attrs, ("op",)), x, y)


def units_of(graph: Graph) -> list[object]:
    return [unit for plan in lower(graph)[0] for unit in plan.units.values()]


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(*[st.integers(2, 5)] * 2, st.integers(1, 20)),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(1, 2)] * 2),
    st.tuples(*[st.integers(0, 1)] * 4),
    st.sampled_from([3, -10]),
)
def test_small_pictures(shape: Shape, window: Shape, stride: Shape, pads: Shape, zero: int) -> None:
    window = tuple(min(w, n) for w, n in zip(window, shape, strict=False))
    pads = tuple(min(p, window[k % 2] - 1) for k, p in enumerate(pads))
    graph = pooled(shape, window, stride, pads, zero)
    codes = np.random.default_rng(1).integers(-128, 128, (1, *shape)).astype(np.int8)
    assert np.array_equal(run(graph, {"x": codes})["y"], run_graph(graph, {"x": codes})["y"])


@pytest.mark.parametrize(("shape", "window"), [((16, 3, 16), (16, 3)), ((9, 3, 24), (3, 1))])
def test_published_networks_with_small_pictures_stay_on_the_npu(shape: Shape, window: Shape) -> None:
    graph = pooled(shape, window, window if window[1] == 1 else (1, 1), (0, 0, 0, 0))
    assert not any(isinstance(unit, PoolConfig) for unit in units_of(graph))
    assert not compile_graph(graph).choices.reasons


def test_usual_pictures_take_pool_units() -> None:
    assert any(isinstance(unit, PoolConfig) for unit in units_of(pooled((24, 24, 16), (2, 2), (2, 2), (0, 0, 0, 0))))
