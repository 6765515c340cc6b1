"""Operators that round as TFLite does, twice or away from code zero: C, emulator and exact arithmetic byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.emit.c.calls import ConstantTable, CpuCall, Struct
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import evaluate
from tests.kernels.three_ways import one_op, random_values, same_three_ways, tensor

quick = settings(max_examples=60, deadline=None)
TWICE, AS_CODES, IN_INTEGERS = ({"rounded": how} for how in ("twice", "as codes", "in integers"))
BYTES = st.sampled_from(["int8", "uint8"])
PICTURE = {"stride": (1, 1), "padding": (1, 1, 1, 1), "layout": "NHWC"}
SCALES = st.sampled_from([0.5, 0.75, 1.0, 2.0**-7, 0.11, 0.0131, 3e-4, 3.3, 1e-30, 40.0])
STORED = st.sampled_from([{}, {"y": 128}, {"x": 128}, {"x": 128, "y": 128}])


def zero_of(dtype: str, pick: int) -> int:
    return (-128, 0, 5, 127, -37)[pick] + (128 if dtype == "uint8" else 0)


def member(calls: tuple[CpuCall, ...], name: str) -> Any:
    """A member of the output's format."""
    struct = calls[0].arguments[1]
    assert isinstance(struct, Struct)
    return dict(struct.members).get(name)


def differs_from_once(graph: Graph, op: Op, values: dict[str, Any]) -> bool:
    """Whether the attribute decided about any of the results."""
    once = replace(op, attrs={key: value for key, value in op.attrs.items() if key != "rounded"})
    known = [values[name] if name in values else graph.tensors[name].data for name in op.inputs]
    return not np.array_equal(*(evaluate(graph, each, known)[0].codes for each in (op, once)))


def shifts(graph: Graph, stored: dict[str, int]) -> dict[str, int]:
    return {name: shift for name, shift in stored.items() if graph.tensors[name].dtype == "int8"}


@quick
@given(
    st.sampled_from(["conv", "transpose_conv"]), BYTES, BYTES, SCALES, STORED, st.integers(0, 4), st.integers(0, 999)
)
def test_sums_of_products(kind: str, a: str, b: str, scale: float, stored: Any, pick: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    outputs, groups = 5, 1 if kind == "transpose_conv" or seed % 2 else 5
    scales = scale * 2.0 ** rng.integers(-9, 2, outputs) * rng.choice([1.0, 0.7], outputs)
    shape = (outputs, 3, 3, 5 // groups)
    w = Tensor("w", shape, "int8", Quantisation(scales, np.zeros(outputs, np.int64), 0))
    w = replace(w, data=rng.integers(-3, 4, shape).astype(np.int8))
    bias = tensor("b", (outputs,), "int32", data=rng.integers(-200, 200, outputs).astype(np.int32))
    x = tensor("x", (1, 6, 5, 5), a, 1.0, zero_of(a, pick))
    y = tensor("y", (1, 6, 5, 5), b, scale, zero_of(b, 4 - pick))
    graph, op = one_op(kind, [x, w, bias], [y], groups=groups, **PICTURE, **TWICE)
    calls = same_three_ways(graph, op, {"x": random_values(rng, x)}, shifts(graph, stored))
    _, exponents = np.frexp(scales / scale * (1 + 1e-12))
    assert member(calls, "first_bits").values == tuple(np.maximum(0, -exponents).tolist())


@quick
@given(BYTES, BYTES, BYTES, SCALES, SCALES, STORED, st.integers(0, 4), st.integers(0, 999))
def test_products(a: str, b: str, c: str, first: float, second: float, stored: Any, pick: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = tensor("x", (40, 7), a, first, zero_of(a, pick)), tensor("y", (40, 7), c, second, zero_of(c, 4 - pick))
    other = tensor("o", (1, 7) if seed % 2 else (40, 7), b, 0.25, zero_of(b, seed % 5))
    graph, op = one_op("mul", [x, other], [y], **TWICE)
    calls = same_three_ways(graph, op, {n: random_values(rng, graph.tensors[n]) for n in "xo"}, shifts(graph, stored))
    assert len(member(calls, "first_bits").values) == 1


@quick
@given(BYTES, BYTES, SCALES, STORED, st.integers(0, 4), st.integers(1, 5), st.integers(1, 9), st.integers(0, 999))
def test_means(a: str, b: str, scale: float, stored: Any, pick: int, height: int, width: int, seed: int) -> None:
    x = tensor("x", (2, height, width, 20), a, 0.5, zero_of(a, pick))
    y = tensor("y", (2, 20), b, scale, zero_of(b, 4 - pick))
    graph, op = one_op("mean", [x], [y], axes=(1, 2), **TWICE)
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x)}, shifts(graph, stored))


