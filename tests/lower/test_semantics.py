"""The arithmetic that mapped operators are explained with, against fractions; and what the compiler expects of them."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.tables import fit_table
from atonc.compiler.lower.map_ops import map_ops
from atonc.compiler.lower.semantics.arithmetic import limited, shifted, table_codes
from atonc.compiler.lower.semantics.error_model import expected_errors
from atonc.compiler.lower.semantics.run import mapped_op, run_mapped
from atonc.compiler.ops import run_graph
from atonc.machine.hw.stream import finish
from tests.lower.harness import facts
from tests.lower.test_conv import conv_graph


@given(st.integers(-(1 << 40), 1 << 40), st.integers(0, 31))
def test_shifts_round_to_the_nearest_ties_away_from_zero(value: int, shift: int) -> None:
    exact = Fraction(abs(value), 1 << shift)
    wanted = floor(exact + Fraction(1, 2)) * (1 if value >= 0 else -1)
    assert shifted(np.array([value]), shift)[0] == wanted


@given(st.integers(-(1 << 40), 1 << 40), st.integers(0, 31), st.sampled_from([1, 2]))
def test_the_units_do_the_same(value: int, shift: int, size: int) -> None:
    one = np.array([value])
    assert limited(shifted(one, shift), 8 * size)[0] == finish(one, shift, size, True, True)[0]


def test_segments_of_a_table_are_what_the_unit_reads() -> None:
    x = np.arange(-128, 128)
    for wanted in (np.rint(127 * np.tanh(x / 40)), np.rint(x * x / 140 - 30), np.where(x > 3, x, -128)):
        fitted = fit_table(np.clip(wanted, -128, 127).astype(np.int8))
        assert np.array_equal(table_codes(fitted), fitted.codes)


def test_expected_errors_hold_and_are_small_for_a_plain_layer() -> None:
    graph = conv_graph(10, 12, 8, 8)
    mapped = map_ops(facts(graph))
    (layer,) = expected_errors(graph, mapped)
    assert 0 < layer.local < 0.1 and layer.deviation.peak == 1 and not layer.saturates
    codes = np.random.default_rng(0).integers(-128, 128, (1, 10, 12, 8)).astype(np.int8)
    got, wanted = run_mapped(graph, mapped, {"x": codes})["y"], run_graph(graph, {"x": codes})["y"]
    assert np.abs(got.astype(int) - wanted).max() <= 1


def test_real_numbers_move_as_they_are() -> None:
    """A transpose of floats is no requantisation, and 0.75 does not become 0."""
    x, y = Tensor("x", (1, 2, 3), "float32"), Tensor("y", (1, 3, 2), "float32")
    op = Op("transpose", "t", ("x",), ("y",), {"perm": (0, 2, 1)})
    graph = Graph({"x": x, "y": y}, (op,), ("x",), ("y",))
    values = np.array([[[0.75, -1.5, 2.25], [1e-3, 300.5, -0.1]]], np.float32)
    (found,) = mapped_op(Context(facts(graph)), op, {"x": values})
    assert found.dtype == np.float32 and np.array_equal(found, values.transpose(0, 2, 1))
