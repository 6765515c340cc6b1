from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.elementwise.function import function_for
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.arith import affine_of_table
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.ops.registry import evaluate
from tests.lower.harness import activation, graph_of, lower, run

CODES = np.arange(-128, 128)
SCALES = st.floats(0.002, 0.5)
ZERO_POINTS = st.integers(-128, 127)
SHAPES = st.sampled_from([(1, 1, 1, 1), (1, 3, 5, 7), (1, 10), (1, 16, 17, 8), (1, 40, 40, 6)])


def _codes(shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def _table(function, scale_in: float, zero_in: int, scale_out: float, zero_out: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        real = np.nan_to_num(function((CODES - zero_in) * scale_in), nan=0.0, posinf=1e6, neginf=-1e6)
    return np.clip(np.floor(real / scale_out + 0.5) + zero_out, -128, 127).astype(np.int8)


@settings(max_examples=30, deadline=None)
@given(SHAPES, SCALES, ZERO_POINTS, SCALES, ZERO_POINTS, st.tuples(ZERO_POINTS, ZERO_POINTS))
def test_requantisation_is_exact(shape, scale_in, zero_in, scale_out, zero_out, ends) -> None:
    clip = (min(ends), max(ends))
    op = Op("requantize", "r", ("x",), ("y",), {"clip": clip} if sum(clip) % 2 else {})
    graph = graph_of(op, activation("x", shape, scale_in, zero_in), activation("y", shape, scale_out, zero_out))
    x = _codes(shape)
    exact = evaluate(graph, op, [x])[0].codes
    assert np.array_equal(run(graph, {"x": x})["y"], exact)


@settings(max_examples=20, deadline=None)
@given(
    SHAPES,
    st.sampled_from(["logistic", "tanh", "hard_swish", "silu", "mish", "exp", "abs", "softplus", "erf", "square"]),
    SCALES,
    ZERO_POINTS,
    ZERO_POINTS,
)
def test_functions_run_as_tables(shape, name, scale, zero_in, zero_out) -> None:
    reach = np.abs(FUNCTIONS[name]((CODES - zero_in) * scale)).max()
    table = _table(FUNCTIONS[name], scale, zero_in, max(float(reach), 1e-6) / 127, zero_out)
    op = Op("table", "t", ("x",), ("y",), {"table": table})
    graph = graph_of(op, activation("x", shape, scale, zero_in), activation("y", shape, 0.1, zero_out))
    x = _codes(shape)
    got = run(graph, {"x": x})["y"]
    found = function_for(table)
    assert np.array_equal(got, found.codes[x.astype(int) + 128])
    assert np.abs(got.astype(int) - table[x.astype(int) + 128]).max() <= min(2, found.error)


@pytest.mark.parametrize("low, high, units", [(-128, 127, 1), (-10, 127, 1), (-20, 90, 1)])
def test_clips_need_no_table(low: int, high: int, units: int) -> None:
    table = np.clip(CODES, low, high).astype(np.int8)
    found = function_for(table)
    assert [unit.KIND for unit in found.units] == ["ARITH"] * units
    assert found.error == 0


@pytest.mark.parametrize("gain, offset, low, high", [(0.3, -128, -128, 127), (2.5, 11, -60, 127), (-0.7, 3, -128, 40)])
def test_lines_with_clips_run_on_arith_units(gain: float, offset: float, low: int, high: int) -> None:
    table = np.clip(np.floor(gain * CODES + offset + 0.5), low, high).astype(np.int8)
    found = function_for(table)
    assert {unit.KIND for unit in found.units} == {"ARITH"}
    assert affine_of_table(table, (int(table.min()), int(table.max()))) is not None


def test_a_function_that_no_table_holds_is_refused() -> None:
    table = np.random.default_rng(3).integers(-128, 128, 256).astype(np.int8)
    op = Op("table", "t", ("x",), ("y",), {"table": table})
    with pytest.raises(Refusal, match="TABLE-ERROR"):
        lower(graph_of(op, activation("x", (1, 4)), activation("y", (1, 4))))


def test_long_tensors_run_in_parallel_parts() -> None:
    table = _table(FUNCTIONS["logistic"], 0.05, 0, 1 / 256, -128)
    op = Op("table", "t", ("x",), ("y",), {"table": table})
    (plan,), _ = lower(graph_of(op, activation("x", (1, 64, 64, 9)), activation("y", (1, 64, 64, 9))))
    assert sum(name.startswith("ACTIV") for name in plan.units) == 2


@pytest.mark.parametrize(
    "kind, source, target", [("uint8_to_int8", "uint8", "int8"), ("int8_to_uint8", "int8", "uint8")]
)
def test_edges_flip_the_highest_bit(kind: str, source: str, target: str) -> None:
    x, y = activation("x", (1, 70, 70, 3)), activation("y", (1, 70, 70, 3))
    graph = graph_of(
        Op(kind, "e", ("x",), ("y",)), *(Tensor(t.name, t.shape, d, t.quant) for t, d in ((x, source), (y, target)))
    )
    codes = _codes((1, 70, 70, 3)).view(source)
    assert np.array_equal(run(graph, {"x": codes})["y"].view(np.uint8), codes.view(np.uint8) ^ 0x80)
