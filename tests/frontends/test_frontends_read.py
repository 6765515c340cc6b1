"""The common reader: kinds of files, cuts, named sizes, coverage, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from atonc.compiler.frontends.coverage import coverage, require_quantised
from atonc.compiler.frontends.limits import parse_fixed_shapes, refuse
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.read import read
from atonc.compiler.frontends.tails import UNCUT
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import run as run_passes
from atonc.machine.base.errors import AtoncError, InputError, ModelError, UnsupportedError
from tests.frontends.onnx_models import Net
from tests.frontends.onnx_models import run as run_onnx
from tests.frontends.tflite_models import O, T, build
from tests.patience import growth


def onnx_net(opset: int = 21) -> tuple[Net, str]:
    net = Net(opset=opset)
    x = net.qdq("x", 0.05, -3)
    return net, net.qdq(net.conv(x, (6, 4, 3, 3), 0.05, pads=[1, 1, 1, 1]), 0.2, 5)


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    net, y = onnx_net()
    path = tmp_path / "model_OE_3_1_0.onnx"
    path.write_bytes(net.model({"x": (1, 4, 6, 6)}, [y]))
    graph = read(path)
    assert graph.source == "onnx" and "intermediate file" in graph.notes[0]
    foreign = tmp_path / "model.h5"
    foreign.write_bytes(b"x")
    with pytest.raises(UnsupportedError, match="TFLite or ONNX"):
        read(foreign)
    with pytest.raises(InputError):
        read(tmp_path / "absent.onnx")


@pytest.mark.parametrize("text", ["{'B': 1, 'T': 16}", '{"B": 1, "T": 16}', "B=1,T=16", "B:1, T:16"])
def test_named_sizes(text: str) -> None:
    assert parse_fixed_shapes(text) == {"B": 1, "T": 16}


@pytest.mark.parametrize(
    "text", ["{'B': '1'}", "{1: 2}", "B", "{", "B=1;T=2", "2,B=1", "B=", "{'B': None}", "x" * 9999]
)
def test_bad_sizes_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_fixed_shapes(text)


@pytest.mark.parametrize(
    ("text", "given"),
    [("x=0", 0), ("x=-1.5", -1.5), ("x=true", True), ("x=0,2", [0, 2]), ("x = [0, -2]", [0, -2]), ("x=[]", []),
     ("x=1e-3", 1e-3), ("{'x': [[1, 2], [3, 4]]}", [[1, 2], [3, 4]]), ('{"x": [true, false]}', [True, False])],
)  # fmt: skip
def test_values(text: str, given: object) -> None:
    assert parse_fixed_shapes(text) == {"x": given}
    if not text.startswith("{"):
        assert parse_fixed_shapes(f"B=1,{text},T=16") == {"B": 1, "x": given, "T": 16}


def test_values_of_inputs() -> None:
    """Whatever type they have; a number fills the input, a list has its elements."""
    kinds = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64, "b": onnx.TensorProto.BOOL}
    shapes = {"f": (2, 2), "i": (2,), "b": (), "open": ("N",)}
    inputs = [helper.make_tensor_value_info(n, kinds.get(n, onnx.TensorProto.INT64), s) for n, s in shapes.items()]
    node = helper.make_node("ReduceSum", ["x", "open"], ["y"], keepdims=1)
    inputs.append(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 4)))
    nodes = [node, *(helper.make_node("Identity", [n], [f"{n}2"]) for n in "fib")]
    outputs = [helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in ("y", "f2", "i2", "b2")]
    data = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs)).SerializeToString()
    with pytest.raises(UnsupportedError, match=r"axes computed(?s:.*)--fix-parametric-shapes open=VALUE"):
        read_onnx(data)
    given = {"f": [[1, 2], [3, 4.5]], "i": -7, "b": True, "open": [0, 2]}
    graph = read_onnx(data, fixed_shapes=given)
    assert graph.inputs == ("x",) and graph.tensors["y"].shape == (1, 3, 1)
    values = {n: graph.tensors[graph.producers[f"{n}2"].inputs[0]].data.tolist() for n in "fib"}
    assert values == {"f": [[1.0, 2.0], [3.0, 4.5]], "i": [-7, -7], "b": True}
    for wrong in ({"i": 0.5}, {"i": [1, 2, 3]}, {"b": 2}, {"f": [1, 2]}, {"open": [[1]]}, {"f": [[1, 2], [3]]}):
        with pytest.raises(InputError, match=r"--fix-parametric-shapes"):
            read_onnx(data, fixed_shapes=given | wrong)
    for size in (0, True, "a", 1.5):
        with pytest.raises(InputError, match="cannot have the size"):
            read_onnx(onnx_net()[0].model({"x": ("B", 4, 8, 6)}, [onnx_net()[1]]), fixed_shapes={"B": size})


def test_named_dimensions_are_fixed_and_open_ones_named() -> None:
    net, y = onnx_net()
    data = net.model({"x": ("B", 4, "H", 6)}, [y])
    graph = read_onnx(data, fixed_shapes={"H": 8})
    assert graph.tensors["x"].shape == (1, 4, 8, 6)
    with pytest.raises(ModelError, match=r"not fixed \('H'\)(?s:.*)--fix-parametric-shapes H=SIZE"):
        read_onnx(data)
    with pytest.raises(InputError, match=r"no dimension 'W'(?s:.*)'B', 'H'"):
        read_onnx(data, fixed_shapes={"H": 8, "W": 8})
    unnamed = net.model({"x": ("B", 4, None, 6)}, [y])
    with pytest.raises(ModelError, match=r"not fixed \('unnamed'\)(?s:.*)--fix-parametric-shapes x:2=SIZE"):
        read_onnx(unnamed)
    assert read_onnx(unnamed, fixed_shapes=parse_fixed_shapes("x:2=8,B=1")).tensors["x"].shape == (1, 4, 8, 6)
    with pytest.raises(InputError, match=r"no dimension 'x:3'(?s:.*)'B', 'x:2'"):  # that one has its size
        read_onnx(unnamed, fixed_shapes={"x:2": 8, "x:3": 8})


def test_a_cut_hides_what_is_not_supported() -> None:
    net, y = onnx_net()
    net.node("NonZero", [y])
    data = net.model({"x": (1, 4, 6, 6)}, [net.nodes[-1].output[0]])
    with pytest.raises(UnsupportedError, match=rf"NonZero(?s:.*)--cut-output-tensors {y}$"):
        read_onnx(data, cut_outputs=UNCUT)
    assert read_onnx(data).outputs == (y,)
    conv = next(node for node in net.nodes if node.op_type == "Conv")
    for name in (conv.output[0], conv.name, y):
        graph = read_onnx(data, cut_outputs=(name,))
        assert graph.ops[-1].kind == "conv" and graph.tensors[graph.outputs[0]].quant is not None
    with pytest.raises(InputError, match="did you mean"):
        read_onnx(data, cut_outputs=(conv.output[0] + "_",))


def test_names_of_the_source_lead_to_tensors() -> None:
    net, y = onnx_net()
    graph = read_onnx(net.model({"x": (1, 4, 6, 6)}, [y]))
    conv = next(node for node in net.nodes if node.op_type == "Conv")
    assert graph.aliases[conv.output[0]] in graph.producers


def test_a_cut_in_a_tflite_file() -> None:
    tensors = [T("x", (1, 4), scale=0.1), T("y", (1, 4), scale=0.1), T("z", (1, 4), scale=0.1)]
    data = build(tensors, [O("TANH", ["x"], ["y"]), O("LSTM", ["y"], ["z"])], ["x"], ["z"])
    with pytest.raises(UnsupportedError, match="LSTM_1: LSTM keeps a state"):
        read_tflite(data)
    graph = read_tflite(data, cut_outputs=("y",))
    assert graph.outputs == ("y",) and len(graph.ops) == 1
    with pytest.raises(InputError, match="no tensor 'w'"):
        read_tflite(data, cut_outputs=("w",))


def test_suppression_in_a_tflite_file_is_left_to_the_application() -> None:
    tensors = [T("x", (9, 4), scale=0.1), T("boxes", (9, 4), scale=0.1), T("scores", (9,), scale=0.1),
               T("most", (), "int32", data=[7]), T("iou", (), "float32", data=[0.5]),
               T("least", (), "float32", data=[0.25]), T("places", (7,), "int32"), T("found", (), "int32"),
               T("row", (1,), "int32", data=[1])]  # fmt: skip
    nms = O("NON_MAX_SUPPRESSION_V4", ["boxes", "scores", "most", "iou", "least"], ["places", "found"])
    ops = [O("RELU", ["x"], ["boxes"]), O("REDUCE_MAX", ["boxes", "row"], ["scores"]), nms]
    data = build(tensors, ops, ["x"], ["places", "found"])
    graph = read_tflite(data)
    assert graph.outputs == ("boxes",) and graph.tail is not None
    assert [one.kind for one in graph.tail.operators] == ["REDUCE_MAX", "NON_MAX_SUPPRESSION_V4"]
    assert graph.tail.operators[1].values == {"boxes": 7, "IoU": 0.5, "score": 0.25}
    assert any("(boxes 7, IoU 0.5, score 0.25)" in note for note in graph.notes)
    with pytest.raises(UnsupportedError, match="NON_MAX_SUPPRESSION_V4"):
        read_tflite(data, cut_outputs=UNCUT)


@pytest.mark.parametrize(("kind", "words"), [
    ("LSTM", "state"), ("UNIDIRECTIONAL_SEQUENCE_LSTM", "state"),
    ("WHILE", "other graphs"), ("MatMulInteger", "run time"),
    ("CUSTOM 'SignalRfft'", "--front-end micro_speech"),
    ("CUSTOM 'TFLite_Detection_PostProcess'", "operator of the user"), ("NonMaxSuppression", "not supported"),
])  # fmt: skip
def test_refusals_say_why(kind: str, words: str) -> None:
    error = refuse(kind, "node_7")
    assert words in str(error) and "node_7" in str(error) and error.remedy


def test_refusals_name_the_tensors_to_stop_at() -> None:
    tensors = [T("x", (1, 4), scale=0.1), T("m", (1, 4), scale=0.1), T("y", (1, 4), scale=0.1)]
    ops = [O("RELU", ["x"], ["m"]), O("SVDF", ["m", "x"], ["y"]), O("CUMSUM", ["m"], ["y"])]
    with pytest.raises(UnsupportedError, match="--cut-output-tensors m"):
        read_tflite(build(tensors, [ops[0], ops[2]], ["x"], ["y"]))
    assert "cut the model" in refuse("SVDF", "node_7", ["m"]).remedy


def test_every_refusal_has_a_rule_and_a_remedy(tmp_path: Path) -> None:
    """Whoever raised it."""
    net = Net()
    y = net.node("Conv", ["x", net.node("Relu", ["w"])[0]])[0]
    path = tmp_path / "late.onnx"
    path.write_bytes(net.model({"x": (1, 4, 6, 6), "w": (3, 4, 3, 3)}, [y]))
    said = r"computed at run time(?s:.*cause:.*fix: give its value: .*w=VALUE\n.*fix: make it a .*tensors relu_1)$"
    with pytest.raises(UnsupportedError, match=said):
        read(path)
    path = tmp_path / "text.tflite"
    path.write_bytes(build([T("x", (1,), "text"), T("y", (1,))], [O("RELU", ["x"], ["y"])], ["x"], ["y"]))
    with pytest.raises(UnsupportedError, match=r"cause: .*reference/ops(?s:.*fix: .*--cut-output-tensors)"):
        read(path)


# --- coverage ------------------------------------------------------------------------------------------------------


def test_float_models_are_told_which_quantiser_to_use() -> None:
    net = Net()
    weights = net.const(np.ones((6, 4, 3, 3), np.float32))
    y = net.node("Relu", net.node("Conv", ["x", weights]))[0]
    graph = read_onnx(net.model({"x": (1, 4, 6, 6)}, [y]))
    found = coverage(graph)
    assert found.percent == 0.0 and [node.kind for node in found.float_nodes] == ["conv", "relu"]
    assert found.float_nodes[0].size_bytes == 4 * (144 + 96 + 216)
    with pytest.raises(ModelError, match=r"all 2 operators(?s:.*\(conv, 1,824 bytes\).*)quantize_static"):
        require_quantised(graph)


def test_hybrid_models_are_recognised() -> None:
    tensors = [
        T("x", (1, 4), "float32"),
        T("w", (3, 4), scale=0.1, data=np.ones((3, 4))),
        T("y", (1, 3), "float32"),
    ]
    graph = read_tflite(build(tensors, [O("FULLY_CONNECTED", ["x", "w"], ["y"])], ["x"], ["y"]))
    (node,) = require_quantised(graph).float_nodes  # runs on the CPU
    assert "only its weights are quantised" in node.why


def test_islands_are_listed_and_tolerated() -> None:
    net, y = onnx_net()
    z = net.node("Sin", net.node("Conv", [y, net.const(np.ones((2, 6, 1, 1), np.float32))]))[0]
    found = require_quantised(read_onnx(net.model({"x": (1, 4, 6, 6)}, [z])))
    assert found.quantised == 1 and found.percent == pytest.approx(100 / 3)
    assert "weights" in found.float_nodes[0].why and "input" in found.float_nodes[1].why


# --- opsets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [11, 13, 16, 18, 19, 21])
def test_opsets(opset: int) -> None:
    net = Net(opset=opset)
    if opset < 13:  # no scales per channel yet
        y = net.qdq("x", 0.05, -3)
    else:
        y = onnx_net(opset)[1]
        net = onnx_net(opset)[0]
    axes = [net.const(np.array([2, 3]))] if opset >= 18 else []
    attrs = {} if opset >= 18 else {"axes": [2, 3]}
    y = net.node("ReduceMean", [y, *axes], keepdims=1, **attrs)[0]
    y = net.qdq(net.node("Clip", [y, "", net.const(np.float32(2.0))])[0], 0.05)
    y = net.node("Reshape", [y, net.const(np.array([0, -1]))])[0]
    y = net.node(
        "Slice", [y, net.const(np.array([1])), net.const(np.array([(1 << 63) - 1])), net.const(np.array([1]))]
    )[0]
    data = net.model({"x": (1, 4, 6, 6)}, [y])
    x = np.random.default_rng(0).uniform(-3, 3, (1, 4, 6, 6)).astype(np.float32)
    for graph in (read_onnx(data), run_passes(read_onnx(data))):
        found = run_graph(graph, {"x": x})[graph.outputs[0]]
        np.testing.assert_allclose(found, run_onnx(data, {"x": x})[0], atol=0.051)


def test_sums_of_several_and_resizes_of_some_axes() -> None:
    net = Net(opset=19)
    x = net.qdq("x", 0.05)
    y = net.node("Max", [net.node("Sum", [x, x, x])[0], x, net.const(np.float32(0.5))])[0]
    y = net.node("Resize", [y, "", net.const(np.array([2.0, 2.0], np.float32))], axes=[2, 3], mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")[0]  # fmt: skip
    data = net.model({"x": (1, 2, 3, 4)}, [y])
    value = np.random.default_rng(0).uniform(-3, 3, (1, 2, 3, 4)).astype(np.float32)
    graph = read_onnx(data)
    found = run_graph(graph, {"x": value})[graph.outputs[0]]
    np.testing.assert_allclose(found, run_onnx(data, {"x": value})[0], atol=1e-5)


def test_reshape_with_zeros_that_mean_zero() -> None:
    net = Net()
    y = net.node("Reshape", [net.qdq("x", 0.1), net.const(np.array([0, 4]))], allowzero=1)[0]
    with pytest.raises(AtoncError, match="cannot become"):
        read_onnx(net.model({"x": (1, 4)}, [y]))


def test_long_chains_on_codes_are_counted_in_one_walk() -> None:
    def counted(count: int) -> Callable[[], object]:
        tensors = {f"t{k}": Tensor(f"t{k}", (1, 4), "int8", Quantisation.per_tensor(0.1)) for k in range(count + 1)}
        ops = tuple(Op("relu", f"r{k}", (f"t{k}",), (f"t{k + 1}",)) for k in range(count))
        graph = Graph(tensors, ops, ("t0",), (f"t{count}",))
        assert coverage(graph).quantised == count
        return lambda: coverage(graph)

    assert growth(counted, 100) < 2.5
