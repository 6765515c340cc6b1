"""`atonc explain --accuracy` on files: text, JSON, page; matching with float models of other names; errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import atonc
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.ir import Graph
from atonc.doors.cli.cli import main
from atonc.insight.accuracy import measure
from atonc.insight.accuracy.twin import match
from atonc.machine.base.errors import InputError
from tests.accuracy.planted import FloatNet, Quantiser
from tests.accuracy.test_planted_faults import SHAPE, network, samples, scaled
from tests.compiler.wide_networks import random_network
from tests.lower.harness import activation


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accuracy")
    model = network().model({"x": SHAPE}, ["boxes", "scores"])
    made = Quantiser.calibrated(model, samples())
    scaled("r2", 1 / 8)(made)
    onnx.save(model, folder / "float.onnx")
    onnx.save(made.model(), folder / "int8.onnx")
    np.savez(folder / "samples.npz", x=np.concatenate([sample["x"] for sample in samples()]))
    return folder


def test_text_names_the_layer_and_the_remedy(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", str(files / "int8.onnx"), "--accuracy", "--float", str(files / "float.onnx")]
    assert main([*words, "--input", str(files / "samples.npz"), "--page", str(files / "page.html")]) == 0
    out = capsys.readouterr().out
    assert "1. n_r2, activation: clipped" in out
    assert "tried: a range that fits its values" in out and "ms" in out
    page = (files / "page.html").read_text("utf-8")
    assert 'id="accuracy-findings"' in page and '"symptom":"clipped"' in page


def test_json_has_every_layer(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(files / "int8.onnx"), "--accuracy", "--json", "--no-prices"]) == 0
    found = json.loads(capsys.readouterr().out)["accuracy"]
    assert found["synthetic"] and found["float_model"] == ""
    assert [layer["name"] for layer in found["layers"]][:3] == ["x_q", "n_c1", "n_r1"]
    assert found["layers"][1]["alone"][0] is None  # weights cannot be judged without the float model
    assert any("--float" in note for note in found["notes"])


def test_python(files: Path) -> None:
    found = atonc.explain_accuracy(
        files / "int8.onnx", float_model=files / "float.onnx", inputs=files / "samples.npz", remedies=False
    )
    assert found.findings[0].layer == "n_r2" and found.samples == 2 and not found.synthetic
    assert all(layer.matched for layer in found.layers)


def test_another_model_is_told(files: Path) -> None:
    net = FloatNet()
    net.conv("x", "boxes", (3, 5))
    onnx.save(net.model({"x": SHAPE}, ["boxes"]), files / "other.onnx")
    with pytest.raises(InputError, match="outputs of"):
        atonc.explain_accuracy(files / "int8.onnx", float_model=files / "other.onnx")
    with pytest.raises(InputError, match="is quantised"):
        atonc.explain_accuracy(files / "int8.onnx", float_model=files / "int8.onnx")


def test_options_of_accuracy_want_it(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(files / "int8.onnx"), "--float", str(files / "float.onnx")]) == 2
    assert "--accuracy" in capsys.readouterr().err


def test_layers_of_other_names_are_found_by_their_order() -> None:
    model = network().model({"x": SHAPE}, ["boxes", "scores"])
    quantised = read_onnx(Quantiser.calibrated(model, samples()).model().SerializeToString())
    for node in model.graph.node:
        kept = [name == "x" or name.endswith(("_w", "_b")) for name in node.input]
        node.input[:] = [name if keep else f"t_{name}" for name, keep in zip(node.input, kept, strict=True)]
        node.output[:] = [f"t_{name}" for name in node.output]
    for output in model.graph.output:
        output.name = f"t_{output.name}"
    found = match(quantised, read_onnx(model.SerializeToString()))
    wanted = ("c1", "r1", "c2", "r2", "sum", "c3", "gate", "swish", "boxes", "raw", "scores")
    assert {name: found[f"{name}_QuantizeLinear_Output"] for name in wanted} == {name: f"t_{name}" for name in wanted}


def test_results_have_names_order_and_shape_of_the_model() -> None:
    """The program may call an output otherwise, turn it, and hold it without its dimensions of one."""
    plain, turned = activation("a", (1, 6), 0.5, 2), activation("b", (1, 3, 4, 5), 0.25)
    source = Graph({"a": plain, "b": turned}, (), (), ("a", "b"))
    made = {"p": replace(plain, name="p", shape=(6,)), "q": replace(turned, name="q", shape=(1, 4, 5, 3))}
    graph = Graph(made, (), (), ("p", "q"), turned={"q": (0, 2, 3, 1)})
    codes = {"p": np.arange(6, dtype=np.int8), "q": np.arange(60, dtype=np.int8).reshape(1, 4, 5, 3)}
    found = measure._outputs(SimpleNamespace(source=source, graph=graph), codes)  # type: ignore[arg-type]
    assert list(found) == ["a", "b"] and found["a"].tolist() == [[-1.0, -0.5, 0.0, 0.5, 1.0, 1.5]]
    np.testing.assert_array_equal(found["b"], codes["q"].transpose(0, 3, 1, 2) * 0.25)


def test_a_relu_that_became_a_range_is_the_float_models_relu() -> None:
    """Quantisers leave a ReLU out where the format begins at zero."""
    net = FloatNet()
    net.conv("x", "c1", (3, 8))
    net.op("Relu", ["c1"], "r1")
    net.conv("r1", "y", (8, 4), 1)
    model = net.model({"x": SHAPE}, ["y"])
    made = Quantiser.calibrated(model, samples())
    made.formats["c1"] = made.formats["r1"]
    without = made.model()
    relu = next(node for node in without.graph.node if node.op_type == "Relu")
    pair = [node for node in without.graph.node if node.name in ("r1_q", "r1_dq")]
    reader = next(node for node in without.graph.node if node.name == "n_y")
    reader.input[0] = "c1_DequantizeLinear_Output"
    for node in (relu, *pair):
        without.graph.node.remove(node)
    quantised, real = read_onnx(without.SerializeToString()), read_onnx(model.SerializeToString())
    assert match(quantised, real)["c1_QuantizeLinear_Output"] == "r1"


def test_codes_of_16_bits_keep_their_zero_and_are_offered_no_16_bits(tmp_path: Path) -> None:
    """A range of one side is no reason for a zero point, which would send the layer to the CPU."""
    path = tmp_path / "wide.tflite"
    path.write_bytes(random_network(3).tflite("int16"))
    found = atonc.explain_accuracy(path)
    assert found.findings
    for one in found.findings:
        assert one.symptom not in ("zero-point", "eight-bits", "saturation"), one
        assert all(remedy.what != "16 bits" for remedy in one.remedies)
