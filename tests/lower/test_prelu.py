from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.channels import prelu_form
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.ops.registry import evaluate
from tests.lower.harness import activation, constant, facts, graph_of, lower, run

QUANT = st.tuples(st.floats(0.003, 0.3), st.integers(-128, 127))
SHAPES = st.sampled_from([(1, 3, 4, 5), (1, 30, 30, 16), (1, 1, 1, 7), (1, 3, 3, 512), (1, 9)])
SIGNS = st.sampled_from([(0.0, 1.0), (-1.0, 0.0), (-0.5, 1.0), (0.0, 0.0), (0.5, 3.0)])


def _model(shape, quants, signs, quantised, attrs=None):
    slopes = np.random.default_rng(shape[-1]).uniform(*signs, shape[-1])
    if quantised:
        scale = max(float(np.abs(slopes).max()), 1e-3) / 127
        slope = constant("a", np.rint(slopes / scale).astype(np.int8), scale)
    else:
        slope = constant("a", slopes.astype(np.float32))
    op = Op("prelu", "p", ("x", "a"), ("y",), attrs or {})
    return op, graph_of(op, activation("x", shape, *quants[0]), slope, activation("y", shape, *quants[1]))


def _run(op, graph, numerics="best"):
    shape = graph.tensors["x"].shape
    x = np.random.default_rng(5).integers(-128, 128, shape).astype(np.int8)
    got = run(graph, {"x": x}, numerics)["y"]
    return x, got, evaluate(graph, op, [x, graph.tensors["a"].data])[0].codes


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.tuples(QUANT, QUANT), SIGNS, st.booleans(), st.sampled_from(["best", "2.x"]))
def test_prelu(shape, quants, signs, quantised, numerics) -> None:
    op, graph = _model(shape, quants, signs, quantised)
    x, got, exact = _run(op, graph, numerics)
    assert np.abs(got.astype(int) - exact).max() <= 1
    if quants[0][1] > -128:
        assert np.array_equal(got, prelu_form(op, Context(facts(graph, numerics)))(x))


@pytest.mark.parametrize("signs", [(0.0, 1.0), (-0.5, 1.0)])
@pytest.mark.parametrize("numerics", ["best", "2.x"])
def test_more_channels_than_coefficients(signs, numerics) -> None:
    op, graph = _model((1, 5, 6, 600), ((0.1, -4), (0.07, 11)), signs, True)
    _, got, exact = _run(op, graph, numerics)
    assert np.abs(got.astype(int) - exact).max() <= 1


@pytest.mark.parametrize("channels", [16, 600])
def test_clipped(channels) -> None:
    op, graph = _model((1, 5, 6, channels), ((0.1, -4), (0.07, 11)), (0.0, 1.0), False, {"clip": (-30, 60)})
    _, got, exact = _run(op, graph)
    assert np.array_equal(got, exact)


def test_slopes_of_one_sign_leave_room_for_two_chains() -> None:
    _, graph = _model((1, 40, 40, 16), ((0.1, 0), (0.1, 0)), (0.0, 1.0), True)
    (plan,), _ = lower(graph)
    assert sum(name.startswith("ACTIV") for name in plan.units) == 2


def test_one_slope_is_a_function() -> None:
    op = Op("prelu", "p", ("x", "a"), ("y",))
    slope = constant("a", np.array([0.25], np.float32))
    graph = graph_of(op, activation("x", (1, 9, 9, 3), 0.1, 3), slope, activation("y", (1, 9, 9, 3), 0.08, -20))
    _, got, exact = _run(op, graph)
    assert np.array_equal(got, exact)


def test_slopes_per_pixel_are_refused() -> None:
    op = Op("prelu", "p", ("x", "a"), ("y",))
    slope = constant("a", np.ones((3, 4, 5), np.float32))
    with pytest.raises(Refusal, match="PRELU-SLOPES"):
        lower(graph_of(op, activation("x", (1, 3, 4, 5)), slope, activation("y", (1, 3, 4, 5))))
