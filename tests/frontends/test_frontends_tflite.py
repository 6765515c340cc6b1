"""TFLite files: what is read, and that no damaged file does more harm than one clear error."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.frontends import limits, tflite_file
from atonc.compiler.frontends.tflite import read_file, read_tflite
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import AtoncError, InputError, ModelError, UnsupportedError
from tests.frontends.tflite_models import O, T, build, chain_model, conv_model


def test_a_network_in_small() -> None:
    graph = read_tflite(chain_model(), "chain")
    assert [op.kind for op in graph.ops] == [
        "quantize", "conv", "conv", "add", "mean", "dense", "softmax", "dequantize",
    ]  # fmt: skip
    assert (graph.inputs, graph.outputs, graph.source) == (("pixels",), ("out",), "tflite")
    conv = graph.ops[1]
    assert conv.attrs["padding"] == (1, 1, 1, 1)
    assert graph.ops[2].attrs["activation"] == "relu6"
    assert graph.tensors[conv.inputs[2]].quant is None  # biases count in accumulator units
    assert graph.tensors["x"].scale == pytest.approx(0.01)
    assert graph.tensors["w1"].quant is not None
    assert not graph.tensors["w1"].quant.is_per_tensor


def test_padding_is_explicit_and_the_odd_pixel_comes_last() -> None:
    graph = read_tflite(conv_model((1, 6, 7, 3), 5, (3, 3), stride=2))
    assert graph.ops[0].attrs["padding"] == (0, 1, 1, 1)


def test_depthwise_weights_are_turned() -> None:
    scales = [0.1, 0.2, 0.3, 0.4]
    weights = np.arange(36).reshape(1, 3, 3, 4)
    tensors = [
        T("x", (1, 5, 5, 2), scale=0.1),
        T("w", (1, 3, 3, 4), scale=scales, axis=3, data=weights),
        T("y", (1, 5, 5, 4), scale=0.1),
    ]
    fields = {1: ("i", 1), 2: ("i", 1), 3: ("i", 2), 5: ("i", 1), 6: ("i", 1)}
    op = O("DEPTHWISE_CONV_2D", ["x", "w", "-"], ["y"], "DepthwiseConv2DOptions", fields)
    graph = read_tflite(build(tensors, [op], ["x"], ["y"]))
    made = graph.tensors[graph.ops[0].inputs[1]]
    assert made.shape == (4, 3, 3, 1)
    assert graph.ops[0].attrs["groups"] == 2
    np.testing.assert_array_equal(made.data[:, 0, 1, 0], weights[0, 0, 1])  # type: ignore[index]
    assert made.quant is not None
    assert made.quant.axis == 0


def test_batches_set_by_hand_are_mended() -> None:
    tensors = [
        T("x", (1, 4, 4, 2), scale=0.1),
        T("k", (2,), "int32", data=[2, 2]),
        T("p", (2, 2), "int32", data=[[0, 0], [0, 0]]),
        T("y", (1, 2, 2, 2), scale=0.1),  # really a batch of 4
    ]
    graph = read_tflite(build(tensors, [O("SPACE_TO_BATCH_ND", ["x", "k", "p"], ["y"])], ["x"], ["y"]))
    assert graph.tensors["y"].shape == (4, 2, 2, 2)


def test_impossible_shapes_are_refused() -> None:
    tensors = [T("a", (1, 4), scale=0.1), T("b", (1, 3), scale=0.1), T("y", (1, 4), scale=0.1)]
    with pytest.raises(ModelError, match="impossible shapes"):
        read_tflite(build(tensors, [O("ADD", ["a", "b"], ["y"], "AddOptions")], ["a", "b"], ["y"]))
    wrong = [T("a", (1, 4), scale=0.1), T("b", (1, 4), scale=0.1), T("y", (1, 9), scale=0.1)]
    with pytest.raises(ModelError, match="computes"):
        read_tflite(build(wrong, [O("ADD", ["a", "b"], ["y"], "AddOptions")], ["a", "b"], ["y"]))


def test_unknown_operators_are_named() -> None:
    tensors = [T("x", (1, 4), scale=0.1), T("y", (1, 4), scale=0.1)]
    with pytest.raises(UnsupportedError, match="UNIDIRECTIONAL_SEQUENCE_LSTM"):
        read_tflite(build(tensors, [O("UNIDIRECTIONAL_SEQUENCE_LSTM", ["x"], ["y"])], ["x"], ["y"]))


def test_wrong_constants_and_scales_are_refused() -> None:
    short = [T("x", (1, 4), scale=0.1), T("k", (9,), data=[1, 2]), T("y", (1, 4), scale=0.1)]
    with pytest.raises(ModelError, match="bytes"):
        read_tflite(build(short, [O("ADD", ["x", "k"], ["y"], "AddOptions")], ["x"], ["y"]))
    bad = [T("x", (1, 4), scale=-0.1), T("y", (1, 4), scale=0.1)]
    with pytest.raises(ModelError, match="scale"):
        read_tflite(build(bad, [O("RELU", ["x"], ["y"])], ["x"], ["y"]))


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chain.tflite"
    path.write_bytes(chain_model())
    assert read_file(path).name == "chain"
    with pytest.raises(InputError, match="there is no such file"):
        read_file(tmp_path / "missing.tflite")
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 100)
    with pytest.raises(InputError, match="at most"):
        read_file(path)


@pytest.mark.parametrize("junk", [b"", b"TFL3", bytes(64), b"\xff" * 64, b"\x08\0\0\0TFL3" + bytes(20)])
def test_no_model_at_all(junk: bytes) -> None:
    with pytest.raises(ModelError):
        read_tflite(junk)


def test_offsets_outside_the_file() -> None:
    data = bytearray(chain_model())
    struct.pack_into("<I", data, 0, len(data) + 100)
    with pytest.raises(ModelError, match="ends inside"):
        read_tflite(bytes(data))
    table = tflite_file.FlatTable(b"\x00" * 12, 4)
    assert table.int32(3, 7) == 7
    assert table.tables(2) == []


def test_damaged_files_end_in_one_clear_error() -> None:
    good = chain_model()
    rng = np.random.default_rng(0)
    outcomes = 0
    for _ in range(500):
        damaged = bytearray(good)
        for position in rng.integers(0, len(good), rng.integers(1, 8)):
            damaged[position] = rng.integers(0, 256)
        cut = len(good) if rng.random() < 0.8 else int(rng.integers(1, len(good)))
        try:
            read_tflite(bytes(damaged[:cut]))
        except AtoncError as error:
            assert str(error)
            outcomes += 1
    assert outcomes > 100


def test_results_of_arg_max_have_the_shape_that_tflite_gives_them() -> None:
    tensors = [T("x", (1, 6, 3), scale=0.1), T("axis", (), "int32", data=-1), T("y", (1, 6, 3), "int64")]
    graph = read_tflite(build(tensors, [O("ARG_MAX", ["x", "axis"], ["y"])], ["x"], ["y"]))
    assert graph.tensors["y"].shape == (1, 6)


def test_variables_without_a_first_value_are_refused_by_name() -> None:
    """Streaming models keep what they heard in variables, whose tensors have types of their own."""
    tensors = [T("x", (1, 4), scale=0.1), T("state", (), "resource"), T("old", (1, 4), scale=0.1)]
    ops = [O("VAR_HANDLE", [], ["state"]), O("READ_VARIABLE", ["state"], ["old"])]
    with pytest.raises(UnsupportedError, match="no constant first value of int8") as refused:
        read_tflite(build(tensors, ops, ["x"], ["old"]))
    assert refused.value.where == "old"


def test_tensors_of_unknown_types_are_named_when_somebody_reads_them() -> None:
    tensors = [T("x", (1, 4), scale=0.1), T("words", (1, 4), "text"), T("y", (1, 4), scale=0.1)]
    known = [O("RELU", ["x"], ["y"])]
    assert read_tflite(build(tensors, known, ["x"], ["y"])).ops[0].kind == "relu"
    with pytest.raises(UnsupportedError, match="text is not supported") as refused:
        read_tflite(build(tensors, [O("RELU", ["words"], ["y"])], ["x"], ["y"]))
    assert refused.value.where == "words"


def test_negative_scales_of_channels_turn_the_signs_of_their_codes() -> None:
    """Batch normalisation with a negative gain, folded by tools that do not mind."""
    codes = np.random.default_rng(0).integers(-127, 128, (3, 1, 1, 4)).astype(np.int8)
    bias = np.array([700, -500, 300], np.int32)
    scales, folded = [0.01, -0.02, 0.0], [0.001, -0.002, 0.0]
    tensors = [
        T("x", (1, 5, 5, 4), scale=0.1), T("w", codes.shape, scale=scales, data=codes),
        T("b", (3,), "int32", scale=folded, data=bias), T("y", (1, 5, 5, 3), scale=0.2),
    ]  # fmt: skip
    window = {0: ("b", 1), 1: ("i", 1), 2: ("i", 1), 4: ("i", 1), 5: ("i", 1)}
    data = build(tensors, [O("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", window)], ["x"], ["y"])
    graph = read_tflite(data)
    x = np.random.default_rng(1).integers(-128, 128, (1, 5, 5, 4)).astype(np.int8)
    sums = x.astype(int).reshape(-1, 4) @ codes.reshape(3, 4).T.astype(int) + bias
    expected = np.clip(np.rint(sums * np.array(folded) / 0.2), -128, 127)
    assert np.abs(run_graph(graph, {"x": x})["y"].reshape(-1, 3) - expected).max() <= 1


def test_reshapes_copy_codes_whatever_the_scales_say() -> None:
    tensors = [T("x", (1, 6), scale=0.1), T("y", (2, 3), scale=0.3, zero=5), T("z", (2, 3), scale=0.3, zero=5)]
    ops = [O("RESHAPE", ["x"], ["y"]), O("RELU", ["y"], ["z"])]
    graph = read_tflite(build(tensors, ops, ["x"], ["z", "y"]))
    codes = np.array([[-128, -7, 0, 5, 6, 127]], np.int8)
    values = run_graph(graph, {"x": codes})
    assert values["y"].tolist() == codes.reshape(2, 3).tolist()
    assert values["z"].tolist() == np.maximum(codes, 5).reshape(2, 3).tolist()
