"""Files of our quantiser and of onnxruntime's: a sound one is called sound, a damage is found, also where channels were
equalised and no layer has the weights of the float model any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends import limits
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.insight.accuracy.explain import examine
from atonc.insight.explain.types import AccuracyReport
from atonc.insight.quantizing.assign import Tuning
from atonc.insight.quantizing.equalise import equalise
from atonc.insight.quantizing.graph import FloatGraph, own_constants
from atonc.insight.quantizing.islands import WEIGHTED
from atonc.insight.quantizing.judge import QuantizationJudge
from atonc.insight.quantizing.layers import layers_of
from atonc.insight.quantizing.loading import tidy
from atonc.insight.quantizing.run import QuantizationWork
from atonc.insight.quantizing.types import QuantizeOptions
from benchmarks.quantize import by_onnxruntime
from tests.quantizing.float_models import Build

SHAPE = (1, 3, 12, 12)
OPTIONS = Options(verify=False)
FREE = Tuning()


def network() -> Any:
    """Convolutions with channels of unlike size between them, one of them depthwise."""
    b = Build(11)
    x = b.node("Relu", [b.conv("x", "c1", (16, 3, 3, 3), 6.0)], "r1")
    x = b.node("Relu", [b.conv(x, "c2", (16, 1, 3, 3), 2.0, group=16)], "r2")
    x = b.node("Relu", [b.conv(x, "c3", (16, 16, 1, 1), 4.0)], "r3")
    return b.model({"x": SHAPE}, [b.conv(x, "y", (8, 16, 3, 3))])


@cache
def feeds() -> tuple[dict[str, Any], ...]:
    rng = np.random.default_rng(5)
    return tuple({"x": rng.uniform(0, 1, SHAPE).astype(np.float32)} for _ in range(12))


@cache
def ours(even: bool, tuning: Tuning = FREE) -> bytes:
    graph = FloatGraph(own_constants(tidy(network(), "float"), WEIGHTED))
    work = QuantizationWork(graph, QuantizeOptions(), feeds(), QuantizationJudge.of(graph, feeds()))
    work._start(graph)
    if even:
        assert equalise(graph, layers_of(graph), work.seen) >= 2
        work._start(graph)
    return bytes(work.model(tuning).SerializeToString())


@cache
def theirs(method: str) -> bytes:
    return by_onnxruntime(tidy(network(), "float"), "x", np.stack([feed["x"] for feed in feeds()]), method)


def report(data: bytes) -> AccuracyReport:
    compiled = compile_graph(read_onnx(data), OPTIONS)
    return examine(compiled, read_onnx(network().SerializeToString()), feeds()[:4], OPTIONS)


SOUND = {
    "ours": lambda: ours(False),
    "ours, equalised": lambda: ours(True),
    "ours, with zero points 0 and -128": lambda: ours(True, Tuning(zeros=True)),
    "onnxruntime's, min-max": lambda: theirs("MinMax"),
    "onnxruntime's, percentile": lambda: theirs("Percentile"),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_file_is_called_sound(name: str) -> None:
    found = report(SOUND[name]())
    assert found.verdict.startswith("nothing is wrong"), found.findings[:2]
    assert not any(one.symptom == "weights-differ" for one in found.findings)


def _edited(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Constants by the names of the float model: its weights' codes, scales and zero points of what is computed."""
    model = onnx.ModelProto.FromString(data)
    protos = {proto.name: proto for proto in model.graph.initializer}
    words = ("_codes", "_quantized"), ("_zero", "_zero_point")
    named = {(name, kind): proto for proto in protos.values() for name in NAMES for kind in ("codes", "scale", "zero")
             if proto.name in {name + end for end in _ends(kind, words)}}  # fmt: skip
    values = {key: onnx.numpy_helper.to_array(proto).copy() for key, proto in named.items()}
    change(values)
    for key, proto in named.items():
        proto.CopyFrom(onnx.numpy_helper.from_array(values[key], proto.name))
    return bytes(model.SerializeToString())


NAMES = ("c2.w", "c3.w", "y.w", "c3.b", "r1", "r2", "r3")


