"""Attributes that change what a node computes, against onnxruntime, from the file to the emulated program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import AtoncError, ModelError, UnsupportedError
from tests.frontends.onnx_models import Net, emulated, model_of, run, same

pytest.importorskip("onnxruntime")

FLOAT = TensorProto.FLOAT
SHAPE = (1, 4, 9, 7)
S = 0.05


def check(net: Net, made: str, shape: tuple[int, ...] = SHAPE, quantise: bool = True) -> None:
    y = net.qdq(made, S, 3) if quantise else made
    x = np.random.default_rng(1).uniform(-2.6, 2.6, shape).astype(np.float32)
    same(model_of(net, {"x": (FLOAT, shape)}, [y]), {"x": x}, codes=1.0, scale=S)


@pytest.mark.parametrize("attrs", [
    {"output_shape": [18, 14]}, {"output_shape": [17, 13], "pads": [2, 2, 2, 2]}, {"auto_pad": "SAME_UPPER"},
    {"output_shape": [18, 14], "auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}, {"auto_pad": "VALID"},
    {"output_padding": [1, 0], "pads": [1, 0, 0, 1]},
])  # fmt: skip
def test_sizes_of_transposed_convolutions(attrs: dict[str, Any]) -> None:
    net = Net()
    weights, _ = net.weights((4, 3, 3, 3), axis=1)
    check(net, net.node("ConvTranspose", [net.qdq("x", 0.02, -5), weights], strides=[2, 2], **attrs)[0])


def test_transposed_convolutions_of_sequences() -> None:
    net = Net()
    weights, _ = net.weights((4, 3, 5), axis=1)
    check(net, net.node("ConvTranspose", [net.qdq("x", 0.02), weights], strides=[3], pads=[1, 2])[0], (1, 4, 11))


@pytest.mark.parametrize(("attrs", "kind"), [
    ({"output_shape": [1, 3, 18, 14]}, ModelError), ({"output_shape": [30, 30]}, UnsupportedError),
])  # fmt: skip
def test_impossible_sizes(attrs: dict[str, Any], kind: type[AtoncError]) -> None:
    net = Net()
    weights, _ = net.weights((4, 3, 3, 3), axis=1)
    made = net.node("ConvTranspose", [net.qdq("x", 0.02), weights], strides=[2, 2], **attrs)
    with pytest.raises(kind):
        read_onnx(net.model({"x": SHAPE}, made))


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("window", [([2, 2], [2, 2], [0, 0, 0, 0]), ([3, 2], [2, 3], [1, 0, 1, 1])])
def test_average_pools_round_up(counted: int, window: tuple[list[int], list[int], list[int]]) -> None:
    net = Net()
    kernel, strides, pads = window
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": 1, "count_include_pad": counted}
    check(net, net.node("AveragePool", [net.qdq("x", 0.02, -5)], **attrs)[0])


@pytest.mark.parametrize("attrs", [
    {"alpha": 0.5}, {"alpha": -2.0, "beta": 0.3}, {"beta": 0.0}, {"transB": 1, "alpha": 0.5}, {"transA": 1},
])  # fmt: skip
def test_factors_of_gemm(attrs: dict[str, Any]) -> None:
    net = Net()
    depth = 6 if attrs.get("transA") else 8
    shape = (5, depth) if attrs.get("transB") else (depth, 5)
    weights, _ = net.weights(shape, axis=0 if attrs.get("transB") else 1)
    bias = net.const(net.rng.normal(size=(1, 5)).astype(np.float32))
    check(net, net.node("Gemm", [net.qdq("x", 0.02), weights, bias], **attrs)[0], (6, 8))


@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((7, 3), 0), ((7, 3), 1), ((2, 1, 7, 3), 2)])
def test_vectors_and_scales_along_inputs(shape: tuple[int, ...], axis: int) -> None:
    """Scales that run along the sum cannot wait until the end of it."""
    net = Net()
    weights, _ = net.weights(shape, axis=axis)
    check(net, net.node("MatMul", [net.qdq("x", 0.02, 4), weights])[0])


@pytest.mark.parametrize("kind", ["Floor", "Ceil", "Round"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_twenty_codes_of_a_twentieth_are_one(kind: str, dtype: str) -> None:
    net = Net()
    made = net.node(kind, [net.qdq("x", 0.05, 0, dtype)])[0]
    check(net, made if dtype == "int16" else net.qdq(made, S, 3), quantise=False)


@pytest.mark.parametrize("kind", ["Less", "Equal", "GreaterOrEqual"])
def test_comparisons_of_different_scales(kind: str) -> None:
    net = Net()
    check(net, net.node(kind, [net.qdq("x", 0.1), net.qdq("x", 0.3)])[0], quantise=False)


@pytest.mark.parametrize("pads", [[0, 0, 1, 2, 0, 0, 3, 0], [0, 0, -1, 2, 0, 0, 1, -2]])
def test_padding_wraps(pads: list[int]) -> None:
    net = Net()
    check(net, net.node("Pad", [net.qdq("x", S, 3), net.const(np.array(pads))], mode="wrap")[0])


@pytest.mark.parametrize("kind", ["LayerNormalization", "InstanceNormalization", "GroupNormalization"])
def test_norms(kind: str) -> None:
    net = Net()
    size = 7 if kind == "LayerNormalization" else 4
    rest = [net.const(net.rng.normal(size=size).astype(np.float32)) for _ in range(2)]
    attrs = {"num_groups": 2} if kind == "GroupNormalization" else {}
    check(net, net.node(kind, [net.qdq("x", 0.02, -5), *rest], **attrs)[0])


@pytest.mark.parametrize("kind", ["ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceMean"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(kind: str, keepdims: int) -> None:
    net = Net()
    axes = net.const(np.array([1, 3]))
    check(net, net.node(kind, [net.qdq("x", 0.02), axes], keepdims=keepdims)[0], quantise=kind == "ReduceLogSumExp")


@pytest.mark.parametrize("kind", ["Selu", "Celu", "ThresholdedRelu", "Softsign", "Shrink"])
def test_functions_of_several_operators_are_one_table(kind: str) -> None:
    from atonc.compiler.passes import order

    net = Net()
    made = net.qdq(net.node(kind, [net.qdq("x", 0.02, -5)])[0], S, 3)
    check(net, made, quantise=False)
    graph = order.run(read_onnx(net.model({"x": SHAPE}, [made])))
    assert [op.kind for op in graph.ops] == ["quantize", "table", "dequantize"]


@pytest.mark.parametrize("exponent", [2.0, 3.0, -1.0, 0.5, 1.7])
def test_powers(exponent: float) -> None:
    net = Net()
    positive = net.node("Exp", ["x"])[0]
    check(net, net.node("Pow", [positive, net.const(np.float32(exponent))])[0], quantise=False)


def test_elements_are_gathered_by_their_own_indices() -> None:
    net = Net()
    indices = net.const(net.rng.integers(-9, 9, (1, 3, 2, 7)))
    check(net, net.node("GatherElements", [net.qdq("x", S, 3), indices], axis=2)[0])


@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_over_several_axes(opset: int) -> None:
    net = Net(opset=opset)
    made = net.node("Softmax", [net.qdq("x", 0.02)], axis=2)[0]
    check(net, made, quantise=False)


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_the_last_of_equal_values(kind: str) -> None:
    net = Net()
    check(net, net.node(kind, [net.qdq("x", 1.0)], axis=2, select_last_index=1)[0], quantise=False)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("codes", [True, False])
def test_blocks_of_channels(mode: str, codes: bool) -> None:
    net = Net()
    x = net.qdq("x", S, 3) if codes else "x"
    check(net, net.node("DepthToSpace", [x], blocksize=2, mode=mode)[0], (1, 12, 4, 3), quantise=codes)


def test_training_is_refused() -> None:
    net = Net()
    inputs = [net.qdq("x", S), net.const(np.float32(0.5)), net.const(np.array(True))]
    with pytest.raises(UnsupportedError, match="training"):
        read_onnx(net.model({"x": SHAPE}, net.node("Dropout", inputs)))


def test_parts_without_values_are_refused() -> None:
    net = Net()
    with pytest.raises(ModelError, match="cannot be split"):
        read_onnx(net.model({"x": SHAPE}, net.node("Split", [net.qdq("x", S)], 4, axis=2, num_outputs=4)))


def test_windows_that_onnxruntime_does_not_run_are_refused() -> None:
    net = Net()
    attrs = {"kernel_shape": [2, 2], "strides": [3, 3], "auto_pad": "SAME_UPPER"}
    with pytest.raises(UnsupportedError, match="leave out values"):
        read_onnx(net.model({"x": SHAPE}, net.node("MaxPool", [net.qdq("x", S)], **attrs)))


@pytest.mark.parametrize("pads", [[0, 0, 0], [0, -1, 0, 1], [1] * 6])
def test_paddings_that_are_none_are_refused(pads: list[int]) -> None:
    net = Net()
    made = net.node("MaxPool", [net.qdq("x", S)], kernel_shape=[2, 2], pads=pads)
    with pytest.raises(ModelError, match="are no paddings for 2 dimensions"):
        read_onnx(net.model({"x": SHAPE}, made))


def test_a_reshape_needs_a_shape() -> None:
    net = Net()
    with pytest.raises(ModelError, match="Reshape without a shape"):
        read_onnx(net.model({"x": SHAPE}, net.node("Reshape", [net.qdq("x", S)])))


def test_operators_of_a_later_opset_are_refused() -> None:
    net = Net(opset=9)
    with pytest.raises(ModelError, match="no operator of opset 9"):
        read_onnx(net.model({"x": SHAPE}, [net.q("x", S)]))


def test_indices_may_be_an_input() -> None:
    """Verification does not know which indices make sense."""
    net = Net()
    made = net.node("Gather", [net.qdq("x", S, 3), "i"], axis=2)
    data = model_of(net, {"x": (FLOAT, SHAPE), "i": (TensorProto.INT64, (3,))}, made)
    x = np.random.default_rng(1).uniform(-2, 2, SHAPE).astype(np.float32)
    same(data, {"x": x, "i": np.array([0, -1, 8])}, codes=1.0, scale=S)
    assert compile_graph(read_onnx(data), Options()).report is not None


@pytest.mark.parametrize("index", [9, -10])
def test_constant_indices_outside_are_refused(index: int) -> None:
    net = Net()
    made = net.node("Gather", [net.qdq("x", S, 3), net.const(np.array([index]))], axis=2)
    with pytest.raises(ModelError, match="indices"):
        read_onnx(net.model({"x": SHAPE}, made))


@pytest.mark.parametrize("formats", [((0.005, 3), (0.05, -4)), ((0.05, 3), (0.005, -4))])
def test_parts_have_formats_of_their_own(formats: tuple[tuple[float, int], ...]) -> None:
    """None goes through the format of another, which may be too narrow or too coarse for it."""
    net = Net()
    parts = net.node("Split", [net.qdq("x", 0.02, -5)], 2, axis=2, num_outputs=2)
    outputs = [net.qdq(part, *kind) for part, kind in zip(parts, formats, strict=True)]
    x = np.random.default_rng(1).uniform(-2.6, 2.6, SHAPE).astype(np.float32)
    for found, wanted, (scale, _) in zip(*_both(net, outputs, x), formats, strict=True):
        assert np.abs(found - wanted).max() <= 1.001 * scale


def _both(net: Net, outputs: list[str], x: Any) -> tuple[list[Any], list[Any]]:
    data = model_of(net, {"x": (FLOAT, SHAPE)}, outputs)
    return emulated(data, {"x": x}), run(data, {"x": x})


def test_limits_behind_real_numbers() -> None:
    """The product stays real, and so does its mean; the limits of the codes behind it are none of real numbers."""
    net = Net()
    product = net.node("Mul", [net.qdq("x", 0.02), net.qdq(net.node("Relu", ["x"])[0], 0.021, 29)])[0]
    mean = net.node("ReduceMean", [product, net.const(np.array([3]))])[0]
    check(net, net.node("Clip", [mean, net.const(np.float32(-0.2)), net.const(np.float32(0.4))])[0])
