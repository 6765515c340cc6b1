"""Convolutions, dense layers, pools, products, resizing: C, emulator and exact arithmetic byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Quantisation, Tensor
from atonc.compiler.ops.shapes import infer_shape
from tests.kernels.three_ways import one_op, random_values, same_three_ways, tensor

quick = settings(max_examples=80, deadline=None)
TYPES = st.sampled_from(["int8", "uint8", "int16", "float32"])
OUTPUTS = st.sampled_from(["int8", "uint8", "int16", "float32", "float64"])  # float64 shows every rounding
STEPS = st.tuples(st.integers(1, 3), st.integers(1, 3))
PADS = st.tuples(*[st.integers(0, 2)] * 4)
ACTIVATIONS = st.sampled_from(["none", "relu", "relu6", "relu_n1_to_1"])


def data(name: str, shape: Any, dtype: str, scale: float = 0.043, zero: int = 3) -> Tensor:
    return tensor(name, shape, dtype, *(() if dtype.startswith("float") else (scale, zero)))


def weights(rng: np.random.Generator, shape: tuple[int, ...], form: str) -> Tensor:
    """Per channel, per tensor with a zero point, floats, or beyond 8 bits."""
    if form.startswith("float"):  # folded weights are declared float32 and hold more
        return Tensor("w", shape, "float32", None, rng.normal(size=shape).astype(form))
    if form == "channels":
        quant = Quantisation(rng.uniform(1e-3, 1e-1, shape[0]), np.zeros(shape[0], np.int64), 0)
        return Tensor("w", shape, "int8", quant, rng.integers(-127, 128, shape).astype(np.int8))
    dtype = "uint8" if form == "zero" else "int16"
    limits = np.iinfo(dtype)
    quant = Quantisation.per_tensor(0.02, 77 if form == "zero" else 0)
    return Tensor("w", shape, dtype, quant, rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype))


def bias(rng: np.random.Generator, outputs: int, form: str) -> Tensor | None:
    if form == "none":
        return None
    if form == "float":
        return Tensor("b", (outputs,), "float32", None, rng.normal(size=outputs).astype(np.float32))
    return Tensor("b", (outputs,), "int32", None, rng.integers(-50000, 50000, outputs).astype(np.int32))


FORMS = st.sampled_from(["channels", "zero", "float32", "float64", "wide"])
BIASES = st.sampled_from(["none", "int", "float"])


@quick
@given(
    TYPES, OUTPUTS, FORMS, BIASES, st.sampled_from([1, 2, 3, 6]), STEPS, STEPS, PADS, ACTIVATIONS, st.integers(0, 999)
)
def test_conv(
    a: str, b: str, form: str, with_bias: str, groups: int, stride: Any, dilation: Any, pads: Any, act: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    kernel = tuple(rng.integers(1, 4, 2).tolist())
    outputs, channels = groups * int(rng.integers(1, 3)), 6
    x = data("x", (int(rng.integers(1, 3)), 9, 8, channels), a)
    w, bias_tensor = weights(rng, (outputs, *kernel, channels // groups), form), bias(rng, outputs, with_bias)
    attrs = {"stride": stride, "dilation": dilation, "padding": pads, "groups": groups, "layout": "NHWC"}
    attrs |= {"activation": act}
    y = data("y", infer_shape("conv", attrs, [x.shape, w.shape]), b, 0.3, -4 if b == "int8" else 9)
    graph, op = one_op("conv", [x, w, bias_tensor], [y], **attrs)
    same_three_ways(graph, op, {"x": random_values(rng, x, hostile=seed % 5 == 0)})


@quick
@given(
    TYPES,
    OUTPUTS,
    FORMS,
    BIASES,
    st.sampled_from([1, 2]),
    STEPS,
    st.tuples(*[st.integers(0, 2)] * 2),
    st.integers(0, 999),
)
def test_transpose_conv(
    a: str, b: str, form: str, with_bias: str, groups: int, stride: Any, cut: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    kernel = tuple(rng.integers(1, 4, 2).tolist())
    x = data("x", (1, 5, 4, 4), a)
    w, bias_tensor = weights(rng, (2 * groups, *kernel, 4 // groups), form), bias(rng, 2 * groups, with_bias)
    size = [max(1, (n - 1) * s + k - c) for n, s, k, c in zip((5, 4), stride, kernel, cut, strict=True)]
    y = data("y", (1, *size, 2 * groups), b, 0.3)
    graph, op = one_op(
        "transpose_conv", [x, w, bias_tensor], [y], stride=stride, padding=(*cut, 0, 0), layout="NHWC", groups=groups
    )
    same_three_ways(graph, op, {"x": random_values(rng, x)})


@quick
@given(TYPES, OUTPUTS, FORMS, BIASES, ACTIVATIONS, st.integers(0, 999))
def test_dense(a: str, b: str, form: str, with_bias: str, act: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, outputs = (int(n) for n in rng.integers(1, 20, 3))
    x, y = data("x", (rows, depth), a), data("y", (rows, outputs), b, 0.2, 5)
    inputs = [x, weights(rng, (outputs, depth), form), bias(rng, outputs, with_bias)]
    graph, op = one_op("dense", inputs, [y], activation=act)
    same_three_ways(graph, op, {"x": random_values(rng, x)})


def test_sums_beyond_32_bits() -> None:
    """70,000 products of extreme bytes do not fit 32 bits: the call says so by the type of its weights."""
    w = Tensor("w", (2, 70_000), "int8", Quantisation.per_tensor(1e-6), np.full((2, 70_000), -128, np.int8))
    x, y = tensor("x", (1, 70_000), "int8", 0.5, 127), tensor("y", (1, 2), "int8", 0.9, 0)
    graph, op = one_op("dense", [x, w], [y])
    same_three_ways(graph, op, {"x": np.full((1, 70_000), -128, np.int8)})


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_16_bit_numbers_leave_32_bits(sign: int) -> None:
    w = Tensor("w", (3, 4000), "int8", Quantisation.per_tensor(1e-6), np.full((3, 4000), sign * 127, np.int8))
    x, y = tensor("x", (1, 4000), "int16", 0.5, 0), tensor("y", (1, 3), "float64")
    same_three_ways(*one_op("dense", [x, w], [y]), {"x": np.full((1, 4000), -32768, np.int16)})


def test_the_first_of_two_zeros_wins() -> None:
    rng = np.random.default_rng(0)
    x, y = tensor("x", (1, 8, 8, 2), "float32"), tensor("y", (1, 4, 4, 2), "float32")
    zeros = np.where(rng.random(x.shape) < 0.5, np.float32(0.0), np.float32(-0.0))
    graph, op = one_op("max_pool", [x], [y], window=(2, 2), stride=(2, 2), padding=(0, 0, 0, 0), layout="NHWC")
    same_three_ways(graph, op, {"x": zeros})


@pytest.mark.parametrize(("stored_in", "stored_out"), [(128, 0), (0, 128), (128, 128)])
def test_conv_on_shifted_codes(stored_in: int, stored_out: int) -> None:
    rng = np.random.default_rng(2)
    x, y = tensor("x", (1, 6, 6, 4), "int8", 0.1, -128), tensor("y", (1, 6, 6, 3), "int8", 0.2, -128)
    attrs = {"stride": (1, 1), "padding": (1, 1, 1, 1), "groups": 1, "layout": "NHWC", "clip": (-128, 90)}
    graph, op = one_op("conv", [x, weights(rng, (3, 3, 3, 4), "channels"), bias(rng, 3, "int")], [y], **attrs)
    same_three_ways(graph, op, {"x": random_values(rng, x)}, {"x": stored_in, "y": stored_out})


def test_conv_over_a_sequence() -> None:
    rng = np.random.default_rng(3)
    x, y = tensor("x", (2, 20, 4), "int8", 0.1, 1), tensor("y", (2, 9, 5), "int8", 0.2, 2)
    attrs = {"stride": (1, 2), "padding": (0, 0, 0, 0), "groups": 1, "layout": "NHWC"}
    graph, op = one_op("conv", [x, weights(rng, (5, 1, 3, 4), "channels")], [y], **attrs)
    same_three_ways(graph, op, {"x": random_values(rng, x)})


@quick
@given(
    st.sampled_from(["max_pool", "average_pool"]),
    TYPES,
    OUTPUTS,
    STEPS,
    PADS,
    st.booleans(),
    ACTIVATIONS,
    st.integers(0, 999),
)
def test_pools(kind: str, a: str, b: str, stride: Any, pads: Any, include: bool, act: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    attrs: dict[str, Any] = {"stride": stride, "padding": pads, "window": tuple(rng.integers(1, 4, 2).tolist())}
    attrs |= {"layout": "NHWC", "count_include_pad": include, "activation": act}
    x = data("x", (2, 7, 6, 3), a)
    y = data("y", infer_shape(kind, attrs, [x.shape]), b, 0.03, 3)
    graph, op = one_op(kind, [x], [y], **attrs)
    same_three_ways(graph, op, {"x": random_values(rng, x, hostile=seed % 2 == 0)})


@quick
@given(TYPES, TYPES, OUTPUTS, st.booleans(), st.booleans(), st.integers(0, 999))
def test_matmul(a: str, b: str, c: str, flip_a: bool, flip_b: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, columns, batch = (int(n) for n in rng.integers(1, 6, 4))
    left = data("l", (batch, 2, *((depth, rows) if flip_a else (rows, depth))), a)
    right = data("r", (*((1,) if seed % 3 else ()), 2, *((columns, depth) if flip_b else (depth, columns))), b, 0.01, 8)
    out = data("y", (batch, 2, rows, columns), c, 0.1)
    graph, op = one_op("matmul", [left, right], [out], transpose_a=flip_a, transpose_b=flip_b)
    same_three_ways(graph, op, {"l": random_values(rng, left), "r": random_values(rng, right)})


@quick
@given(
    TYPES,
    OUTPUTS,
    st.sampled_from([(9, 7), (3, 2), (5, 1), (6, 4), (1, 1), (6, 9)]),
    st.sampled_from(["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"]),
    st.integers(0, 999),
)
def test_resize_linear(a: str, b: str, size: tuple[int, int], coordinates: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = data("x", (2, 6, 4, 3), a), data("y", (2, *size, 3), b, 0.05, 1)
    graph, op = one_op("resize_linear", [x], [y], coordinates=coordinates)
    same_three_ways(graph, op, {"x": random_values(rng, x)})


def test_resize_linear_as_in_a_segmentation() -> None:
    x, y = tensor("x", (1, 17, 17, 5), "int8", 0.2, -92), tensor("y", (1, 65, 65, 5), "int8", 0.2, -92)
    graph, op = one_op("resize_linear", [x], [y], coordinates="align_corners")
    same_three_ways(graph, op, {"x": random_values(np.random.default_rng(0), x)})
