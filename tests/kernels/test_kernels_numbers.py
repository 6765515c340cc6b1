"""Number formats, functions of one value, softmax, arg max: C, emulator and exact arithmetic byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ops.functions import FUNCTIONS, RANGES
from atonc.machine.base.errors import UnsupportedError
from tests.kernels.three_ways import one_op, random_values, same_three_ways, tensor

quick = settings(max_examples=60, deadline=None)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SCALES = st.sampled_from([1.0, 1 / 256, 0.0235, 1e-30, 1e30, 3.7e-9, 123.456])
SHAPES = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)


def zero_of(dtype: str, pick: int) -> int:
    limits = np.iinfo(dtype)
    return {0: 0, 1: int(limits.min), 2: int(limits.max)}.get(pick, 3)


@quick
@given(
    st.sampled_from(INTEGERS), st.sampled_from(INTEGERS), SCALES, SCALES, st.integers(0, 3), SHAPES, st.integers(0, 9)
)
def test_requantize(a: str, b: str, first: float, second: float, pick: int, shape: Any, seed: int) -> None:
    x, y = tensor("x", shape, a, first, zero_of(a, pick)), tensor("y", shape, b, second, zero_of(b, 3 - pick))
    graph, op = one_op("requantize", [x], [y])
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x)})


@quick
@given(
    st.sampled_from(INTEGERS),
    SCALES,
    st.integers(0, 3),
    st.integers(0, 99),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(["twice", "to even"]),
)
def test_quantize_whatever_comes(dtype: str, scale: float, pick: int, seed: int, source: str, rounded: str) -> None:
    x, y = tensor("x", (3, 17), source), tensor("y", (3, 17), dtype, scale, zero_of(dtype, pick))
    graph, op = one_op("quantize", [x], [y], rounded=rounded)
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x, hostile=True)})


def test_not_a_number_is_the_zero_point() -> None:
    x, y = tensor("x", (4,), "float32"), tensor("y", (4,), "int8", 0.5, -7)
    graph, op = one_op("quantize", [x], [y])
    same_three_ways(graph, op, {"x": np.array([np.nan, np.inf, -np.inf, 0.25], np.float32)})


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("rounded", ["twice", "to even"])
@pytest.mark.parametrize("scale", [1 / 255, 0.0078431372, 0.3, 1e-29, 1e-31, 3e30, 7.0])
def test_quantize_at_and_beside_the_ties(dtype: str, scale: float, rounded: str) -> None:
    """The fast way decides by single precision and must know when it cannot."""
    x, y = tensor("x", (3000,), "float32"), tensor("y", (3000,), dtype, scale, 5)
    rng = np.random.default_rng(4)
    steps = rng.integers(-300, 301, 3000) + 0.5
    apart = rng.choice([0.0, 1e-7, -1e-7, 1e-5, -1e-5, 1e-3, -1e-3, 0.5, 1e4], 3000)
    graph, op = one_op("quantize", [x], [y], rounded=rounded)
    same_three_ways(graph, op, {"x": ((steps + apart) * scale).astype(np.float32)})


IN_C = sorted(kind for kind, row in FUNCTIONS.items() if row.c_number is not None)
ATTRS = {"alpha": 0.3, "beta": 0.4}  # unlike all defaults


def attrs_of(kind: str) -> dict[str, float]:
    return {key: ATTRS[key] for key in FUNCTIONS[kind].attrs}


@pytest.mark.parametrize("kind", IN_C)
def test_functions_over_their_whole_range(kind: str) -> None:
    """In double precision every rounding shows."""
    fine = np.linspace(-4, 4, 801)
    limits = np.array([709.78, 709.782712893384, 709.79, -745.0, -745.1, -745.13, -745.2, -745.3, -708.4, 36.7, -36.7])
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-310, 1.7e308, 0.5, 1.5, 2.5, -0.5, -1.5, 1.0])
    small = 10.0 ** np.arange(-320, 309, 3.7)
    values = np.concatenate(
        [fine, limits, special, small, -small, np.sqrt([0.5, 2]), [0.34, -0.34, 0.9162907318741551]]
    )
    x, y = tensor("x", values.shape, "float64"), tensor("y", values.shape, "float64")
    if kind == "gelu":
        same_three_ways(*one_op(kind, [x], [y], approximate=True), {"x": values})
    same_three_ways(*one_op(kind, [x], [y], **attrs_of(kind)), {"x": values})


@quick
@given(st.sampled_from((*INTEGERS, "int64", "bool")), SCALES, st.integers(0, 3), st.integers(0, 99))
def test_dequantize(dtype: str, scale: float, pick: int, seed: int) -> None:
    x = tensor("x", (2, 33), dtype) if dtype == "bool" else tensor("x", (2, 33), dtype, scale, zero_of(dtype, pick))
    graph, op = one_op("dequantize", [x], [tensor("y", (2, 33), "float32")])
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x)})


@quick
@given(
    st.sampled_from(["float32", "float64", "int16", "int8", "int32"]),
    st.sampled_from(["float32", "float64", "int8", "int16"]),
    st.sampled_from(IN_C),
    st.integers(0, 99),
)
def test_functions(source: str, target: str, kind: str, seed: int) -> None:
    x = tensor("x", (5, 13), source, *(() if source.startswith("float") else (0.037, 2)))
    y = tensor("y", (5, 13), target, *(() if target.startswith("float") else (0.011, -5)))
    graph, op = one_op(kind, [x], [y], **attrs_of(kind))
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x, hostile=True)})


@pytest.mark.parametrize("kind", [*RANGES, "clip"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int16"])
def test_limits(kind: str, dtype: str) -> None:
    quant = () if dtype == "float32" else (0.037, 2)
    x, y = tensor("x", (200,), dtype, *quant), tensor("y", (200,), dtype, *quant)
    graph, op = one_op(kind, [x], [y], **({"low": -0.5, "high": 1.5} if kind == "clip" else {}))
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(1), x, hostile=True)})


@quick
@given(
    st.sampled_from((*INTEGERS, "float32", "bool", "int64")),
    st.sampled_from((*INTEGERS, "float32", "bool", "int64")),
    st.integers(0, 99),
)
def test_cast(source: str, target: str, seed: int) -> None:
    x = tensor("x", (64,), source)
    graph, op = one_op("cast", [x], [tensor("y", (64,), target)])
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x, hostile=True)})


@quick
@given(
    st.sampled_from(["int8", "uint8", "int16", "float32"]),
    st.sampled_from(["int8", "uint8", "int16", "float32", "float64"]),
    st.integers(0, 2),
    st.sampled_from([0.05, 1.0, 1e-9, 30.0]),
    st.sampled_from([1.0, 0.7]),
    st.booleans(),
    st.integers(0, 99),
)
def test_softmax(a: str, b: str, axis: int, scale: float, beta: float, log: bool, seed: int) -> None:
    shape = (3, 7, 11)
    x = tensor("x", shape, a, *(() if a == "float32" else (scale, 4)))
    y = tensor("y", shape, b, *(() if b.startswith("float") else (1 / 256, -128 if b == "int8" else 0)))
    graph, op = one_op("log_softmax" if log else "softmax", [x], [y], axis=axis, beta=beta)
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x, hostile=seed % 2 == 0)})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_dequantize_many(dtype: str) -> None:
    x = tensor("x", (5, 1000), dtype, 0.0123, 7)
    graph, op = one_op("dequantize", [x], [tensor("y", (5, 1000), "float32")])
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(0), x)})


def test_softmax_of_a_thousand() -> None:
    x, y = tensor("x", (1, 1001), "int8", 0.1308, -32), tensor("y", (1, 1001), "int8", 1 / 256, -128)
    graph, op = one_op("softmax", [x], [y], axis=1, beta=1.0)
    for seed in range(5):
        same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x)})


@pytest.mark.parametrize(("source", "target"), [("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")])
@pytest.mark.parametrize("scale", [1 / 256, 0.0039215688593685627, 0.002])
def test_softmax_of_many_pairs(source: str, target: str, scale: float) -> None:
    """By a table from 512 rows on: nearly every difference of two codes, in both orders."""
    rows = np.array([(a, b) for a in range(0, 256, 3) for b in (0, 17, 100, 254, 255)] * 2)
    rows[len(rows) // 2 :] = rows[len(rows) // 2 :, ::-1]
    x = tensor("x", rows.shape, source, 0.0731, 3)
    y = tensor("y", rows.shape, target, scale, -128 if target == "int8" else 0)
    graph, op = one_op("softmax", [x], [y], axis=1, beta=1.0)
    assert len(rows) >= 512
    same_three_ways(graph, op, {"x": (rows - (128 if source == "int8" else 0)).astype(source)})


@quick
@given(
    st.sampled_from((*INTEGERS, "float32")),
    st.sampled_from(["int32", "int64"]),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 99),
)
def test_arg_extreme(source: str, target: str, axis: int, smallest: bool, seed: int) -> None:
    shape = (4, 5, 6)
    x = tensor("x", shape, source)
    out = tuple(n for k, n in enumerate(shape) if k != axis)
    graph, op = one_op("arg_min" if smallest else "arg_max", [x], [tensor("y", out, target)], axis=axis)
    values = random_values(np.random.default_rng(seed), x, hostile=True)
    same_three_ways(graph, op, {"x": values if source == "float32" else values // 3 * 3})


@pytest.mark.parametrize("kind", ["gelu", "sin", "cos", "pow"])
def test_functions_of_bytes_only(kind: str) -> None:
    x = tensor("x", (300,), "uint8", 0.03, 100)
    power = [tensor("p", (1, 1), "float32", data=np.full((1, 1), 3.0, np.float32))] if kind == "pow" else []
    graph, op = one_op(kind, [x, *power], [tensor("y", (1, 300) if power else (300,), "int8", 0.05, 3)])
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(1), x)})


@pytest.mark.parametrize("target", [*INTEGERS, "int64", "uint64"])
def test_casts_saturate(target: str) -> None:
    values = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 9.3e18, -9.3e18, 2.0**63, 1.9e19, -1.9, 1.9], np.float32)
    x, y = tensor("x", values.shape, "float32"), tensor("y", values.shape, target)
    same_three_ways(*one_op("cast", [x], [y]), {"x": values})


@pytest.mark.parametrize("kind", ["arg_max", "arg_min"])
def test_the_first_nan_is_the_extreme(kind: str) -> None:
    x, y = tensor("x", (2, 6), "float32"), tensor("y", (2,), "int32")
    values = np.array([[1, np.nan, 3, np.nan, np.inf, 2], [np.nan, 1, np.nan, 5, -np.inf, 0]], np.float32)
    same_three_ways(*one_op(kind, [x], [y], axis=1), {"x": values})


def test_a_constant_input() -> None:
    data = np.arange(-60, 60, dtype=np.int8).reshape(4, 30)
    x, y = tensor("x", (4, 30), "int8", 0.5, 3, data=data), tensor("y", (4, 30), "float32")
    same_three_ways(*one_op("dequantize", [x], [y]), {})


@pytest.mark.parametrize("kind", ["batch_norm", "range", "einsum"])
def test_kinds_without_a_kernel_name_node_and_kind(kind: str) -> None:
    x, y = tensor("x", (4,), "float32"), tensor("y", (4,), "float32")
    graph, op = one_op(kind, [x, x], [y])
    with pytest.raises(UnsupportedError, match=kind):
        same_three_ways_calls(graph, op)


def same_three_ways_calls(graph: Any, op: Any) -> None:
    from atonc.compiler.emit.c.cpu_calls import cpu_calls

    cpu_calls(op, graph)
