"""A file that our quantiser made from TFLite, beside the float TFLite: order and names differ, every layer is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("tflite")

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ir import Graph
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.insight.accuracy.explain import examine
from atonc.insight.accuracy.twin import is_format, match
from atonc.insight.explain.types import UNEXPLAINED_DB, AccuracyReport, LossFinding, Remedy
from atonc.insight.quantizing.from_tflite import FIRST, read_float
from atonc.insight.quantizing.graph import WEIGHTED, FloatGraph, own_constants
from atonc.insight.quantizing.judge import QuantizationJudge
from atonc.insight.quantizing.loading import tidy
from atonc.insight.quantizing.observe import session
from atonc.insight.quantizing.run import QuantizationWork
from atonc.insight.quantizing.scales import Tuning
from atonc.insight.quantizing.types import QuantizeOptions
from tests.frontends.tflite_models import O, T, build

SIDE, CHANNELS = 8, 8  # as high as deep: a value in the other order has the same shape
OPTIONS = Options(verify=False, allow_float=True)
RELU = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 3: ("b", 1)}  # padding, strides, activation


@cache
def float_file() -> bytes:
    random = np.random.default_rng(3)
    tensors, ops, last = [T("x", (1, SIDE, SIDE, CHANNELS), "float32")], list[O](), "x"
    for name in ("a", "b", "c"):
        weights = random.normal(0, 0.12, (CHANNELS, 3, 3, CHANNELS)).astype(np.float32)
        tensors += [T(f"{name}.w", weights.shape, "float32", data=weights),
                    T(f"{name}.b", (CHANNELS,), "float32", data=random.normal(0, 0.1, CHANNELS).astype(np.float32)),
                    T(name, (1, SIDE, SIDE, CHANNELS), "float32")]  # fmt: skip
        ops.append(O("CONV_2D", [last, f"{name}.w", f"{name}.b"], [name], "Conv2DOptions", RELU))
        last = name
    return build(tensors, ops, ["x"], [last])


@cache
def feeds() -> tuple[dict[str, Any], ...]:
    random = np.random.default_rng(5)
    return tuple({"x": random.uniform(0, 1, (1, SIDE, SIDE, CHANNELS)).astype(np.float32)} for _ in range(12))


@cache
def quantised() -> Graph:
    graph = FloatGraph(own_constants(tidy(read_float(float_file(), "float"), "float"), WEIGHTED))
    work = QuantizationWork(graph, QuantizeOptions(), feeds(), QuantizationJudge.of(graph, feeds()))
    work.start(graph)
    return read_onnx(work.model(Tuning()).SerializeToString())


@pytest.mark.parametrize("padding", [0, 1])  # SAME, VALID
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D", "CONV_2D"])
def test_windows_mean_the_same_at_the_edges(code: str, stride: int, padding: int) -> None:
    """Values of the ONNX file that was made are those of the TFLite file, also where a window hangs over the edge."""
    side = -(-5 // stride) if padding == 0 else (5 - 3) // stride + 1
    tensors, inputs = [T("x", (1, 5, 5, 2), "float32"), T("y", (1, side, side, 2), "float32")], ["x"]
    options = {0: ("b", padding), 1: ("i", stride), 2: ("i", stride), 3: ("i", 3), 4: ("i", 3), 5: ("b", 0)}
    if code == "CONV_2D":
        weights = np.random.default_rng(1).normal(size=(2, 3, 3, 2)).astype(np.float32)
        tensors.append(T("w", weights.shape, "float32", data=weights))
        inputs, options = ["x", "w"], {0: ("b", padding), 1: ("i", stride), 2: ("i", stride), 3: ("b", 0)}
    kind = "Conv2DOptions" if code == "CONV_2D" else "Pool2DOptions"
    data = build(tensors, [O(code, inputs, ["y"], kind, options)], ["x"], ["y"])
    x = np.random.default_rng(2).normal(size=(1, 5, 5, 2)).astype(np.float32)
    (found,) = session(read_float(data, "float")).run(None, {"x": x})
    np.testing.assert_allclose(found, run_graph(read_tflite(data, "float"), {"x": x})["y"], rtol=1e-4, atol=1e-5)


def report(graph: Graph) -> AccuracyReport:
    return examine(compile_graph(graph, OPTIONS), read_tflite(float_file(), "float"), feeds()[:2], OPTIONS)


def test_every_layer_is_found_in_its_own_order() -> None:
    graph = quantised()
    assert any(name.endswith(FIRST) for name in graph.aliases), "the case is not there"
    found = match(graph, read_tflite(float_file(), "float"))
    assert {name for name, one in graph.tensors.items() if is_format(one) and not one.is_constant} <= set(found)
    sound = report(graph)
    assert not sound.notes and sound.verdict.startswith("nothing is wrong"), sound.findings[:2]
    assert min(layer.quantised for layer in sound.layers) > 25  # a turned value would be another one


def test_channels_of_the_other_sign_are_the_first_line() -> None:
    graph = quantised()
    op = [op for op in graph.ops if op.kind == "conv"][1]
    weights = graph.tensors[op.inputs[1]]
    codes = np.asarray(weights.data).copy()
    codes[::3] = -np.maximum(codes[::3], -127)
    damaged = replace(graph, tensors={**graph.tensors, weights.name: replace(weights, data=codes)})
    found = report(damaged)
    assert found.verdict.startswith("something is wrong")
    assert (found.findings[0].tensor, found.findings[0].part) == ("b", "weights")


def _report(symptom: str, gain: float, unexplained: float = 0.0) -> AccuracyReport:
    remedy = Remedy("a range that fits its values", True, 20.0, 20.0 + gain)
    finding = LossFinding("layer", "tensor", "activation", symptom, "", 30.0, 20.0, (remedy,))
    return AccuracyReport("m", "f", 4, False, (), (), (finding,), 1.0, unexplained_db=unexplained)


@pytest.mark.parametrize(("symptom", "gain", "wrong"),
                         [("eight-bits", 4.0, False), ("eight-bits", 12.0, True), ("clipped", 4.0, True)])  # fmt: skip
def test_a_range_that_fits_the_samples_alone_is_no_mistake(symptom: str, gain: float, wrong: bool) -> None:
    assert _report(symptom, gain).verdict.startswith("something is wrong" if wrong else "nothing is wrong")


def test_what_no_layer_explains_is_not_called_sound() -> None:
    assert "no layer shows" in _report("eight-bits", 1.0, UNEXPLAINED_DB).verdict
