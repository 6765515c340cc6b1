"""Activations of 16 bits where 8 lose most: chosen by measurement, written as standard ONNX, run by the NPU."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import atonc
from atonc.doors.cli.cli import main
from atonc.doors.python.compilation import run_compiled
from atonc.insight.quantizing.calibrate import calibrate
from atonc.insight.quantizing.graph import FloatGraph, layers_of, make_plan
from atonc.insight.quantizing.loading import load, raised
from atonc.insight.quantizing.observe import outputs
from atonc.insight.quantizing.price import chip_outputs, compiled_model
from atonc.insight.quantizing.scales import Tuning, WidthPlan, assign, wide_forms
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.insight.quantizing.weights import nearest
from atonc.insight.quantizing.widen import WidthSearch, require_groups
from atonc.insight.quantizing.write import OnnxWriter
from atonc.insight.report.document import lines
from atonc.insight.report.quantize_text import QuantizePageParts, document, page
from atonc.machine.base.errors import InputError, UnsupportedError
from tests.quantizing.float_models import Build, samples, save

FEW = {"objective": "accuracy", "calibration": "minmax", "equalise": False}


def uneven() -> Any:
    """Channels of unlike range in one tensor, which the depthwise layer behind it makes alike: as in MobileNets."""
    b, sizes = Build(2), np.geomspace(1, 80, 8)
    x = b.node("Relu", [b.conv("x", "c1", (8, 3, 3, 3))], "r1")
    w = b.random.normal(0, 0.2, (8, 8, 1, 1)) * sizes[:, None, None, None]
    x = b.node("Relu", [b.node("Conv", [x, b.constant("c2.w", w), b.constant("c2.b", 0.2 * sizes)], "c2")], "r2")
    w = b.random.uniform(0.1, 0.3, (8, 1, 3, 3)) / sizes[:, None, None, None]
    inputs = [x, b.constant("c3.w", w), b.constant("c3.b", np.zeros(8))]
    x = b.node("Relu", [b.node("Conv", inputs, "c3", pads=[1] * 4, group=8)], "r3")
    return b.model({"x": (1, 3, 12, 12)}, [b.conv(x, "y", (4, 8, 3, 3))])


def pictures(folder: Path, count: int = 24) -> Path:
    random, path = np.random.default_rng(3), folder / f"pictures_{count}.npz"
    values = random.uniform(0, 1, (count, 3, 1, 1)) * random.uniform(0, 1, (count, 3, 12, 12))
    np.savez(path, x=values.astype(np.float32))
    return path


@pytest.fixture(scope="module")
def widened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sixteen_bits")
    return atonc.quantize(save(folder, uneven()), pictures(folder), wide="1%", **FEW), folder


def test_what_int8_breaks_comes_within_one_percent_on_the_emulated_chip(widened: Any) -> None:
    """Judged here anew: other samples than the quantiser's, the emulator, and float by onnxruntime."""
    made, folder = widened
    start, chosen = made.widths[0], made.widths[-1]
    assert chosen.chosen and chosen.tensors == ("r2",) and chosen.gain_db[0] > 8
    assert start.worst_db < 32 and chosen.worst_db >= 40
    values = np.load(pictures(folder, 30))["x"][24:, None]
    wanted = np.stack([y[0] for y in outputs(uneven(), [{"x": value} for value in values])])
    errors = []
    for model in (made, atonc.quantize(save(folder, uneven()), pictures(folder), **FEW)):
        compiled = atonc.compile(model)
        seen = np.stack([compiled.run(x=value)["y"] for value in values])
        errors.append(float(np.sqrt(np.square(seen - wanted).sum() / np.square(wanted).sum())))
        assert {reason.op for reason in compiled.mapped.reason_of.values()} <= {"quantize", "dequantize"}
    assert errors[0] < 0.01 < 0.025 < errors[1]


def test_the_price_is_what_the_compiler_predicts(widened: Any) -> None:
    """The price is that of the model that was measured; learning again from all samples may change a little."""
    made = widened[0]
    start, chosen = made.widths[0], made.widths[-1]
    assert chosen.price_ms == pytest.approx(chosen.milliseconds - start.milliseconds, abs=1e-4) and chosen.price_ms > 0
    assert atonc.compile(made).latency_ms == pytest.approx(chosen.milliseconds, rel=0.02)
    assert not chosen.on_cpu and made.chosen.name == "16 bits in 1 tensor"
    assert chosen.edges_saved_by == "--input-data-type int8 --output-data-type int8"
    inside = atonc.compile(made, input_type="int8", output_type="int8").latency_ms
    assert inside == pytest.approx(chosen.milliseconds - chosen.edges_ms, rel=0.02) and chosen.edges_ms > 0