def _ends(kind: str, words: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[str, ...]:
    return words[0] if kind == "codes" else words[1] if kind == "zero" else ("_scale",)


def _times(key: tuple[str, str], factor: float) -> Callable[[dict[Any, Any]], None]:
    def change(values: dict[Any, Any]) -> None:
        values[key] = (values[key] * factor).astype(values[key].dtype)

    return change


def _turned(name: str, channel: int) -> Callable[[dict[Any, Any]], None]:
    def change(values: dict[Any, Any]) -> None:
        values[name, "codes"][channel] = -np.maximum(values[name, "codes"][channel], -127)

    return change


def _moved(name: str, codes: int) -> Callable[[dict[Any, Any]], None]:
    def change(values: dict[Any, Any]) -> None:
        values[name, "zero"] = np.int8(int(values[name, "zero"]) + codes).reshape(values[name, "zero"].shape)

    return change


def _clipped(name: str) -> Callable[[dict[Any, Any]], None]:
    def change(values: dict[Any, Any]) -> None:
        values[name, "codes"] = np.clip(values[name, "codes"].astype(int) * 8, -127, 127).astype(np.int8)
        values[name, "scale"] = (values[name, "scale"] / 8).astype(np.float32)

    return change


DAMAGES = {
    "clipped": (("r2", "r3"), _times(("r2", "scale"), 1 / 8)),
    "coarse": (("r3",), _times(("r3", "scale"), 40)),
    "zero point": (("r2", "r3"), _moved("r2", 90)),
    "another sign": (("c3",), _turned("c3.w", 3)),
    "clipped weights": (("c3",), _clipped("c3.w")),
    "depthwise weights": (("c2",), _turned("c2.w", 5)),
}


@pytest.mark.parametrize("maker", ["ours, equalised", "onnxruntime's, min-max"])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_the_first_or_second_line(name: str, maker: str) -> None:
    places, change = DAMAGES[name]
    found = report(_edited(SOUND[maker](), change))
    lines = [one.tensor.replace("r", "c") for one in found.findings[:2]]
    assert found.verdict.startswith("something is wrong"), found.findings[:2]
    assert {place.replace("r", "c") for place in places} & set(lines), [(f.layer, f.symptom) for f in found.findings]


def test_a_relu_that_was_the_range_is_missed_when_the_zero_point_moves() -> None:
    """onnxruntime leaves the ReLU out where the range begins at zero: a moved zero point lets negative values pass."""
    first = report(_edited(theirs("MinMax"), _moved("r2", 90))).findings[0]
    assert first.symptom == "zero-point" and "ReLU" in first.says
    assert max(one.gain_db for one in first.remedies if "begins at zero" in one.what) > 10


def test_nearest_weights_are_not_called_others() -> None:
    """Inputs with a mean and weights that cancel make much noise of rounding alone."""
    b = Build(4)
    weights = b.random.normal(0, 1, (8, 3, 3, 3))
    centred = weights - weights.mean((1, 2, 3), keepdims=True)
    x = b.node("Conv", ["x", b.constant("c.w", centred), b.constant("c.b", np.full(8, 0.01))], "y")
    model = b.model({"x": SHAPE}, [x])
    inputs = [{"x": (0.5 + 0.002 * feed["x"]).astype(np.float32)} for feed in feeds()]
    data = by_onnxruntime(tidy(model, "float"), "x", np.stack([feed["x"] for feed in inputs]), "MinMax")
    original = read_onnx(model.SerializeToString())
    found = examine(compile_graph(read_onnx(data), OPTIONS), original, inputs[:4], OPTIONS)
    mine = [one for one in found.findings if one.part == "weights"]
    assert mine and mine[0].own_db < 30, "the case is not there"
    assert mine[0].symptom == "eight-bit-weights"


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": [0]}', '{"a": ["1"]}', '{"a": [NaN]}', '{"a": 3}', "[" * 9999])
def test_what_makes_no_sense_is_as_if_nothing_was_said(text: str) -> None:
    model = network()
    model.metadata_props.add(key=limits.EQUALISED_KEY, value=text)
    assert limits.told_equalised(model) == {}


def test_the_factors_are_told_in_the_file(tmp_path: Path) -> None:
    assert not read_onnx(ours(False)).equalised
    found = read_onnx(ours(True)).equalised
    assert {"c1", "r1"} <= found.keys() and len(found["r1"]) == 16 and max(found["r1"]) > 2
