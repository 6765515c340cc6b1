"""How results are rounded survives the passes: the canonical graph gives every value of the model's own graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import order
from tests.frontends.tflite_models import O, T, build
from tests.ops.test_ops_against_tflite import one_op

ALL = (1, 256, 1, 1)


def assert_kept(data: bytes, inputs: dict[str, Any]) -> None:
    source = read_tflite(data)
    found, wanted = run_graph(order.run(source), inputs), run_graph(source, inputs)
    np.testing.assert_array_equal(found["y"], wanted["y"])


@pytest.mark.parametrize("code", ["RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "ABS", "LOG", "QUANTIZE"])
@pytest.mark.parametrize("factor", [0.37, 0.71, 1.0, 1.9])
def test_functions(code: str, factor: float) -> None:
    x, y = T("x", ALL, scale=0.043, zero=-20), T("y", ALL, scale=0.043 * factor, zero=7)
    options = ("LeakyReluOptions", {0: ("f", 0.17)}) if code == "LEAKY_RELU" else ()
    assert_kept(one_op(code, [x], [y], *options), {"x": np.arange(-128, 128, dtype=np.int8).reshape(ALL)})


@pytest.mark.parametrize("scale", [0.99607843, 0.37, 2.0, 1.3])
def test_codes_that_go_by_way_of_floats(scale: float) -> None:
    """CAST or DEQUANTIZE and then QUANTIZE: a float is divided, and rounded once; not as integers are."""
    x, y = T("x", ALL), T("y", ALL, scale=scale, zero=-1)
    known, between = T("x", ALL, scale=0.3, zero=5), T("f", ALL, "float32")
    for first, source in (("CAST", x), ("DEQUANTIZE", known)):
        data = build([source, between, y], [O(first, ["x"], ["f"]), O("QUANTIZE", ["f"], ["y"])], ["x"], ["y"])
        assert_kept(data, {"x": np.arange(-128, 128, dtype=np.int8).reshape(ALL)})


def test_floats_inside_a_network_are_rounded_once() -> None:
    x, y = T("x", ALL, scale=0.3, zero=5), T("y", ALL, scale=0.41, zero=-1)
    floats = [T("f", ALL, "float32"), T("g", ALL, "float32"), T("k", (1,), "float32", data=[0.77])]
    ops = [O("DEQUANTIZE", ["x"], ["f"]), O("MUL", ["f", "k"], ["g"], "MulOptions"), O("QUANTIZE", ["g"], ["y"])]
    data = build([x, *floats, y], ops, ["x"], ["y"])
    assert_kept(data, {"x": np.arange(-128, 128, dtype=np.int8).reshape(ALL)})


def test_products_with_a_constant_matrix() -> None:
    rng = np.random.default_rng(0)
    x, y = T("x", (1, 50, 9), scale=0.11, zero=3), T("y", (1, 50, 8), scale=1.7, zero=-4)
    matrix = T("m", (1, 9, 8), scale=0.3, data=rng.integers(-9, 9, (1, 9, 8)))
    values = rng.integers(-128, 128, x.shape).astype(np.int8)
    assert_kept(one_op("BATCH_MATMUL", [x, matrix], [y], "BatchMatMulOptions"), {"x": values})


def test_averages_of_whole_pictures() -> None:
    rng = np.random.default_rng(1)
    x, y = T("x", (1, 4, 4, 64), scale=0.1, zero=-77), T("y", (1, 1, 1, 64), scale=0.1, zero=-77)
    fields: dict[int, tuple[str, Any]] = {0: ("b", 1), 1: ("i", 1), 2: ("i", 1), 3: ("i", 4), 4: ("i", 4)}
    values = rng.integers(-128, 128, x.shape).astype(np.int8)
    assert_kept(one_op("AVERAGE_POOL_2D", [x], [y], "Pool2DOptions", fields), {"x": values})


def test_slopes() -> None:
    rng = np.random.default_rng(2)
    x, y = T("x", (1, 256, 1, 16), scale=0.2, zero=5), T("y", (1, 256, 1, 16), scale=0.31, zero=-9)
    slope = T("s", (1, 1, 16), scale=0.004, zero=1, data=rng.integers(-128, 128, (1, 1, 16)))
    values = np.broadcast_to(np.arange(-128, 128, dtype=np.int8).reshape(ALL), x.shape)
    assert_kept(one_op("PRELU", [x, slope], [y]), {"x": values})