def test_the_file_has_one_wide_tensor_and_operators_of_one_width(widened: Any) -> None:
    model = onnx.ModelProto.FromString(widened[0].model)
    onnx.checker.check_model(model)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 21)]
    kinds = {proto.name: proto for proto in model.graph.initializer}
    makers = {node.output[0]: node for node in model.graph.node}
    readers = {name: node for node in model.graph.node for name in node.input}

    def bits(node: Any) -> int:
        zero = kinds[node.input[2]]
        assert zero.data_type in (TensorProto.INT8, TensorProto.INT16)
        if zero.data_type == TensorProto.INT16:
            assert not numpy_helper.to_array(zero).any()
        return 8 if zero.data_type == TensorProto.INT8 else 16

    found = {}
    for node in (node for node in model.graph.node if node.op_type == "Conv"):
        result = readers[node.output[0]]
        result = readers[result.output[0]] if result.op_type == "Relu" else result
        found[node.name] = bits(makers[node.input[0]]), bits(result)
    assert found == {"Conv c1": (8, 8), "Conv c2": (16, 16), "Conv c3": (16, 16), "Conv y": (8, 8)}
    assert [bits(makers[name]) for name in ("r1_dequantized", "r2_dequantized", "r3_dequantized")] == [8, 16, 8]


