"""TFLite's two roundings: the formula in integers, and its reference kernels on the bundled model, value for value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compare.reference import run_tflite
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import evaluate
from atonc.compiler.ops.rounding import Rounding, lift, rounding_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"


def by_multiplier(value: int, factor: float) -> int:
    """The kernels' own way: 31 bits of the multiplier, then a shift to the right."""
    mantissa, exponent = np.frexp(factor)
    product = value * round(float(mantissa) * (1 << 31)) * (1 << max(0, int(exponent)))
    high = (product + (1 << 30)) >> 31
    shift = max(0, -int(exponent))
    half = (1 << shift) >> 1
    return (high + half) >> shift if high >= 0 else -((-high + half) >> shift)


@pytest.mark.parametrize("factor", [0.75, 0.11, 0.013, 0.0009, 0.5, 0.25, 1.6875, 2.0**-7])
@pytest.mark.parametrize("zero", [-128, 0, 33])
def test_products_are_rounded_as_the_kernels_do(factor: float, zero: int) -> None:
    quant = Quantisation.per_tensor(1.0, 0)
    x = Tensor("x", (1, 1, 256, 1), "int8", quant)
    y = Tensor("y", (1, 1, 1, 1), "int8", quant, np.full((1, 1, 1, 1), 3))
    out = Tensor("out", x.shape, "int8", Quantisation.per_tensor(1.0 / factor, zero))
    op = Op("mul", "mul", ("x", "y"), ("out",), {"rounded": "twice"})
    codes = np.arange(-128, 128).reshape(x.shape)
    result = evaluate(Graph({t.name: t for t in (x, y, out)}, (op,), ("x",), ("out",)), op, [codes, y.data])[0]
    wanted = [np.clip(by_multiplier(3 * int(v), factor) + zero, -128, 127) for v in codes.reshape(-1)]
    assert result.codes.reshape(-1).tolist() == wanted


def test_one_rounding_with_a_lift_is_the_same_where_results_are_not_negative() -> None:
    out = Tensor("out", (1,), "int8", Quantisation.per_tensor(1.0, -128))
    twice = Rounding(np.array([4.0]))
    steps = np.random.default_rng(3).uniform(0, 250, 20_000)
    assert (twice(steps) != np.floor(steps + 0.5)).any()
    assert (twice(steps) == np.floor(steps + lift(twice, out, None) + 0.5)).all()


def test_no_lift_where_results_lie_on_both_sides() -> None:
    out = Tensor("out", (1,), "int8", Quantisation.per_tensor(1.0, 5))
    twice = Rounding(np.array([4.0]))
    assert lift(twice, out, None) == 0
    assert lift(twice, out, (5, 127)) > 0 > lift(twice, out, (-128, 5))
    assert lift(Rounding(), out, (5, 127)) == 0


def test_halves_of_averages_go_away_from_code_zero() -> None:
    quant = Quantisation.per_tensor(0.5, -100)
    x, out = Tensor("x", (1, 2, 2, 1), "int8", quant), Tensor("out", (1, 1, 1, 1), "int8", quant)
    rounding = rounding_of(Op("average_pool", "pool", ("x",), ("out",), {"rounded": "as codes"}), [x], out)
    assert (rounding(np.array([90.5, 100.5, 110.5])) - 100).tolist() == [-10, 1, 11]


@pytest.mark.parametrize("seed", range(3))
def test_the_bundled_model_equals_the_reference_kernels(seed: int) -> None:
    pytest.importorskip("ai_edge_litert")
    graph = read(DIGITS)
    inputs = make_inputs(graph, seed)
    reference = run_tflite(DIGITS, inputs, "reference", all_tensors=True)
    for op in graph.ops:
        values = [graph.tensors[n].data if graph.tensors[n].data is not None else reference[n] for n in op.inputs]
        got = evaluate(graph, op, values)[0].codes
        np.testing.assert_array_equal(got, reference[op.outputs[0]], op.name)


def test_codes_that_were_shifted_from_uint8_are_rounded_as_before() -> None:
    quant = Quantisation.per_tensor(0.5, -28)
    x, out = Tensor("x", (1, 2, 2, 1), "int8", quant), Tensor("out", (1, 1, 1, 1), "int8", quant)
    rounding = rounding_of(Op("average_pool", "pool", ("x",), ("out",), {"rounded": "as uint8"}), [x], out)
    assert (rounding(np.array([-90.5, -0.5, 20.5])) - 28).tolist() == [-118, -28, -7]  # 9.5, 99.5, 120.5 before