@quick
@given(BYTES, STORED, st.integers(0, 4), st.booleans(), st.integers(0, 999))
def test_averages(dtype: str, stored: Any, pick: int, include: bool, seed: int) -> None:
    """Windows that see padding only are among them: their average is the zero point."""
    zero = zero_of(dtype, pick)
    x, y = tensor("x", (1, 6, 6, 3), dtype, 0.1, zero), tensor("y", (1, 7, 7, 3), dtype, 0.1, zero)
    attrs = {**PICTURE, "window": (2, 2), "count_include_pad": include, **AS_CODES}
    graph, op = one_op("average_pool", [x], [y], **attrs)
    calls = same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x)}, shifts(graph, stored))
    assert (member(calls, "middle") or 0) == -zero
    far = replace(graph, tensors={**graph.tensors, "y": replace(y, shape=(1, 11, 11, 3))})
    op = replace(op, attrs={**attrs, "padding": (3, 3, 3, 3)})
    same_three_ways(far, op, {"x": random_values(np.random.default_rng(seed), x)}, shifts(graph, stored))


@quick
@given(STORED, st.integers(0, 4), st.integers(0, 999))
def test_averages_of_codes_that_were_uint8(stored: Any, pick: int, seed: int) -> None:
    zero = zero_of("int8", pick)
    x, y = tensor("x", (1, 6, 6, 3), "int8", 0.1, zero), tensor("y", (1, 7, 7, 3), "int8", 0.1, zero)
    graph, op = one_op("average_pool", [x], [y], **PICTURE, window=(2, 2), rounded="as uint8")
    calls = same_three_ways(graph, op, {"x": random_values(np.random.default_rng(seed), x)}, stored)
    assert (member(calls, "middle") or 0) == -zero - 128


@quick
@given(BYTES, STORED, st.integers(0, 4), st.sampled_from(["half_pixel", "asymmetric", "align_corners"]))
def test_resized_pictures(dtype: str, stored: Any, pick: int, coordinates: str) -> None:
    zero = zero_of(dtype, pick)
    x, y = tensor("x", (1, 5, 4, 3), dtype, 0.2, zero), tensor("y", (1, 10, 8, 3), dtype, 0.2, zero)
    graph, op = one_op("resize_linear", [x], [y], coordinates=coordinates, **AS_CODES)
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(pick), x)}, shifts(graph, stored))


@quick
@given(BYTES, BYTES, BYTES, SCALES, SCALES, STORED, st.integers(0, 4), st.integers(0, 999))
def test_slopes(a: str, b: str, c: str, first: float, second: float, stored: Any, pick: int, seed: int) -> None:
    """A multiplier for each side of zero; slopes of both signs, constant or not."""
    rng = np.random.default_rng(seed)
    x, y = tensor("x", (1, 9, 9, 6), a, first, zero_of(a, pick)), tensor("y", (1, 9, 9, 6), c, second, zero_of(c, pick))
    slope = tensor("s", (1, 1, 6), b, 0.0113, zero_of(b, seed % 5))
    values = {"x": random_values(rng, x), "s": random_values(rng, slope)}
    if seed % 2:
        slope = replace(slope, data=values.pop("s"))
    graph, op = one_op("prelu", [x, slope], [y], **IN_INTEGERS)
    if min(first / second, first * 0.0113 / second) < 1e-38:
        return  # single precision has no such multiplier
    calls = same_three_ways(graph, op, values, shifts(graph, stored))
    assert len(member(calls, "first_bits").values) == 2


@pytest.mark.parametrize("attrs", [{}, {"clip": (-20, 100)}])
def test_slopes_of_all_codes(attrs: Any) -> None:
    x, y = tensor("x", (256, 256), "int8", 0.25, -7), tensor("y", (256, 256), "int8", 0.37, 11)
    slope = tensor("s", (256,), "int8", 0.0113, 3, data=np.arange(-128, 128, dtype=np.int8))
    graph, op = one_op("prelu", [x, slope], [y], **IN_INTEGERS, **attrs)
    values = {"x": np.repeat(np.arange(-128, 128, dtype=np.int8), 256).reshape(256, 256)}
    same_three_ways(graph, op, values)
    assert differs_from_once(graph, op, values)


