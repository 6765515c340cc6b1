"""Kernels against slow, obvious loops in exact fractions, and the one rounding at the end."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import evaluate, kinds, run_graph
from atonc.compiler.ops.rounding import round_half_away
from atonc.compiler.ops.shapes import broadcast, infer_shape
from atonc.compiler.ops.values import finish
from atonc.machine.base.errors import InputError, ModelError, UnsupportedError


def half_away(value: Fraction) -> int:
    return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


def codes(value: Fraction, scale: float, zero: int) -> int:
    return max(-128, min(127, half_away(value / Fraction(scale) + zero)))


def int8(name: str, shape: tuple[int, ...], scale: float, zero: int = 0, data: Any = None) -> Tensor:
    return Tensor(name, shape, "int8", Quantisation.per_tensor(scale, zero), data)


def run_one(op: Op, tensors: list[Tensor], values: dict[str, Any]) -> Any:
    graph = Graph({t.name: t for t in tensors}, (op,), (), op.outputs)
    given_values = [values.get(name, graph.tensors[name].data if name else None) for name in op.inputs]
    return evaluate(graph, op, given_values)


@given(st.floats(-1e6, 1e6, allow_nan=False))
def test_rounding(value: float) -> None:
    assert round_half_away(np.array([value]))[0] == half_away(Fraction(value)) or abs(value % 1 - 0.5) < 1e-9


def test_ties_go_away_from_zero() -> None:
    np.testing.assert_array_equal(round_half_away(np.array([0.5, 1.5, -0.5, -1.5, 2.49])), [1, 2, -1, -2, 2])


def test_results_are_clipped_and_keep_the_real_value() -> None:
    result = finish(np.array([100.0, -100.0, 0.26]), int8("y", (3,), 0.5, 3))
    np.testing.assert_array_equal(result.codes, [127, -128, 4])
    np.testing.assert_allclose(result.exact, [203, -197, 3.52])


SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))


@settings(max_examples=60, deadline=None)
@given(
    SHAPES,
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(*[st.integers(0, 2)] * 4),
    st.sampled_from(["plain", "depthwise", "grouped"]),
    st.sampled_from(["NHWC", "NCHW"]),
    st.integers(0, 1000),
)
def test_convolution(
    shape: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    kind: str,
    layout: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    height, width, channels = shape
    channels = channels * 2 if kind == "grouped" else channels
    groups = {"plain": 1, "depthwise": channels, "grouped": 2}[kind]
    outputs = groups * 2
    rows = (height + padding[0] + padding[2] - kernel[0]) // stride[0] + 1
    columns = (width + padding[1] + padding[3] - kernel[1]) // stride[1] + 1
    if rows < 1 or columns < 1:
        return
    x = rng.integers(-128, 128, (1, height, width, channels)).astype(np.int8)
    w = rng.integers(-127, 128, (outputs, *kernel, channels // groups)).astype(np.int8)
    b = rng.integers(-3000, 3000, outputs).astype(np.int32)
    scales = rng.uniform(0.002, 0.02, outputs)
    expected = np.empty((1, rows, columns, outputs), np.int64)
    for i, j, o in np.ndindex(rows, columns, outputs):
        acc = int(b[o])
        first = o // (outputs // groups) * (channels // groups)
        for u, v, c in np.ndindex(*kernel, channels // groups):
            y0, x0 = i * stride[0] + u - padding[0], j * stride[1] + v - padding[1]
            if 0 <= y0 < height and 0 <= x0 < width:
                acc += (int(x[0, y0, x0, first + c]) + 5) * int(w[o, u, v, c])
        expected[0, i, j, o] = codes(acc * Fraction(0.03) * Fraction(float(scales[o])), 0.25, 9)
    value = x if layout == "NHWC" else x.transpose(0, 3, 1, 2)
    target = expected if layout == "NHWC" else expected.transpose(0, 3, 1, 2)
    tensors = [
        int8("x", value.shape, 0.03, -5),
        Tensor("w", w.shape, "int8", Quantisation(scales, np.zeros(outputs, np.int64), 0), w),
        Tensor("b", b.shape, "int32", None, b),
        int8("y", target.shape, 0.25, 9),
    ]
    attrs = {"stride": stride, "padding": padding, "groups": groups, "layout": layout}
    op = Op("conv", "c", ("x", "w", "b"), ("y",), attrs)
    result = run_one(op, tensors, {"x": value})[0]
    assert np.abs(result.codes.astype(int) - target).max() <= (0 if not _near_tie(result.exact) else 1)
    assert infer_shape("conv", attrs, [value.shape, w.shape, b.shape]) == target.shape


def _near_tie(exact: Any) -> bool:
    return bool(np.any(np.abs(exact % 1 - 0.5) < 1e-9))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["add", "sub", "mul"]), st.integers(-100, 100), st.integers(0, 1000))
def test_arithmetic(kind: str, zero: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-128, 128, (3, 5)).astype(np.int8) for _ in range(2))
    tensors = [int8("a", a.shape, 0.021, zero), int8("b", b.shape, 0.034, 7), int8("y", a.shape, 0.05, -4)]
    result = run_one(Op(kind, "o", ("a", "b"), ("y",)), tensors, {"a": a, "b": b})[0]
    for index in np.ndindex(a.shape):
        left, right = Fraction(0.021) * (int(a[index]) - zero), Fraction(0.034) * (int(b[index]) - 7)
        exact = {"add": left + right, "sub": left - right, "mul": left * right}[kind]
        assert abs(int(result.codes[index]) - codes(exact, 0.05, -4)) <= (1 if _near_tie(result.exact[index]) else 0)


def test_average_pool_counts_only_real_pixels() -> None:
    x = np.arange(9, dtype=np.int8).reshape(1, 3, 3, 1)
    attrs = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 1, 1), "layout": "NHWC"}
    tensors = [int8("x", x.shape, 1.0), Tensor("y", (1, 2, 2, 1), "float32")]
    op = Op("average_pool", "p", ("x",), ("y",), attrs)
    np.testing.assert_allclose(run_one(op, tensors, {"x": x})[0].codes.reshape(-1), [2, 3.5, 6.5, 8])
    padded = Op("average_pool", "p", ("x",), ("y",), {**attrs, "count_include_pad": True})
    np.testing.assert_allclose(run_one(padded, tensors, {"x": x})[0].codes.reshape(-1), [2, 1.75, 3.25, 2])


def test_silu_gelu_and_clip() -> None:
    x = np.arange(-128, 128).astype(np.int8)
    tensors = [int8("x", x.shape, 0.05), Tensor("y", x.shape, "float32")]
    real = x * 0.05
    silu = run_one(Op("silu", "s", ("x",), ("y",)), tensors, {"x": x})[0].codes
    np.testing.assert_allclose(silu, real / (1 + np.exp(-real)), atol=1e-12)
    exact = run_one(Op("gelu", "g", ("x",), ("y",)), tensors, {"x": x})[0].codes
    rough = run_one(Op("gelu", "g", ("x",), ("y",), {"approximate": True}), tensors, {"x": x})[0].codes
    np.testing.assert_allclose(exact, rough, atol=2e-3)
    clipped = run_one(Op("clip", "c", ("x",), ("y",), {"low": -1.0, "high": 2.0}), tensors, {"x": x})[0].codes
    assert clipped.min() == -1.0
    assert clipped.max() == 2.0


def test_movers_keep_codes_and_requantise_when_formats_differ() -> None:
    x = np.arange(-6, 6, dtype=np.int8).reshape(1, 3, 4)
    same = [int8("x", x.shape, 0.5, 2), int8("y", (4, 3, 1), 0.5, 2)]
    op = Op("transpose", "t", ("x",), ("y",), {"perm": (2, 1, 0)})
    result = run_one(op, same, {"x": x})[0]
    np.testing.assert_array_equal(result.codes, x.transpose(2, 1, 0))
    other = [int8("x", x.shape, 0.5, 2), int8("y", (4, 3, 1), 0.25, 0)]
    np.testing.assert_array_equal(run_one(op, other, {"x": x})[0].codes, (x.transpose(2, 1, 0) - 2) * 2)


def test_pad_fills_with_the_code_of_zero() -> None:
    x = np.full((1, 2), 9, np.int8)
    tensors = [int8("x", (1, 2), 0.5, 3), int8("y", (1, 5), 0.5, 3)]
    op = Op("pad", "p", ("x",), ("y",), {"pads": ((0, 0), (1, 2))})
    np.testing.assert_array_equal(run_one(op, tensors, {"x": x})[0].codes, [[3, 9, 9, 3, 3]])


def test_run_graph_reports_what_is_wrong() -> None:
    x, y = int8("x", (1, 4), 0.5), int8("y", (1, 5), 0.5)
    graph = Graph({"x": x, "y": y}, (Op("reshape", "r", ("x",), ("y",)),), ("x",), ("y",))
    with pytest.raises(InputError, match="no value"):
        run_graph(graph, {})
    with pytest.raises(InputError, match="shape"):
        run_graph(graph, {"x": np.zeros((2, 2), np.int8)})
    with pytest.raises(ModelError, match="cannot be computed"):
        run_graph(graph, {"x": np.zeros((1, 4), np.int8)})
    strange = Graph({"x": x, "y": y}, (Op("hologram", "l", ("x",), ("y",)),), ("x",), ("y",))
    with pytest.raises(UnsupportedError, match="hologram"):
        run_graph(strange, {"x": np.zeros((1, 4), np.int8)})


def test_shape_rules() -> None:
    assert broadcast([(3, 1), (1, 4), ()]) == (3, 4)
    with pytest.raises(ModelError):
        broadcast([(3,), (4,)])
    assert infer_shape("concat", {"axis": 1}, [(1, 2, 3), (1, 5, 3)]) == (1, 7, 3)
    assert infer_shape("matmul", {"transpose_b": True}, [(2, 3, 4), (5, 4)]) == (2, 3, 5)
    assert infer_shape("reshape", {}, [(1,)]) is None
    assert "conv" in kinds()