def test_reports_say_tensor_gain_and_price(widened: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made, folder = widened
    said = "\n".join(lines(document(made, "f.onnx")))
    assert f"{made.widths[-1].edges_ms:.3f} are conversions from and to float at the edges" in said
    assert "some activations of 16 bits" in said and f"({made.widths[-1].price_ms:+.3f})  16 bits in r2" in said
    shown = page(made, QuantizePageParts({})).decode()
    assert "Activations of 16 bits" in shown and "16 bits in r2" in shown and "price" in shown
    words = ["--wide", "1%", "--objective", "accuracy", "--calibration", "minmax", "--no-equalisation", "--json"]
    files = [str(save(folder, uneven())), "--data", str(pictures(folder)), "-o", str(folder / "w.onnx")]
    assert main(["quantize", *files, *words]) == 0
    assert json.loads(capsys.readouterr().out)["widths"] == [point.as_dict() for point in made.widths]
    assert (folder / "w.onnx").read_bytes() == made.model  # the same input gives the same bytes


def test_no_step_of_widening_is_measured_twice() -> None:
    search, steps = object.__new__(WidthSearch), list[Any]()
    groups = [(str(number),) for number in range(8)]

    def noted(batch: Any, trial: Any) -> Any:
        steps.append(tuple(batch))
        search.tried.append((SimpleNamespace(gain_db=(-1, 1)), trial))  # type: ignore[arg-type]
        return trial

    vars(search).update(
        tried=[], kept=[SimpleNamespace(batch=())], _ordered=lambda every: groups, _noted=noted,
        _with=lambda batch: SimpleNamespace(batch=batch), _met=lambda one: len(one.batch) >= 3,
    )  # fmt: skip
    search._climb(SimpleNamespace(batch=groups))  # type: ignore[arg-type]
    assert search.kept[-1].batch == groups[:3]  # type: ignore[attr-defined]
    assert [len(step) for step in steps] == [1, 2, 4, 3]


def test_a_target_that_is_met_already_or_never(widened: Any) -> None:
    folder = widened[1]
    path, data = save(folder, uneven()), pictures(folder)
    easy = atonc.quantize(path, data, wide="5%", **FEW)
    assert len(easy.widths) == 1 and easy.widths[0].chosen and not easy.widths[0].tensors
    assert not any("16 bits" in candidate.name for candidate in easy.front)
    told = r"wherever they are known to run the worst output reaches (49|5\d)\."
    with pytest.raises(UnsupportedError, match=told):  # it is no question of memory
        atonc.quantize(path, data, wide="90", **FEW)


def test_what_is_joined_is_widened_together_and_small_functions_are_not(tmp_path: Path) -> None:
    b = Build()
    one, two = b.conv("x", "one", (8, 3, 3, 3)), b.conv("x", "two", (8, 3, 3, 3))
    joined = b.node("MaxPool", [b.node("Concat", [one, two], "joined", axis=1)], "pooled", kernel_shape=[2, 2])
    third = b.conv(joined, "third", (8, 16, 1, 1))
    bent = b.node("Sigmoid", [b.node("Add", [third, b.conv(third, "fourth", (8, 8, 1, 1))], "sum")], "bent")
    model = b.model({"x": (1, 3, 12, 12)}, [b.conv(bent, "y", (4, 8, 1, 1))])
    graph = FloatGraph(load(save(tmp_path, model)))
    widths = WidthPlan.of(graph, make_plan(graph))
    assert widths.groups == (("x",), ("one", "two", "joined", "pooled"), ("third",), ("fourth",), ("y",))
    assert widths.closed({"third"}) == {"third", "fourth"}  # only operators that are wide by `third` read and write it


@pytest.mark.parametrize(
    ("kind", "slope", "wide"), [("PRelu", 0.2, True), ("PRelu", 1.5, False), ("LeakyRelu", 0.1, True)]
)
def test_slopes_between_0_and_1_may_be_wide(kind: str, slope: float, wide: bool, tmp_path: Path) -> None:
    b = Build()
    one = b.conv("x", "one", (8, 3, 3, 3))
    if kind == "PRelu":
        bent = b.node(kind, [one, b.constant("slopes", np.full((8, 1, 1), slope))], "bent")
    else:
        bent = b.node(kind, [one], "bent", alpha=slope)
    graph = FloatGraph(load(save(tmp_path, b.model({"x": (1, 3, 12, 12)}, [b.conv(bent, "y", (4, 8, 1, 1))]))))
    assert (("bent",) in WidthPlan.of(graph, make_plan(graph)).groups) == wide


def test_what_a_function_in_float_reads_may_be_wide(tmp_path: Path) -> None:
    """Probabilities are only as exact as what the softmax reads."""
    b = Build()
    flat = b.node("Flatten", [b.conv("x", "one", (4, 3, 3, 3))], "flat")
    dense = [flat, b.constant("w", b.random.normal(0, 1, (576, 5)))]
    model = b.model({"x": (1, 3, 12, 12)}, [b.node("Softmax", [b.node("Gemm", dense, "logits")], "y")])
    graph = FloatGraph(load(save(tmp_path, model)))
    plan = make_plan(graph)
    assert ("logits",) in WidthPlan.of(graph, plan).groups and "y" not in plan.tensors


def test_everything_wide_is_the_same_in_the_file_and_on_the_chip(tmp_path: Path) -> None:
    """A sigmoid reads a wide tensor in 8 bits, a wide product reads what it gives: conversions both ways."""
    b = Build()
    stem = b.conv("x", "stem", (8, 3, 3, 3))
    gated = b.node("Mul", [b.conv(stem, "body", (8, 8, 1, 1)), b.node("Sigmoid", [stem], "gate")], "gated")
    flat = b.node("Flatten", [b.node("GlobalAveragePool", [gated], "mean")], "flat")
    dense = [flat, b.constant("d.w", b.random.normal(0, 0.5, (8, 4))), b.constant("d.b", np.zeros(4))]
    whole = b.model({"x": (1, 3, 12, 12)}, [b.node("Gemm", dense, "y")])
    graph = FloatGraph(raised(load(save(tmp_path, whole)), "m"))
    feeds = [{"x": value[None]} for value in np.load(samples(tmp_path, 8))["x"]]
    plan, layers = make_plan(graph), layers_of(graph)
    seen = calibrate(graph, plan.tensors, layers, feeds)
    weights = {layer.name: (layer, nearest(graph, layer)) for layer in layers}
    scales = assign(graph, plan, seen, "minmax", Tuning())
    groups = WidthPlan.of(graph, plan).groups
    edges = {"x", "y"}
    everything = Tuning(wide=frozenset(name for group in groups for name in group) - edges)
    wide = wide_forms(graph, plan, seen, everything)
    assert set(wide.scales) == {"stem", "body", "gated", "mean", "flat"} and wide.results == {"y"}
    model = OnnxWriter(graph, plan, scales, weights, wide).model()
    compiled = compiled_model(model, "stm32n6570-dk")
    exact, file = outputs(graph.model, feeds), outputs(model, feeds)
    chip = chip_outputs(compiled, feeds)
    emulated = run_compiled(compiled, {"x": feeds[0]["x"]})["y"]
    assert np.array_equal(chip[0][0], emulated)
    for real, written, run in zip(exact, file, chip, strict=True):
        assert np.abs(run[0] - written[0]).max() <= 1.01 * scales["y"].scale
        assert np.abs(real[0] - written[0]).max() < 0.05 * np.abs(real[0]).max()  # weights and gate have 8 bits
    made = {node.output[0] for node in model.graph.node}
    assert {"stem_eight", "gate_sixteen", "x_sixteen", "y_sixteen_result"} <= made
    assert {reason.op for reason in compiled.mapped.reason_of.values()} == {"quantize", "dequantize"}  # of float edges


def test_functions_that_run_on_the_NPU_in_16_bits_may_be_wide(tmp_path: Path) -> None:
    """SiLU as two operators, tanh as one: 9,216 values each; where functions keep 8 bits this ends at 33.9 dB."""
    b = Build(1)
    x = b.conv("x", "c1", (16, 3, 3, 3))
    x = b.conv(b.node("Mul", [x, b.node("Sigmoid", [x], "gate")], "silu"), "c2", (16, 16, 3, 3))
    path = save(tmp_path, b.model({"x": (1, 3, 24, 24)}, [b.conv(b.node("Tanh", [x], "tanh"), "y", (8, 16, 1, 1))]))
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(3).normal(0, 1, (16, 3, 24, 24)).astype(np.float32))
    graph = FloatGraph(load(path))
    widths = WidthPlan.of(graph, make_plan(graph))
    assert {"silu", "tanh"} <= {name for group in widths.groups for name in group}
    assert {widths.sides[name] for name in ("Sigmoid gate", "Mul silu")} == {("c1", "silu")}
    made = atonc.quantize(path, tmp_path / "d.npz", wide="39.5", **FEW)
    chosen = next(point for point in made.widths if point.chosen)
    taken = {name for point in made.widths if point.kept for name in point.tensors}
    assert chosen.worst_db >= 39.5 and not chosen.on_cpu and {"silu", "tanh"} <= taken
    assert {reason.op for reason in atonc.compile(made).mapped.reason_of.values()} <= {"quantize", "dequantize"}


