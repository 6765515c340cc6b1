"""ONNX models: pairs are fused, shapes folded, results equal to an ONNX runtime within one code."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.ir import Graph
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import AtoncError, ModelError, UnsupportedError
from tests.frontends.onnx_models import Net, run

S, Z = 0.03, -7  # scale and zero point of most results here


def close(net: Net, shape: tuple[int, ...], output: str, scale: float = S, codes: float = 1.01) -> Graph:
    """Reads and runs the model; its output may differ by one code."""
    data = net.model({"x": shape}, [output])
    graph = read_onnx(data)
    x = np.random.default_rng(1).uniform(-2, 2, shape).astype(np.float32)
    expected = run(data, {"x": x})[0]
    found = run_graph(graph, {"x": x})[graph.outputs[0]]
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= codes * scale
    return graph


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def test_a_convolution_becomes_one_operator() -> None:
    net = Net()
    x = net.qdq("x", 0.02, 5)
    y = net.qdq(net.conv(x, (6, 3, 3, 3), 0.02, pads=[1, 1, 1, 1], strides=[2, 2]), S, Z)
    graph = close(net, (1, 3, 9, 10), y)
    assert kinds(graph) == ["quantize", "conv", "dequantize"]
    conv = graph.ops[1]
    assert graph.tensors[conv.inputs[1]].shape == (6, 3, 3, 3)
    assert graph.tensors[conv.outputs[0]].quant is not None


@pytest.mark.parametrize("attrs", [
    {"group": 4}, {"dilations": [2, 2]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"auto_pad": "SAME_LOWER"},
])  # fmt: skip
def test_convolution_attributes(attrs: dict[str, Any]) -> None:
    net = Net()
    shape = (8, 4 // attrs.get("group", 1), 3, 2)
    y = net.qdq(net.conv(net.qdq("x", 0.02), shape, 0.02, **attrs), S, Z)
    close(net, (1, 4, 9, 9), y)


def test_sequences() -> None:
    net = Net()
    y = net.qdq(net.conv(net.qdq("x", 0.02), (5, 4, 3), 0.02, pads=[1, 1], dilations=[1]), S, Z)
    close(net, (1, 4, 11), y)


def test_transposed_convolution() -> None:
    net = Net()
    weights = net.dq(net.const(net.rng.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8)), 0.01)
    made = net.node("ConvTranspose", [net.qdq("x", 0.02), weights], strides=[2, 2], pads=[1, 1, 1, 1],
                    output_padding=[1, 1])[0]  # fmt: skip
    close(net, (1, 3, 5, 5), net.qdq(made, 0.06, Z), scale=0.06)


def test_groups_of_a_transposed_convolution_share_the_scales_of_its_channels() -> None:
    net = Net()
    weights, _ = net.weights((6, 2, 3, 3), axis=1)
    made = net.node("ConvTranspose", [net.qdq("x", 0.02), weights], strides=[2, 2], group=3)[0]
    close(net, (1, 6, 4, 4), net.qdq(made, 0.06, Z), scale=0.06)


def test_relu_between_convolution_and_quantisation_stays_exact() -> None:
    net = Net()
    inner = net.node("Relu", [net.conv(net.qdq("x", 0.02), (4, 3, 1, 1), 0.02)])[0]
    graph = close(net, (1, 3, 4, 4), net.qdq(inner, S, -128))
    assert kinds(graph) == ["quantize", "conv", "relu", "dequantize"]
    assert graph.tensors[graph.ops[1].outputs[0]].is_float  # not rounded in between


def test_dense_layers() -> None:
    net = Net()
    weights, scales = net.weights((6, 8))
    y = net.node("Gemm", [net.qdq("x", 0.02), weights, net.bias(scales * np.float32(0.02))], transB=1)[0]
    close(net, (2, 8), net.qdq(y, S, Z))
    net = Net()
    weights, _ = net.weights((8, 6), axis=1)
    close(net, (1, 4, 8), net.qdq(net.node("MatMul", [net.qdq("x", 0.02), weights])[0], S, Z))
    net = Net()
    x = net.qdq("x", 0.02)
    turned = net.node("Transpose", [x], perm=[0, 2, 1])[0]
    close(net, (1, 4, 8), net.qdq(net.node("MatMul", [x, turned])[0], 0.1), scale=0.1)


@pytest.mark.parametrize(("kind", "attrs"), [
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("GlobalAveragePool", {}), ("GlobalMaxPool", {}),
    ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"alpha": 0.1}), ("HardSigmoid", {}), ("HardSwish", {}), ("Elu", {}),
    ("Softmax", {"axis": 1}), ("Exp", {}), ("Transpose", {"perm": [0, 2, 3, 1]}), ("Flatten", {}),
    ("DepthToSpace", {"blocksize": 2}), ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", {"blocksize": 3}),
])  # fmt: skip
def test_one_input(kind: str, attrs: dict[str, Any]) -> None:
    net = Net()
    graph = close(net, (1, 4, 9, 9), net.qdq(net.node(kind, [net.qdq("x", 0.02)], **attrs)[0], S, Z))
    assert len(graph.ops) == 3


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Max", "Min", "PRelu"])
def test_two_inputs(kind: str) -> None:
    net = Net()
    other = net.dq(net.const(net.rng.integers(-127, 128, (4, 1, 1)).astype(np.int8)), 0.02)
    close(net, (1, 4, 3, 3), net.qdq(net.node(kind, [net.qdq("x", 0.02), other])[0], 0.05, 3), scale=0.05)


def test_clip_with_an_empty_input() -> None:
    net = Net()
    y = net.node("Clip", [net.qdq("x", 0.02), "", net.const(np.float32(1.0))])[0]
    close(net, (1, 4, 3, 3), net.qdq(y, S))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("rounding", ["floor", "round_prefer_floor"])
def test_resize(mode: str, coordinates: str, rounding: str) -> None:
    net = Net()
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    sizes = net.const(np.array([1, 2, 6, 10], np.int64))
    y = net.node("Resize", [net.qdq("x", 0.02), "", "", sizes], **attrs)[0]
    close(net, (1, 2, 3, 5), net.qdq(y, 0.02), scale=0.02)


def test_slices_splits_and_gathers() -> None:
    net = Net()
    x = net.qdq("x", 0.02)
    far = net.const(np.array([2**63 - 1], np.int64))
    part = net.node("Slice", [x, net.const(np.array([1], np.int64)), far, net.const(np.array([2], np.int64))])[0]
    first, second = net.node("Split", [part], 2, axis=1, num_outputs=2)
    close(net, (1, 4, 5, 5), net.qdq(net.node("Concat", [second, first], axis=3)[0], S))
    net = Net()
    picked = net.node("Gather", [net.qdq("x", 0.02), net.const(np.array([2, 0], np.int64))], axis=1)[0]
    close(net, (1, 4, 5), net.qdq(picked, S))


def test_shape_arithmetic_is_folded_and_the_batch_fixed() -> None:
    net = Net()
    x = net.qdq("x", 0.02)
    batch = net.node("Gather", [net.node("Shape", [x])[0], net.const(np.int64(0))], axis=0)[0]
    batch = net.node("Unsqueeze", [batch, net.const(np.array([0], np.int64))])[0]
    shape = net.node("Concat", [batch, net.const(np.array([-1], np.int64))], axis=0)[0]
    y = net.qdq(net.node("Reshape", [x, shape])[0], 0.02)
    graph = read_onnx(net.model({"x": ("batch", 3, 4)}, [y]))
    assert kinds(graph) == ["quantize", "reshape", "dequantize"]
    assert graph.tensors["x"].shape == (1, 3, 4)
    assert graph.tensors[graph.outputs[0]].shape == (1, 12)


def test_qlinear_forms() -> None:
    net = Net()
    weights = net.const(net.rng.integers(-127, 128, (5, 3, 3, 3)).astype(np.int8))
    scales = net.const(net.rng.uniform(0.004, 0.01, 5).astype(np.float32))
    bias = net.const(net.rng.integers(-500, 500, 5).astype(np.int32))
    x_scale, x_zero = net.const(np.float32(0.02)), net.const(np.int8(4))
    y_scale, y_zero = net.const(np.float32(S)), net.const(np.int8(Z))
    x = net.node("QuantizeLinear", ["x", x_scale, x_zero])[0]
    inputs = [x, x_scale, x_zero, weights, scales, net.const(np.zeros(5, np.int8)), y_scale, y_zero, bias]
    y = net.node("QLinearConv", inputs, pads=[1, 1, 1, 1])[0]
    graph = close(net, (1, 3, 6, 6), net.node("DequantizeLinear", [y, y_scale, y_zero])[0])
    assert kinds(graph) == ["quantize", "conv", "dequantize"]


def test_uint8_activations() -> None:
    net = Net()
    x = net.qdq("x", 0.02, 128, "uint8")
    close(net, (1, 3, 5, 5), net.qdq(net.conv(x, (4, 3, 1, 1), 0.02), S, 120, "uint8"))


def test_a_value_that_others_read_is_not_swallowed() -> None:
    net = Net()
    summed = net.node("Add", [net.qdq("x", 0.02), net.qdq("x", 0.03)])[0]
    rounded = net.qdq(summed, S)
    close(net, (1, 6), net.qdq(net.node("Sub", [summed, rounded])[0], 0.001), scale=0.001)


def test_nodes_may_come_in_any_order() -> None:
    """Some tools append the pairs behind the operators that read them."""
    net = Net()
    y = net.qdq(net.conv(net.qdq("x", 0.02), (6, 3, 3, 3), 0.02), S, Z)
    wanted = kinds(close(net, (1, 3, 9, 10), y))
    net.nodes.reverse()
    assert kinds(read_onnx(net.model({"x": (1, 3, 9, 10)}, [y]))) == wanted


def test_codes_that_are_cast_to_their_own_type() -> None:
    """PyTorch writes such casts."""
    net = Net()
    codes = net.node("Cast", [net.q("x", 0.02, 3)], to=TensorProto.INT8)[0]
    y = net.qdq(net.conv(net.dq(codes, 0.02, 3), (6, 3, 3, 3), 0.02), S, Z)
    assert kinds(close(net, (1, 3, 9, 10), y)) == ["quantize", "conv", "dequantize"]


def four_bits(net: Net, values: Any) -> str:
    name = net.name("w")
    net.constants.append(helper.make_tensor(name, TensorProto.INT4, values.shape, values.reshape(-1).tolist()))
    return name


def test_weights_of_four_bits() -> None:
    net = Net()
    codes = four_bits(net, net.rng.integers(-8, 8, (5, 3, 3, 3)))  # an odd number of them
    scales = net.const(np.linspace(0.1, 0.2, 5, dtype=np.float32))
    weights = net.node("DequantizeLinear", [codes, scales, four_bits(net, np.zeros(5, int))], axis=0)[0]
    y = net.qdq(net.node("Conv", [net.qdq("x", 0.02), weights])[0], 0.2)
    graph = close(net, (1, 3, 6, 6), y, 0.2)
    assert kinds(graph) == ["quantize", "conv", "dequantize"]
    net = Net()
    y = net.node("QuantizeLinear", ["x", net.const(np.float32(0.1)), four_bits(net, np.array(0))])[0]
    with pytest.raises(UnsupportedError, match="4 bits"):
        read_onnx(net.model({"x": (1, 3)}, [y]))


@pytest.mark.parametrize("given", [False, True])
def test_codes_are_padded_with_codes(given: bool) -> None:
    """In the QLinear forms a pad reads codes, and without a value it adds the code 0."""
    net = Net()
    inputs = [net.q("x", 0.02, 5), net.const(np.array([0, 0, 1, 0, 0, 0, 2, 1]))]
    padded = net.node("Pad", [*inputs, net.const(np.int8(17))] if given else inputs)[0]
    graph = close(net, (1, 2, 3, 3), net.dq(padded, 0.02, 5), 0.02, 0.01)
    assert kinds(graph) == ["quantize", "pad", "dequantize"]


def test_outputs_without_a_type_are_what_their_node_gives() -> None:
    net = Net()
    codes = net.q("x", 0.02, 3)
    y = net.dq(codes, 0.02, 3)
    model = onnx.ModelProto.FromString(net.model({"x": (1, 4)}, [codes, y]))
    for output in model.graph.output:
        output.ClearField("type")
    graph = read_onnx(model.SerializeToString())
    assert [graph.tensors[name].dtype for name in graph.outputs] == ["int8", "float32"]


def test_constant_outputs_are_written_by_an_operator() -> None:
    net = Net()
    weights, _ = net.weights((3, 4))
    graph = read_onnx(net.model({"x": (1, 4)}, [net.qdq("x", 0.02), weights]))
    assert kinds(graph) == ["quantize", "dequantize", "identity"]
    assert not any(graph.tensors[name].is_constant for name in graph.outputs)


# --- what is refused -------------------------------------------------------------------------------------------


def test_clear_refusals() -> None:
    net = Net()
    loop = net.node("LSTM", [net.qdq("x", 0.02)])[0]
    with pytest.raises(UnsupportedError, match="LSTM"):
        read_onnx(net.model({"x": (1, 2, 3)}, [loop]))
    net = Net()
    with pytest.raises(ModelError, match="not fixed"):
        read_onnx(net.model({"x": (1, "width", 3)}, [net.qdq("x", 0.02)]))
    for junk in (b"", b"not a model", bytes(100)):
        with pytest.raises(ModelError):
            read_onnx(junk)


def test_external_data_is_never_followed() -> None:
    net = Net()
    y = net.qdq("x", 0.02)
    model = onnx.ModelProto.FromString(net.model({"x": (1, 3)}, [y]))
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../secret"
    with pytest.raises(UnsupportedError, match="other files"):
        read_onnx(model.SerializeToString())


def test_small_files_cannot_claim_large_constants() -> None:
    constant = numpy_helper.from_array(np.zeros(1, np.float32), "big")
    constant.dims[:] = [1 << 15, 1 << 15]
    node = helper.make_node("Add", ["x", "big"], ["y"])
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", info[:1], info[1:], [constant]))
    with pytest.raises(ModelError, match="stores"):
        read_onnx(model.SerializeToString())


def test_damaged_files_end_in_one_clear_error() -> None:
    net = Net()
    y = net.qdq(net.conv(net.qdq("x", 0.02), (6, 3, 3, 3), 0.02), S, Z)
    good = net.model({"x": (1, 3, 9, 10)}, [y])
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(good)
        for position in rng.integers(0, len(good), rng.integers(1, 6)):
            damaged[position] = rng.integers(0, 256)
        cut = len(good) if rng.random() < 0.7 else int(rng.integers(1, len(good)))
        try:
            read_onnx(bytes(damaged[:cut]))
        except AtoncError as error:
            assert str(error)
