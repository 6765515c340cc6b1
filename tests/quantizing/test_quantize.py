"""A whole model, from float to a compiled int8 network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx
from onnx import numpy_helper

import atonc
from atonc.doors.cli.cli import main
from atonc.doors.verbs.reply import file_hash
from atonc.insight.quantizing.observe import outputs
from atonc.insight.report.quantize_text import QuantizePageParts, page
from atonc.machine.base.errors import InputError
from tests.errors_said import unwrapped
from tests.quantizing.float_models import network, samples, save


def codes(model: Any, name: str) -> Any:
    return numpy_helper.to_array(next(p for p in model.graph.initializer if p.name == name))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("quantize")
    return atonc.quantize(save(folder, network(spread=4.0)), samples(folder)), folder


def test_the_int8_model_is_near_float_and_compiles(made: Any) -> None:
    result, folder = made
    feeds = [{"x": value[None]} for value in np.load(samples(folder))["x"]]
    exact, coded = (np.stack([y[0] for y in outputs(m, feeds)]) for m in (network(spread=4.0), result.model))
    assert np.abs(exact - coded).max() < 0.05
    assert result.outputs_db["y"] > 25
    result.save(folder / "int8.onnx")
    compiled = atonc.compile(folder / "int8.onnx", verify=True)
    on_cpu = {layer.kind for layer in compiled.layers if layer.on == "CPU"}
    assert on_cpu <= {"softmax", "quantize", "dequantize"}


def test_weights_are_symmetric_int8_by_channel_and_biases_int32(made: Any) -> None:
    model = onnx.ModelProto.FromString(made[0].model)
    layers = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")]
    assert len(layers) == 4 and not any(node.op_type == "BatchNormalization" for node in model.graph.node)
    by_output = {node.output[0]: node for node in model.graph.node}
    for layer in layers:
        weights, bias = by_output[layer.input[1]], by_output[layer.input[2]]
        assert codes(model, weights.input[0]).dtype == np.int8 and not codes(model, weights.input[2]).any()
        assert codes(model, bias.input[0]).dtype == np.int32
        source = by_output[layer.input[0]]
        expected = codes(model, source.input[1]) * codes(model, weights.input[1])
        assert np.allclose(codes(model, bias.input[1]), expected, rtol=1e-6)


def test_same_input_same_bytes(made: Any) -> None:
    result, folder = made
    again = atonc.quantize(folder / "float.onnx", samples(folder))
    assert again.model == result.model and again.front == result.front


def test_every_kept_step_helps_and_one_candidate_is_chosen(made: Any) -> None:
    result, _ = made
    steps = [step for step in result.steps if "the range of" not in step.name and "file" not in step.name]
    kept = [step.snr_db for step in steps if step.kept]
    assert kept == sorted(kept)
    assert all(step.kept == (step.gain_db[0] > 0) for step in steps if step.gain_db)
    assert sum(candidate.chosen for candidate in result.front) == 1
    best = max(candidate.snr_db for candidate in result.front)
    assert result.chosen.snr_db >= best - 0.5
    near = [c.milliseconds for c in result.front if c.snr_db >= best - 0.5]
    assert result.chosen.milliseconds == min(near)


def test_the_page_shows_the_front_as_a_plot(made: Any) -> None:
    result, _ = made
    text = page(result, QuantizePageParts({"data": "<b>"}, why_no_layers="nobody looked")).decode()
    assert "&lt;b&gt;" in text and "<b>" not in text and "is not known: nobody looked" in text
    assert text.count("<circle") == len(result.front) and text.count("class='chosen'") == 1
    assert all(f"{candidate.snr_db:.2f} dB" in text for candidate in result.front)
    places = [float(word.split("'")[0]) for word in text.split("cx='")[1:]]
    order = np.argsort([candidate.milliseconds for candidate in result.front], kind="stable")
    assert list(np.array(places)[order]) == sorted(places)  # slower ones to the right


def test_objectives(made: Any) -> None:
    _, folder = made
    accurate = atonc.quantize(folder / "float.onnx", samples(folder), objective="accuracy")
    fast = atonc.quantize(folder / "float.onnx", samples(folder), objective="speed")
    assert len(accurate.front) == 1
    assert fast.chosen.milliseconds == min(c.milliseconds for c in fast.front)
    assert fast.chosen.milliseconds <= accurate.chosen.milliseconds


def test_the_verb_writes_the_file_and_json(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = made
    target = folder / "verb.onnx"
    words = ["quantize", str(folder / "float.onnx"), "--data", str(samples(folder)), "-o", str(target), "--json"]
    words += ["--page", str(folder / "front.html")]
    assert main([*words, "--objective", "accuracy", "--no-rounding", "--no-equalisation"]) == 0
    text = (folder / "front.html").read_text()
    assert text.count("<circle") == 1 and 'href="front_report.html"' in text
    assert "Signal to noise by layer" in text and "loses is not known" not in text
    origin = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", text))
    assert origin["float model sha256"] == file_hash(folder / "float.onnx") and origin["atonc"]
    assert origin["data sha256"] == file_hash(samples(folder)) and origin["int8 model sha256"] == file_hash(target)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", origin["date"]) and origin["onnxruntime"]
    assert b"float, int8" in (folder / "front_report.html").read_bytes()
    found = json.loads(capsys.readouterr().out)
    assert target.is_file() and found["file"] == str(target) and found["front"][0]["chosen"]
    assert {step["name"] for step in found["steps"] if step["kept"] and "times the range" not in step["name"]} <= {
        "ranges by output, nearest rounding", "ranges by output, a quarter cut at most, nearest rounding",
        "ranges by mse, nearest rounding", "ranges by minmax, nearest rounding",
        "ranges by percentile, nearest rounding",
        "biases corrected",
        *(f"file calibrated on {who} (compared on all samples)" for who in ("all samples", "one half")),
    }  # fmt: skip


def test_wrong_names_and_targets(made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = made
    model, data = str(folder / "float.onnx"), str(samples(folder))
    for words, said in (
        ([model, "--data", data, "-o", str(tmp_path / "a.tflite")], "does not end in .onnx"),
        ([model, "--data", data, "-o", model], "would overwrite the float model"),
        ([str(tmp_path / "no.onnx"), "--data", data], "no such file"),
        ([model, "--data", str(tmp_path / "nowhere")], "no such file or folder"),
    ):
        assert main(["quantize", *words]) == 2
        assert said in unwrapped(capsys.readouterr().err)
    with pytest.raises(InputError, match="did you mean objective"):
        atonc.quantize(model, data, objektive="speed")
