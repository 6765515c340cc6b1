"""Operators that TFLite computes in integers of its own, and those that it rounds twice: equal to its reference kernels
in every value, over formats of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compare.reference import run_tflite
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.rounding import Multiplier
from atonc.machine.base.errors import InputError
from tests.frontends.tflite_models import T
from tests.ops.test_ops_against_tflite import one_op

ALL = (1, 256, 1, 1)
FORMATS = 12  # each operator with so many
TYPES = {"int8": 0, "uint8": 128}


def scale(rng: np.random.Generator, low: float = -9, high: float = -1) -> float:
    return float(np.float32(2.0 ** rng.uniform(low, high)))


def zero(rng: np.random.Generator, dtype: str) -> int:
    return int(rng.choice([-128, 0, 127, rng.integers(-128, 128)])) + TYPES[dtype]


def assert_equal(data: bytes, folder: Path, rng: np.random.Generator, all_codes: bool = False) -> None:
    graph, path = read_tflite(data), folder / "model.tflite"
    path.write_bytes(data)
    inputs = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        low, high = tensor.code_range
        codes = (
            np.arange(low, high + 1).reshape(1, 256, 1, 1) if all_codes else rng.integers(low, high + 1, tensor.shape)
        )
        inputs[name] = np.broadcast_to(codes, tensor.shape).astype(tensor.dtype)
    expected = run_tflite(path, [inputs[name] for name in graph.inputs])
    for name, value in run_graph(graph, inputs).items():
        if name in expected:
            np.testing.assert_array_equal(value, expected[name])


UNARY: dict[str, tuple[str, dict[int, tuple[str, Any]]]] = {
    "RELU": ("", {}),
    "RELU6": ("", {}),
    "LEAKY_RELU": ("LeakyReluOptions", {0: ("f", 0.13)}),
    "HARD_SWISH": ("", {}),
    "ABS": ("", {}),
    "LOG": ("", {}),
    "QUANTIZE": ("", {}),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("code", UNARY)
def test_functions_of_all_codes(code: str, dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    if dtype == "uint8" and code in ("ABS", "LOG"):
        pytest.skip("TFLite has no such kernel")
    rng = np.random.default_rng(len(code))
    for _ in range(FORMATS):
        x = T("x", ALL, dtype, scale(rng), zero(rng, dtype))
        y = T("y", ALL, dtype, x.scale * 2.0 ** rng.uniform(-3, 2), zero(rng, dtype))
        assert_equal(one_op(code, [x], [y], *UNARY[code]), tmp_path, rng, all_codes=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_slopes(dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    rng = np.random.default_rng(1)
    for _ in range(FORMATS):
        codes = rng.integers(-128, 128, (1, 1, 64)) + TYPES[dtype]
        x = T("x", (1, 256, 1, 64), dtype, scale(rng), zero(rng, dtype))
        slope = T("s", (1, 1, 64), dtype, scale(rng, -12, -6), zero(rng, dtype), data=codes)
        y = T("y", x.shape, dtype, x.scale * 2.0 ** rng.uniform(-2, 1), zero(rng, dtype))
        assert_equal(one_op("PRELU", [x, slope], [y]), tmp_path, rng, all_codes=True)


def test_matrix_products(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    rng = np.random.default_rng(2)
    for _ in range(FORMATS):
        a, b = T("a", (2, 20, 30), "int8", scale(rng), 3), T("b", (2, 30, 25), "int8", scale(rng), -9)
        y = T("y", (2, 20, 25), "int8", a.scale * b.scale * 50, zero(rng, "int8"))
        assert_equal(one_op("BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions"), tmp_path, rng)


@pytest.mark.parametrize("activation", [1, 2, 3])
def test_fused_activations_end_at_a_code(activation: int, tmp_path: Path) -> None:
    """6 / scale a little below a half: two roundings would go up, the bound goes down."""
    pytest.importorskip("ai_edge_litert")
    rng = np.random.default_rng(4)
    for bound in (85.47, 85.4999, 60.45, 12.44, 12.501):
        a, b = (T(name, (40, 40), "int8", 0.25, zero) for name, zero in (("a", 3), ("b", -20)))
        y = T("y", a.shape, "int8", 6 / bound, -40)
        assert_equal(one_op("MUL", [a, b], [y], "MulOptions", {0: ("b", activation)}), tmp_path, rng)


def test_what_lies_beside_a_power_of_two_is_one() -> None:
    """31 bits of a mantissa cannot tell them apart; the exponent decides about the first rounding."""
    for factor in (0.25, 0.25 * (1 - 2.0**-40), 0.25 * (1 + 2.0**-40)):
        assert Multiplier.of(factor) == Multiplier(0.5, -1.0)
    assert Multiplier.of(0.25 * (1 - 2.0**-24)).exponent == -2.0


def test_multipliers_have_31_bits() -> None:
    for factor in np.random.default_rng(3).uniform(1e-6, 3, 100):
        found = Multiplier.of(factor)
        assert 0.5 <= found.mantissa < 1 and found.mantissa * 2.0**31 == round(found.mantissa * 2.0**31)
        assert abs(found.value / factor - 1) <= 2.0**-31


def test_a_format_that_tflite_refuses(tmp_path: Path) -> None:
    """An output of hard-swish that is much finer than its input: still computed, though TFLite does not run it."""
    pytest.importorskip("ai_edge_litert")
    x, y = T("x", ALL, "int8", 1.0, 0), T("y", ALL, "int8", 1 / 512, 0)
    data = one_op("HARD_SWISH", [x], [y])
    with pytest.raises(InputError):
        assert_equal(data, tmp_path, np.random.default_rng(0), all_codes=True)
    codes = np.arange(-128, 128, dtype=np.int8).reshape(ALL)
    assert run_graph(read_tflite(data), {"x": codes})["y"].reshape(-1)[[0, 128, 255]].tolist() == [0, 0, 127]