@pytest.mark.parametrize("kind", ["relu", "relu6", "relu_n1_to_1", "abs", "leaky_relu", "hard_swish", "log"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
def test_functions_in_integers(kind: str, dtype: str) -> None:
    quant = () if dtype == "float32" else (0.031, 9)
    x, y = tensor("x", (256,), dtype, *quant), tensor("y", (256,), dtype, *quant and (0.043, 20))
    attrs = {"alpha": 0.13} if kind == "leaky_relu" else {}
    graph, op = one_op(kind, [x], [y], **attrs, **IN_INTEGERS)
    values = {"x": (np.arange(256) - (128 if dtype == "int8" else 0)).astype(dtype)}
    same_three_ways(graph, op, values)
    assert dtype in ("int8", "uint8") or not differs_from_once(graph, op, values)


@quick
@given(BYTES, BYTES, SCALES, STORED, st.booleans(), st.integers(0, 999))
def test_matrix_products(a: str, b: str, scale: float, stored: Any, flip: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = tensor("x", (2, 5, 7), a, scale, zero_of(a, seed % 5)), tensor("y", (2, 5, 4), b, scale * 20, zero_of(b, 2))
    right = tensor("r", (2, 4, 7) if flip else (2, 7, 4), a, 0.3, 1)
    graph, op = one_op("matmul", [x, right], [y], transpose_b=flip, **TWICE)
    same_three_ways(graph, op, {n: random_values(rng, graph.tensors[n]) for n in "xr"}, shifts(graph, stored))


def test_dense_layers_that_were_matrix_products() -> None:
    rng = np.random.default_rng(5)
    x, y = tensor("x", (3, 9), "int8", 0.1, 3), tensor("y", (3, 6), "int8", 1.3, -5)
    w = tensor("w", (6, 9), "int8", 0.2, data=rng.integers(-9, 9, (6, 9)).astype(np.int8))
    calls = same_three_ways(*one_op("dense", [x, w], [y], **TWICE), {"x": random_values(rng, x)})
    assert len(member(calls, "first_bits").values) == 6


@pytest.mark.parametrize("kind", ["requantize", "quantize"])
@pytest.mark.parametrize("scale", [0.5, 0.3, 0.01, 1.5, 2.0])
def test_other_formats_of_bytes(kind: str, scale: float) -> None:
    x, y = tensor("x", (256,), "int8", scale, 3), tensor("y", (256,), "uint8", 1.0, 90)
    same_three_ways(*one_op(kind, [x], [y], **TWICE), {"x": np.arange(-128, 128, dtype=np.int8)})


@pytest.mark.parametrize("factor", [0.5, 0.25, 2.0**-5, 0.015, 1.0, 1.5])
@pytest.mark.parametrize("zero", [-128, 0, 127])
def test_halves_of_both_signs(factor: float, zero: int) -> None:
    """Every product of -128..127 with 3, so that many lie in the middle between two codes."""
    x, y = tensor("x", (256, 1), "int8", 1.0), tensor("y", (256, 1), "int8", 1.0 / factor, zero)
    three = tensor("o", (1, 1), "int8", 1.0, data=np.full((1, 1), 3, np.int8))
    graph, op = one_op("mul", [x, three], [y], **TWICE)
    values = {"x": np.arange(-128, 128, dtype=np.int8).reshape(256, 1)}
    same_three_ways(graph, op, values)
    assert zero or differs_from_once(graph, op, values) == (factor != 1.0)


@pytest.mark.parametrize(("zero", "matters"), [(0, False), (-128, True), (127, True)])
def test_halves_of_averages(zero: int, matters: bool) -> None:
    """All pairs of codes next to zero: halves go away from code zero, wherever the zero point is."""
    x, y = tensor("x", (1, 1, 200, 1), "int8", 0.1, zero), tensor("y", (1, 1, 100, 1), "int8", 0.1, zero)
    attrs = {**PICTURE, "window": (1, 2), "stride": (1, 2), "padding": (0, 0, 0, 0), **AS_CODES}
    graph, op = one_op("average_pool", [x], [y], **attrs)
    values = {"x": (np.arange(200) // 2 + np.arange(200) % 2 - 50).astype(np.int8).reshape(x.shape)}
    same_three_ways(graph, op, values)
    assert differs_from_once(graph, op, values) == matters


def test_fused_activations_limit_what_is_rounded() -> None:
    rng = np.random.default_rng(1)
    x, y = tensor("x", (64,), "int8", 0.1, -3), tensor("y", (64,), "int8", 0.37, 7)
    for attrs in ({"activation": "relu6"}, {"clip": (7, 90)}, {"activation": "relu_n1_to_1"}):
        graph, op = one_op("mul", [x, x], [y], **attrs, **TWICE)
        same_three_ways(graph, op, {"x": random_values(rng, x)})


@pytest.mark.parametrize(("source", "target"), [("int16", "int8"), ("int8", "int16"), ("int8", "float32")])
def test_other_types_are_rounded_once(source: str, target: str) -> None:
    quant = () if target == "float32" else (0.3, 2)
    x, y = tensor("x", (2, 3, 3, 4), source, 0.1, 1), tensor("y", (2, 4), target, *quant)
    calls = same_three_ways(
        *one_op("mean", [x], [y], axes=(1, 2), **TWICE), {"x": random_values(np.random.default_rng(0), x)}
    )
    assert member(calls, "first_bits") is None and member(calls, "middle") is None


def test_the_rounding_of_positions_is_something_else() -> None:
    x, y = tensor("x", (1, 3, 3, 4), "int8", 0.1, 1), tensor("y", (1, 6, 6, 4), "int8", 0.1, 1)
    graph, op = one_op("resize_nearest", [x], [y], coordinates="half_pixel", rounding="floor")
    calls = same_three_ways(graph, op, {"x": random_values(np.random.default_rng(0), x)})
    assert not any(isinstance(a, Struct) and "first_bits" in dict(a.members) for call in calls for a in call.arguments)


def test_bits_are_a_table_of_bytes() -> None:
    x, y = tensor("x", (8,), "int8", 1e-30, 0), tensor("y", (8,), "int8", 1e30, 0)
    calls = same_three_ways(*one_op("mul", [x, x], [y], **TWICE), {"x": np.arange(8, dtype=np.int8)})
    assert member(calls, "first_bits") == ConstantTable("uint8_t", (60,))
