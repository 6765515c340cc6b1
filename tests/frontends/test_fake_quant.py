"""Networks that were trained with fake quantisation (Keras QAT): the ranges of their nodes are those of the program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="atonc[models] is not installed")
pytest.importorskip("onnxruntime", reason="atonc[quantize] is not installed")

from onnx import ModelProto, TensorProto, helper, numpy_helper

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.passes.layers import grid_scales
from atonc.compiler.request.options import Options
from atonc.insight.quantizing.price import chip_outputs
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.errors import InputError, ModelError, UnsupportedError
from tests.frontends.tflite_models import O, T, build

RANDOM = np.random.default_rng(3)
KERNEL = RANDOM.normal(0, 0.4, (4, 3, 3, 2)).astype(np.float32)
DENSE = RANDOM.normal(0, 0.4, (3, 64)).astype(np.float32)
BIAS = RANDOM.normal(0, 0.2, 4).astype(np.float32)
INPUTS = RANDOM.uniform(-1.2, 1.2, (6, 1, 4, 4, 2)).astype(np.float32)


def faked(values: Any, low: float, high: float, bits: int = 8, narrow: bool = False) -> Any:
    """As TensorFlow describes it: `quant_min` is 1 where the range is narrow, and zero is moved to a code."""
    first, last = int(narrow), 2**bits - 1
    scale = (high - low) / (last - first)
    zero = np.clip(np.round(first - low / scale), first, last)
    return (np.clip(np.floor(np.asarray(values, np.float64) / scale + zero + 0.5), first, last) - zero) * scale


def fake(source: str, target: str, low: float, high: float, bits: int = 8, narrow: bool = False) -> O:
    fields: dict[int, tuple[str, Any]] = {0: ("f", low), 1: ("f", high), 2: ("i", bits), 3: ("B", int(narrow))}
    return O("FAKE_QUANT", [source], [target], "FakeQuantOptions", fields)


def tflite(bits: int, narrow: bool, folded: bool) -> bytes:
    """Fake quantisation of the weights as an operator, or done already by whoever folded constants."""
    top = float(np.abs(KERNEL).max())
    tensors = [T("x", (1, 4, 4, 2), "float32"), T("xq", (1, 4, 4, 2), "float32"), T("conv", (1, 4, 4, 4), "float32"),
               T("convq", (1, 4, 4, 4), "float32"), T("flat", (1, 64), "float32"), T("dense", (1, 3), "float32"),
               T("y", (1, 3), "float32"), T("wq", KERNEL.shape, "float32"), T("b", (4,), "float32", data=BIAS),
               T("shape", (2,), "int32", data=[1, 64]),
               T("w", KERNEL.shape, "float32", data=faked(KERNEL, -top, top, narrow=True) if folded else KERNEL),
               T("v", DENSE.shape, "float32", data=per_channel(DENSE))]  # fmt: skip
    weights = [] if folded else [fake("w", "wq", -top, top, narrow=True)]
    ops = [fake("x", "xq", -1.0, 1.0), *weights,
           O("CONV_2D", ["xq", "w" if folded else "wq", "b"], ["conv"], "Conv2DOptions",
             {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 3: ("b", 1)}),
           fake("conv", "convq", 0.0, 2.5, bits, narrow), O("RESHAPE", ["convq", "shape"], ["flat"]),
           O("FULLY_CONNECTED", ["flat", "v"], ["dense"], "FullyConnectedOptions"),
           fake("dense", "y", -6.0, 6.0)]  # fmt: skip
    return build(tensors, ops, ["x"], ["y"])


def per_channel(weights: Any) -> Any:
    tops = np.abs(weights).max(axis=1)
    return np.stack([faked(row, -top, top, narrow=True) for row, top in zip(weights, tops, strict=True)])


def wanted(x: Any, bits: int, narrow: bool) -> Any:
    top = float(np.abs(KERNEL).max())
    padded = np.pad(faked(x, -1.0, 1.0), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    conv = np.einsum("byxcij,oijc->byxo", windows, faked(KERNEL, -top, top, narrow=True)) + BIAS
    hidden = faked(np.maximum(conv, 0), 0.0, 2.5, bits, narrow).reshape(len(x), -1)
    return faked(hidden @ per_channel(DENSE).T, -6.0, 6.0)


@pytest.mark.parametrize(("bits", "narrow", "folded"), [(8, False, False), (8, True, True), (4, False, True)])
def test_a_trained_tflite_file_computes_what_was_trained(bits: int, narrow: bool, folded: bool) -> None:
    """All layers run on codes, with the ranges of the nodes."""
    compiled = compile_graph(read_tflite(tflite(bits, narrow, folded)), Options(allow_float=True))
    layers = [op for op in compiled.graph.ops if op.kind in ("conv", "dense")]
    assert len(layers) == 2 and not {op.name for op in layers} & set(compiled.mapped.reason_of)
    assert all(compiled.graph.tensors[op.inputs[1]].dtype == "int8" for op in layers)
    found = np.concatenate([one[0] for one in chip_outputs(compiled, [{"x": x} for x in INPUTS])])
    off = np.abs(found - wanted(INPUTS[:, 0], bits, narrow)) / (12 / 255)
    assert off.max() < 1.01 and (off > 0.5).mean() < 0.2


@pytest.mark.parametrize(("low", "high", "bits"), [(-1.0, 1.0, 16), (0.5, 1.0, 8), (1, -1, 8), (np.nan, 1, 8)])
def test_ranges_that_say_nothing_are_refused(low: float, high: float, bits: int) -> None:
    tensors = [T("x", (1, 4), "float32"), T("y", (1, 4), "float32")]
    with pytest.raises(UnsupportedError, match="FAKE_QUANT of"):
        read_tflite(build(tensors, [fake("x", "y", low, high, bits)], ["x"], ["y"]))


def test_constants_that_are_no_numbers_are_refused() -> None:
    tensors = [T("w", (2,), "float32", data=[1, np.nan]), T("x", (2,), "float32"), T("v", (2,), "float32"),
               T("y", (2,), "float32")]  # fmt: skip
    ops = [fake("w", "v", -1.0, 1.0), O("ADD", ["x", "v"], ["y"], "AddOptions")]
    with pytest.raises(ModelError, match="no real numbers"):
        read_tflite(build(tensors, ops, ["x"], ["y"]))


def onnx_pair(name: str, source: str, scale: Any, zero: Any, axis: Sequence[int] = ()) -> tuple[list[Any], list[Any]]:
    more = {"axis": axis[0]} if axis else {}
    ends = (("QuantizeLinear", source, f"{name}_q"), ("DequantizeLinear", f"{name}_q", name))
    nodes = [
        helper.make_node(kind, [start, f"{name}_s", f"{name}_z"], [end], f"{name}/{kind}", **more)
        for kind, start, end in ends
    ]
    values = (("s", np.asarray(scale, np.float32)), ("z", np.asarray(zero)))
    return nodes, [numpy_helper.from_array(value, f"{name}_{end}") for end, value in values]


def onnx_model(folded: bool) -> bytes:
    """As converters write it: pairs between float nodes, weights as numbers."""
    rows = np.moveaxis(KERNEL, 3, 1)
    scales = np.abs(rows).max((1, 2, 3)) / 127
    lying = np.rint(rows / scales[:, None, None, None]) * scales[:, None, None, None]
    pairs = [onnx_pair("xd", "x", 2 / 255, np.uint8(128)), onnx_pair("yd", "r", 2.5 / 255, np.uint8(0))]
    pairs += [] if folded else [onnx_pair("wd", "w", scales, np.zeros(4, np.int8), (0,))]
    made = [helper.make_node("Conv", ["xd", "w" if folded else "wd", "b"], ["c"], "conv", pads=[1] * 4),
            helper.make_node("Relu", ["c"], ["r"], "relu")]  # fmt: skip
    nodes = [*pairs[0][0], *(pairs[2][0] if not folded else []), *made, *pairs[1][0]]
    constants = [numpy_helper.from_array(np.asarray(value, np.float32), name)
                 for name, value in (("w", lying if folded else rows), ("b", BIAS))]  # fmt: skip
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in
             (("x", (1, 2, 4, 4)), ("yd", (1, 4, 4, 4)))]  # fmt: skip
    stored = [*constants, *(value for _, values in pairs for value in values)]
    graph = helper.make_graph(nodes, "trained", edges[:1], edges[1:], stored)
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )


@pytest.mark.parametrize("folded", [False, True])
def test_pairs_between_float_nodes_are_the_same_in_onnx(folded: bool) -> None:
    compiled = compile_graph(read_onnx(onnx_model(folded)), Options(allow_float=True))
    (layer,) = [op for op in compiled.graph.ops if op.kind == "conv"]
    weights = compiled.graph.tensors[layer.inputs[1]]
    assert weights.dtype == "int8" and layer.name not in compiled.mapped.reason_of
    assert weights.quant is not None and weights.quant.scales == pytest.approx(np.abs(KERNEL).max((1, 2, 3)) / 127)


def test_weights_that_lie_on_no_grid_stay_as_they_are() -> None:
    grid = np.array([[0.5, -0.25, 0.75], [0.0, 0.0, 0.0]])
    found = grid_scales(grid)
    assert found is not None and np.allclose(grid / found[:, None], np.rint(grid / found[:, None]))
    assert grid_scales(RANDOM.normal(0, 1, (2, 30))) is None


def quantised(file: Path, samples: Any) -> tuple[Any, Any]:
    np.savez(file.parent / "samples.npz", x=samples)
    made = quantize(file, file.parent / "samples.npz", QuantizeOptions())
    return made, compile_graph(read_onnx(made.model), Options(allow_float=True))


@pytest.mark.parametrize(("bits", "narrow", "folded"), [(8, False, False), (8, True, True), (4, False, True)])
def test_quantize_calibrates_nothing_anew(tmp_path: Path, bits: int, narrow: bool, folded: bool) -> None:
    """The samples reach farther than the ranges of the training, which are those of the file nevertheless."""
    (tmp_path / "net.tflite").write_bytes(tflite(bits, narrow, folded))
    samples = RANDOM.uniform(-3, 3, (16, 4, 4, 2)).astype(np.float32)
    made, compiled = quantised(tmp_path / "net.tflite", samples)
    assert "3 ranges are those of fake quantisation in training" in made.notes
    found = np.concatenate([one[0] for one in chip_outputs(compiled, [{"x": x} for x in INPUTS])])
    off = np.abs(found - wanted(INPUTS[:, 0], bits, narrow)) / (12 / 255)
    assert off.max() < 1.01 and (off > 0.5).mean() < 0.2


@pytest.mark.parametrize("folded", [False, True])
def test_quantize_keeps_the_pairs_of_an_onnx_file(tmp_path: Path, folded: bool) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_model(folded))
    made, compiled = quantised(tmp_path / "net.onnx", RANDOM.uniform(-3, 3, (16, 2, 4, 4)).astype(np.float32))
    inputs = [{"x": x.transpose(0, 3, 1, 2)} for x in INPUTS]
    direct = chip_outputs(compile_graph(read_onnx(onnx_model(folded)), Options(allow_float=True)), inputs)
    assert "2 ranges are those of fake quantisation in training" in made.notes
    for one, other in zip(direct, chip_outputs(compiled, inputs), strict=True):
        assert np.abs(one[0] - other[0]).max() < 0.01 * 2.5 / 255


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("xd_s", np.float32(0), "no positive number"),
        ("yd_s", np.ones(4, np.float32), "already quantised"),
        ("wd_s", np.ones(3, np.float32), "do not fit the weights"),
        ("wd_z", np.ones(4, np.float32), "do not fit"),
        ("xd_z", np.array(0, np.int16), "already quantised"),
    ],
)
def test_pairs_that_say_nothing_are_refused(tmp_path: Path, name: str, value: Any, said: str) -> None:
    model = ModelProto.FromString(onnx_model(False))
    next(one for one in model.graph.initializer if one.name == name).CopyFrom(numpy_helper.from_array(value, name))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises((InputError, UnsupportedError), match=said):
        quantised(tmp_path / "net.onnx", np.zeros((16, 2, 4, 4), np.float32))


def test_codes_that_are_stored_are_quantised_already(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_model(False))
    made, _ = quantised(tmp_path / "net.onnx", RANDOM.uniform(-1, 1, (16, 2, 4, 4)).astype(np.float32))
    (tmp_path / "again.onnx").write_bytes(made.model)
    with pytest.raises(UnsupportedError, match="already quantised"):
        quantised(tmp_path / "again.onnx", RANDOM.uniform(-1, 1, (16, 2, 4, 4)).astype(np.float32))
