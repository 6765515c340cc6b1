"""Where codes are is read from the quantised file: which tensors, which of them share a scale, weights and biases with
the scales that belong to them. No PyTorch here."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="atonc[models] is not installed")

from onnx import TensorProto, helper, numpy_helper

from atonc.insight.training.coded_graph import CodedGraph
from atonc.insight.training.types import PrepareOptions
from atonc.machine.base.errors import InputError, UnsupportedError


def qdq(zero: np.generic | None = None, bits: int = 8) -> bytes:
    """x -> Conv+Relu -> MaxPool, joined with x: codes of x, of the layer and of its maxima, which share a scale."""
    zero = np.int8(-128) if zero is None else zero
    constants = {
        "a_scale": np.float32(0.5), "a_zero": np.int8(3), "b_scale": np.float32(0.25), "b_zero": zero,
        "w": np.array([[[[7]]], [[[-3]]]], np.int8), "w_scale": np.array([0.1, 0.2], np.float32),
        "w_zero": np.zeros(2, np.int8), "bias": np.array([5, -5], np.int32),
        "bias_scale": np.array([0.05, 0.1], np.float32), "bias_zero": np.zeros(2, np.int32),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "a_scale", "a_zero"], ["xq"], "xq"),
        node("DequantizeLinear", ["xq", "a_scale", "a_zero"], ["xd"], "xd"),
        node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wd"], "wd", axis=0),
        node("DequantizeLinear", ["bias", "bias_scale", "bias_zero"], ["biasd"], "biasd", axis=0),
        node("Conv", ["xd", "wd", "biasd"], ["c"], "stem.conv/Conv"),
        node("Relu", ["c"], ["r"], "stem.act/Relu"),
        node("QuantizeLinear", ["r", "b_scale", "b_zero"], ["rq"], "rq"),
        node("DequantizeLinear", ["rq", "b_scale", "b_zero"], ["rd"], "rd"),
        node("MaxPool", ["rd"], ["m"], "pool/MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
        node("QuantizeLinear", ["m", "b_scale", "b_zero"], ["mq"], "mq"),
        node("DequantizeLinear", ["mq", "b_scale", "b_zero"], ["y"], "y"),
    ]
    shapes = ("x", (1, 1, 4, 4)), ("y", (1, 2, 2, 2))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes]
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    if bits == 4:
        stored[4] = helper.make_tensor("w", TensorProto.INT4, (2, 1, 1, 1), b"\xd7", raw=True)
    graph = helper.make_graph(nodes, "small", values[:1], values[1:], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(made.SerializeToString())


def test_codes_stand_where_the_file_has_them() -> None:
    graph = CodedGraph.of(qdq())
    assert list(graph.activations) == ["xq", "rq", "mq"], "none between Conv and Relu"
    assert [node.name for node in graph.nodes] == ["stem.conv/Conv", "stem.act/Relu", "pool/MaxPool"]
    assert graph.activations["xq"].is_input and not graph.activations["rq"].is_input


def test_what_a_move_gives_on_shares_its_scale() -> None:
    groups = {name: one.group for name, one in CodedGraph.of(qdq()).activations.items()}
    assert groups["rq"] == groups["mq"] != groups["xq"]


@pytest.mark.parametrize("bits", [8, 4])
def test_a_layer_knows_its_weights_bias_and_input(bits: int) -> None:
    graph = CodedGraph.of(qdq(bits=bits))
    weights, bias = graph.weights["wd"], graph.biases["biasd"]
    assert (weights.codes, weights.axis, weights.bits, weights.bias) == ("w", 0, bits, "biasd")
    assert (bias.weights, bias.source) == ("wd", graph.activations["xq"].group)
    assert graph.constants["w"].reshape(-1).tolist() == [7, -3]


def test_sixteen_bits_are_refused_with_the_tensor() -> None:
    with pytest.raises(UnsupportedError, match="rq: activations of other than 8 bits"):
        CodedGraph.of(qdq(zero=np.int16(0)))


@pytest.mark.parametrize("wrong", [{"scales": "loose"}, {"momentum": 1.0}, {"power_of_two": "yes"}])
def test_wishes_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        PrepareOptions(**wrong)  # type: ignore[arg-type]
