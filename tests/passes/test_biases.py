"""MatMul + Add of a constant, without codes between them, is one layer with a bias, however it is spelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.ops import run_graph
from atonc.compiler.passes.order import run as canonical
from tests.frontends.onnx_models import Net, run

DEPTH, WIDTH, SCALE, OUT = 12, 8, 0.05, 0.2
CODES = np.random.default_rng(3).integers(-400, 400, WIDTH).astype(np.int32)


def of_channels(net: Net, scales: Any) -> str:
    return dequantised(net, CODES, scales * np.float32(SCALE), axis=0)


def of_channels_in_rows(net: Net, scales: Any) -> str:
    return dequantised(net, CODES.reshape(1, 1, WIDTH), scales * np.float32(SCALE), axis=2)


def of_one_scale(net: Net, scales: Any) -> str:
    return dequantised(net, CODES, np.float32(0.0005))


def of_bytes(net: Net, scales: Any) -> str:
    return dequantised(net, (CODES // 4).astype(np.int8), np.float32(0.002))


def of_floats(net: Net, scales: Any) -> str:
    return net.const((CODES * 0.0005).astype(np.float32))


def of_one_float(net: Net, scales: Any) -> str:
    return net.const(np.float32(0.3))


def dequantised(net: Net, codes: Any, scales: Any, **axis: Any) -> str:
    zeros = np.zeros(np.shape(scales), codes.dtype)
    return net.node("DequantizeLinear", [net.const(codes), net.const(scales), net.const(zeros)], **axis)[0]


SPELLINGS = (of_channels, of_channels_in_rows, of_one_scale, of_bytes, of_floats, of_one_float)


@pytest.mark.parametrize("shape", [(5, DEPTH), (1, 5, DEPTH), (1, 2, 5, DEPTH)], ids=str)
@pytest.mark.parametrize("first", [True, False], ids=["bias first", "bias second"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_sum_behind_a_product_is_its_bias(
    spelling: Callable[[Net, Any], str], first: bool, shape: tuple[int, ...]
) -> None:
    net = Net()
    weights, scales = net.weights((DEPTH, WIDTH), axis=1)
    product = net.node("MatMul", [net.qdq("x", SCALE, -3), weights])[0]
    bias = spelling(net, scales)
    if "rows" in spelling.__name__ and len(shape) < 3:
        shape = (1, *shape)
    total = net.node("Add", [bias, product] if first else [product, bias])[0]
    y = net.qdq(total, OUT, 4)
    data = net.model({"x": shape}, [y])
    graph = canonical(read_onnx(data))
    assert {op.kind for op in graph.ops} <= {"quantize", "reshape", "conv", "dequantize"}
    (layer,) = (op for op in graph.ops if op.kind == "conv")
    stored = graph.tensors[layer.inputs[2]]
    assert (stored.dtype, stored.quant) == ("int32", None)
    x = np.random.default_rng(1).normal(0, 3, shape).astype(np.float32)
    found, wanted = run_graph(graph, {"x": x})[y], run(data, {"x": x})[0]
    assert np.ptp(wanted) > 20 * OUT
    np.testing.assert_allclose(found, wanted, rtol=0, atol=OUT * 1.001)
