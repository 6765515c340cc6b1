"""Every operator against TFLite's reference kernels: exact arithmetic is never more than one code away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compare.reference import run_tflite
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ops import run_graph
from tests.frontends.tflite_models import O, T, build, chain_model, conv_model

pytest.importorskip("ai_edge_litert", exc_type=ImportError)


def assert_close(data: bytes, folder: Path, codes: float = 1, seed: int = 0) -> None:
    """Runs both on random inputs; quantised outputs within `codes`, others equal."""
    graph = read_tflite(data)
    rng = np.random.default_rng(seed)
    inputs = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        low, high = (-2, 2) if tensor.is_float else tensor.code_range
        values = rng.uniform(low, high, tensor.shape)
        inputs[name] = values.astype(tensor.dtype)
    path = folder / "model.tflite"
    path.write_bytes(data)
    expected = run_tflite(path, [inputs[name] for name in graph.inputs], all_tensors=True)
    found = run_graph(graph, inputs)
    for name in graph.outputs:
        assert found[name].shape == expected[name].shape
        difference = np.abs(found[name].astype(np.float64) - expected[name].astype(np.float64))
        limit = codes if graph.tensors[name].quant is not None else 1e-5
        assert difference.max(initial=0) <= limit, f"{name}: {difference.max()}"


def one_op(
    code: str,
    inputs: list[T],
    outputs: list[T],
    options: str = "",
    fields: dict[int, tuple[str, Any]] | None = None,
) -> bytes:
    op = O(code, [t.name for t in inputs], [t.name for t in outputs], options, fields or {})
    variable = [t.name for t in inputs if t.data is None]
    return build([*inputs, *outputs], [op], variable, [t.name for t in outputs])


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "activation"),
    [((1, 1), 1, 1, 0), ((3, 3), 1, 1, 3), ((3, 3), 2, 1, 1), ((2, 4), 2, 1, 0), ((3, 3), 1, 2, 0), ((5, 5), 1, 1, 3)],
)
def test_convolution(
    tmp_path: Path, padding: int, kernel: tuple[int, int], stride: int, dilation: int, activation: int
) -> None:
    data = conv_model((1, 9, 10, 4), 6, kernel, stride, padding, activation, dilation)
    assert_close(data, tmp_path)


@pytest.mark.parametrize(("multiplier", "stride", "padding"), [(1, 1, 0), (1, 2, 0), (2, 1, 1), (3, 2, 0)])
def test_depthwise(tmp_path: Path, multiplier: int, stride: int, padding: int) -> None:
    rng = np.random.default_rng(1)
    channels, outputs = 4, 4 * multiplier
    size = 9 if padding == 0 else 7
    size = -(-size // stride)
    scales = rng.uniform(0.002, 0.01, outputs)
    weights = T("w", (1, 3, 3, outputs), scale=scales, axis=3, data=rng.integers(-127, 128, (1, 3, 3, outputs)))
    bias = T("b", (outputs,), "int32", scale=scales * 0.02, data=rng.integers(-900, 900, outputs))
    x, y = T("x", (1, 9, 9, channels), scale=0.02, zero=3), T("y", (1, size, size, outputs), scale=0.04, zero=-9)
    fields = {0: ("b", padding), 1: ("i", stride), 2: ("i", stride), 3: ("i", multiplier), 5: ("i", 1), 6: ("i", 1)}
    assert_close(one_op("DEPTHWISE_CONV_2D", [x, weights, bias], [y], "DepthwiseConv2DOptions", fields), tmp_path)


@pytest.mark.parametrize(("stride", "padding", "kernel"), [(2, 0, 2), (2, 0, 3), (2, 1, 3), (1, 0, 3), (3, 1, 2)])
def test_transpose_convolution(tmp_path: Path, stride: int, padding: int, kernel: int) -> None:
    rng = np.random.default_rng(2)
    size = 4 * stride if padding == 0 else 3 * stride + max(kernel, stride)
    shape = T("shape", (4,), "int32", data=[1, size, size, 3])
    scales = rng.uniform(0.002, 0.01, 3)
    weights = T("w", (3, kernel, kernel, 5), scale=scales, data=rng.integers(-127, 128, (3, kernel, kernel, 5)))
    x, y = T("x", (1, 4, 4, 5), scale=0.02, zero=3), T("y", (1, size, size, 3), scale=0.03, zero=-9)
    fields = {0: ("b", padding), 1: ("i", stride), 2: ("i", stride)}
    assert_close(one_op("TRANSPOSE_CONV", [shape, weights, x], [y], "TransposeConvOptions", fields), tmp_path)


def test_fully_connected(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weights = T("w", (7, 12), scale=0.006, data=rng.integers(-127, 128, (7, 12)))
    bias = T("b", (7,), "int32", scale=0.006 * 0.02, data=rng.integers(-900, 900, 7))
    x, y = T("x", (2, 12), scale=0.02, zero=-11), T("y", (2, 7), scale=0.03, zero=5)
    assert_close(one_op("FULLY_CONNECTED", [x, weights, bias], [y], "FullyConnectedOptions"), tmp_path)


@pytest.mark.parametrize("code", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("other", [(1, 4, 5, 6), (6,), (1, 1, 1, 6)])
def test_arithmetic(tmp_path: Path, code: str, other: tuple[int, ...]) -> None:
    a, b = T("a", (1, 4, 5, 6), scale=0.02, zero=-3), T("b", other, scale=0.035, zero=12)
    y = T("y", (1, 4, 5, 6), scale=0.06 if code != "MUL" else 0.08, zero=-7)
    options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[code]
    assert_close(one_op(code, [a, b], [y], options, {0: ("b", 1)}), tmp_path)


@pytest.mark.parametrize("code", ["MINIMUM", "MAXIMUM"])
def test_extremes(tmp_path: Path, code: str) -> None:
    tensors = [T(name, (1, 4, 6), scale=0.02, zero=-3) for name in "aby"]
    assert_close(one_op(code, tensors[:2], tensors[2:], "MaximumMinimumOptions"), tmp_path)


@pytest.mark.parametrize("code", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
@pytest.mark.parametrize(("window", "stride", "padding"), [(2, 2, 1), (3, 1, 0), (3, 2, 0), (5, 1, 0)])
def test_pools(tmp_path: Path, code: str, window: int, stride: int, padding: int) -> None:
    size = -(-8 // stride) if padding == 0 else (8 - window) // stride + 1
    x, y = T("x", (1, 8, 8, 3), scale=0.02, zero=-3), T("y", (1, size, size, 3), scale=0.02, zero=-3)
    fields = {0: ("b", padding), 1: ("i", stride), 2: ("i", stride), 3: ("i", window), 4: ("i", window)}
    assert_close(one_op(code, [x], [y], "Pool2DOptions", fields), tmp_path)


@pytest.mark.parametrize("keep", [0, 1])
def test_mean(tmp_path: Path, keep: int) -> None:
    shape = (1, 1, 1, 5) if keep else (1, 5)
    x, axes = T("x", (1, 7, 6, 5), scale=0.02, zero=-30), T("axes", (2,), "int32", data=[1, 2])
    y = T("y", shape, scale=0.013, zero=9)
    assert_close(one_op("MEAN", [x, axes], [y], "ReducerOptions", {0: ("b", keep)}), tmp_path)


FUNCTIONS = {
    "LOGISTIC": (1 / 256, -128),
    "TANH": (1 / 128, 0),
    "HARD_SWISH": (0.03, -40),
    "RELU": (0.02, -128),
    "RELU6": (0.0235, -128),
}


@pytest.mark.parametrize("code", FUNCTIONS)
def test_functions(tmp_path: Path, code: str) -> None:
    scale, zero = FUNCTIONS[code]
    x, y = T("x", (1, 16, 16), scale=0.05, zero=-3), T("y", (1, 16, 16), scale=scale, zero=zero)
    options = {"HARD_SWISH": "HardSwishOptions"}.get(code, "")
    assert_close(one_op(code, [x], [y], options), tmp_path)


def test_leaky_relu_and_prelu(tmp_path: Path) -> None:
    x, y = T("x", (1, 6, 6, 4), scale=0.05, zero=-3), T("y", (1, 6, 6, 4), scale=0.04, zero=-20)
    assert_close(one_op("LEAKY_RELU", [x], [y], "LeakyReluOptions", {0: ("f", 0.1)}), tmp_path)
    slopes = T("a", (1, 1, 4), scale=0.004, zero=5, data=[[[-120, 3, 60, 127]]])
    assert_close(one_op("PRELU", [x, slopes], [y]), tmp_path)


@pytest.mark.parametrize("shape", [(1, 10), (2, 5), (1, 3, 3, 4)])
def test_softmax(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x, y = T("x", shape, scale=0.1, zero=20), T("y", shape, scale=1 / 256, zero=-128)
    assert_close(one_op("SOFTMAX", [x], [y], "SoftmaxOptions", {0: ("f", 1.0)}), tmp_path)


@pytest.mark.parametrize("code", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("corners", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("target", [(8, 10), (9, 7), (3, 2)])
def test_resize(tmp_path: Path, code: str, corners: tuple[int, int], target: tuple[int, int]) -> None:
    x, size = T("x", (1, 4, 5, 3), scale=0.1), T("size", (2,), "int32", data=target)
    y = T("y", (1, *target, 3), scale=0.1)
    first = 2 if code == "RESIZE_BILINEAR" else 0
    options = "ResizeBilinearOptions" if first else "ResizeNearestNeighborOptions"
    fields = {first: ("b", corners[0]), first + 1: ("b", corners[1])}
    assert_close(one_op(code, [x, size], [y], options, fields), tmp_path, codes=1 if first else 0)


def test_movers(tmp_path: Path) -> None:
    x = T("x", (1, 4, 6, 8), scale=0.1, zero=4)

    def same(shape: tuple[int, ...], name: str = "y") -> T:
        return T(name, shape, scale=0.1, zero=4)

    pads = T("p", (4, 2), "int32", data=[[0, 0], [1, 2], [3, 0], [0, 5]])
    perm = T("perm", (4,), "int32", data=[0, 3, 1, 2])
    axis = T("axis", (), "int32", data=3)
    begin, size = T("b", (4,), "int32", data=[0, 1, 0, 2]), T("s", (4,), "int32", data=[1, 2, -1, 4])
    end, steps = T("e", (4,), "int32", data=[1, 4, 6, -1]), T("t", (4,), "int32", data=[1, 2, 1, 3])
    reshape = T("r", (2,), "int32", data=[4, 48])
    cases = [
        one_op("PAD", [x, pads], [same((1, 7, 9, 13))], "PadOptions"),
        one_op("TRANSPOSE", [x, perm], [same((1, 8, 4, 6))], "TransposeOptions"),
        one_op("RESHAPE", [x, reshape], [same((4, 48))], "ReshapeOptions"),
        one_op("SPLIT", [axis, x], [same((1, 4, 6, 4), "y"), same((1, 4, 6, 4), "z")], "SplitOptions", {0: ("i", 2)}),
        one_op("SLICE", [x, begin, size], [same((1, 2, 6, 4))], "SliceOptions"),
        one_op("STRIDED_SLICE", [x, begin, end, steps], [same((1, 2, 6, 2))], "StridedSliceOptions"),
        one_op("DEPTH_TO_SPACE", [x], [same((1, 8, 12, 2))], "DepthToSpaceOptions", {0: ("i", 2)}),
        one_op("SPACE_TO_DEPTH", [x], [same((1, 2, 3, 32))], "SpaceToDepthOptions", {0: ("i", 2)}),
    ]
    for data in cases:
        assert_close(data, tmp_path, codes=0)


def test_concatenation_requantises(tmp_path: Path) -> None:
    a, b = T("a", (1, 4, 3), scale=0.1, zero=4), T("b", (1, 4, 5), scale=0.1, zero=4)
    y = T("y", (1, 4, 8), scale=0.1, zero=4)
    assert_close(one_op("CONCATENATION", [a, b], [y], "ConcatenationOptions", {0: ("i", -1)}), tmp_path, codes=0)


def test_space_and_batch(tmp_path: Path) -> None:
    x, blocks = T("x", (1, 5, 6, 2), scale=0.1, zero=4), T("k", (2,), "int32", data=[2, 3])
    pads = T("p", (2, 2), "int32", data=[[1, 0], [0, 3]])
    there = T("y", (6, 3, 3, 2), scale=0.1, zero=4)
    assert_close(one_op("SPACE_TO_BATCH_ND", [x, blocks, pads], [there], "SpaceToBatchNDOptions"), tmp_path, codes=0)
    x2, back = T("x", (6, 3, 3, 2), scale=0.1, zero=4), T("y", (1, 5, 6, 2), scale=0.1, zero=4)
    assert_close(one_op("BATCH_TO_SPACE_ND", [x2, blocks, pads], [back], "BatchToSpaceNDOptions"), tmp_path, codes=0)


def test_quantise_and_requantise(tmp_path: Path) -> None:
    real, codes = T("x", (3, 50), "float32"), T("y", (3, 50), scale=0.02, zero=-7)
    assert_close(one_op("QUANTIZE", [real], [codes]), tmp_path)
    other = T("x", (3, 50), scale=0.013, zero=30)
    assert_close(one_op("QUANTIZE", [other], [codes]), tmp_path)
    assert_close(one_op("DEQUANTIZE", [other], [T("y", (3, 50), "float32")]), tmp_path)


def test_a_network_in_small(tmp_path: Path) -> None:
    data = chain_model()
    graph = read_tflite(data)
    path = tmp_path / "chain.tflite"
    path.write_bytes(data)
    pixels = np.random.default_rng(5).integers(0, 256, (1, 8, 8, 3)).astype(np.uint8)
    found, expected = run_graph(graph, {"pixels": pixels}), run_tflite(path, [pixels], all_tensors=True)
    for name, codes in {"x": 0, "a": 1, "c": 2, "s": 3, "m": 3, "l": 3}.items():  # differences add up on the way
        assert np.abs(found[name].astype(int) - expected[name].astype(int)).max() <= codes, name
    np.testing.assert_allclose(found["out"], expected["out"], atol=0.01)
