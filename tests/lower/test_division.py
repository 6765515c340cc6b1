"""Quotients of two tensors: within a code where an 8-bit reciprocal does, and refused where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.binary import MOST_ERROR, lower_division, occurring_codes
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.ops import run_graph
from tests.lower.harness import activation, facts, run

SHAPES = st.sampled_from([((1, 6, 5, 7), (1, 6, 5, 7)), ((1, 8, 9, 20), (1, 1, 1, 20)), ((1, 1, 1, 20), (1, 8, 9, 20))])


def divided(shapes, least: int, negative: bool = False, wide: float = 1.0, zero: int = -128) -> Graph:
    """x / (d + constant): the divisor has at least `least` steps, as a sum with a positive constant does."""
    quant = Quantisation.per_tensor(0.1, 0)
    step = -least if negative else least
    k = Tensor("k", (1,), "int8", quant, np.array([step], np.int8))
    shape_x, shape_d = shapes
    out = tuple(np.broadcast_shapes(shape_x, shape_d))
    d_zero = 127 if negative else -128
    largest = 255 * 0.02 / (least * 0.1)
    tensors = [
        activation("x", shape_x, 0.02, zero),
        activation("d", shape_d, 0.1, d_zero),
        k,
        activation("y", shape_d, 0.1, d_zero),
        activation("z", out, wide * largest / 255, 127 if negative else -128),
    ]
    ops = (Op("add", "add", ("d", "k"), ("y",), {}), Op("div", "div", ("x", "y"), ("z",), {}))
    return Graph({t.name: t for t in tensors}, ops, ("x", "d"), ("z",), "quotients", "tflite")


def codes(shape, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


@settings(max_examples=12, deadline=None)
@given(SHAPES, st.integers(2, 60), st.booleans(), st.floats(1.0, 1.6))
def test_quotients_are_within_a_code(shapes, least, negative, wide) -> None:
    graph = divided(shapes, least, negative, wide)
    values = {"x": codes(shapes[0], 1), "d": codes(shapes[1], 2)}
    got = run(graph, values)["z"]
    exact = run_graph(graph, values)["z"]
    assert np.abs(got.astype(int) - exact.astype(int)).max() <= MOST_ERROR
    assert np.ptp(exact.astype(int)) > 20


def test_only_codes_that_occur_count() -> None:
    graph = divided(((1, 4, 4, 3), (1, 4, 4, 3)), least=9)
    assert occurring_codes(Context(facts(graph)), graph.tensors["y"]).nonzero()[0].min() == 9
    assert occurring_codes(Context(facts(graph)), graph.tensors["x"]).all()


def test_a_divisor_that_may_be_zero_is_refused() -> None:
    graph = divided(((1, 4, 4, 3), (1, 4, 4, 3)), least=1)
    free = Op("div", "div", ("x", "d"), ("z",), {})
    with pytest.raises(Refusal, match="may be zero"):
        lower_division(free, Context(facts(graph)))


def test_quotients_finer_than_the_reciprocal_are_refused() -> None:
    """The output shows a tenth of the range: ten times the error."""
    graph = divided(((1, 4, 4, 3), (1, 4, 4, 3)), least=9, wide=0.1)
    with pytest.raises(Refusal, match="costs up to"):
        lower_division(graph.ops[1], Context(facts(graph)))