def test_a_function_of_16_bits_may_read_a_tensor_of_8(tmp_path: Path) -> None:
    """Its table is over the codes of 16 bits that it is given, however few of them occur."""
    b = Build(1)
    x = b.conv("x", "c1", (16, 3, 3, 3))
    silu = b.node("Mul", [x, b.node("Sigmoid", [x], "gate")], "silu")
    whole = b.model({"x": (1, 3, 16, 16)}, [b.conv(silu, "y", (4, 16, 1, 1))])
    graph = FloatGraph(raised(load(save(tmp_path, whole)), "m"))
    feeds = [{"x": value[None].astype(np.float32)} for value in np.random.default_rng(0).normal(0, 1, (8, 3, 16, 16))]
    plan, layers = make_plan(graph), layers_of(graph)
    seen = calibrate(graph, plan.tensors, layers, feeds)
    weights = {layer.name: (layer, nearest(graph, layer)) for layer in layers}
    scales = assign(graph, plan, seen, "minmax", Tuning())
    wide = wide_forms(graph, plan, seen, Tuning(wide=frozenset({"silu"})))
    model = OnnxWriter(graph, plan, scales, weights, wide).model()
    assert {"c1_sixteen", "silu"} <= {node.output[0].removesuffix("_dequantized") for node in model.graph.node}
    found, written = chip_outputs(compiled_model(model, "stm32n6570-dk"), feeds), outputs(model, feeds)
    for run, file in zip(found, written, strict=True):
        assert np.abs(run[0] - file[0]).max() <= 1.01 * scales["y"].scale


def test_wishes_that_make_no_sense_are_refused() -> None:
    for wrong in ("much", "0", "101%", "-3", "nan"):
        with pytest.raises(InputError):
            QuantizeOptions(wide=wrong)
    for both in ({"bits": "4"}, {"bits": "mixed"}, {"max_flash": 1000}):
        with pytest.raises(InputError, match="at once"):
            QuantizeOptions(wide="1%", **both)
    assert not QuantizeOptions(wide="none", bits="4").widens and not QuantizeOptions(wide="none").may_widen
    assert QuantizeOptions().may_widen and not QuantizeOptions(objective="speed").may_widen
    assert QuantizeOptions(wide="1%").wide_db == pytest.approx(40) and QuantizeOptions(wide="35").wide_db == 35
    with pytest.raises(UnsupportedError, match="no activation may"):
        require_groups(WidthPlan((), {}), "1%")
