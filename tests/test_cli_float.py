"""Models that are float, or partly: refused with the quantiser to use, or compiled with the list of what is float."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tflite")

from atonc.doors.cli.cli import main
from tests.errors_said import readable
from tests.frontends.tflite_models import O, T, build


def model(folder: Path, weights_quantised: bool = False, input_quantised: bool = False) -> str:
    """A dense layer and a tanh."""
    data = np.random.default_rng(1).integers(-9, 9, (3, 4))
    weights = T("w", (3, 4), scale=0.1, data=data) if weights_quantised else T("w", (3, 4), "float32", data=data * 0.1)
    tensors = [T("x", (1, 4), "float32"), weights, T("y", (1, 3), "float32"), T("z", (1, 3), "float32")]
    ops = [O("FULLY_CONNECTED", ["x", "w"], ["y"]), O("TANH", ["y"], ["z"])]
    if input_quantised:
        tensors += [T("q", (1, 4), scale=0.05), T("r", (1, 4), scale=0.05)]
        ops = [O("MINIMUM", ["q", "q"], ["r"]), O("DEQUANTIZE", ["r"], ["x"]), *ops]
    path = folder / "model.tflite"
    path.write_bytes(build(tensors, ops, ["q" if input_quantised else "x"], ["z"]))
    return str(path)


def test_float_models_end_with_2_and_the_quantiser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", model(tmp_path), "-o", str(tmp_path / "out")]) == 2
    text = readable(capsys.readouterr().err)
    for words in ("all 2 operators", "FULLY_CONNECTED_0 (dense, 76 bytes)", "TFLiteConverter", "--allow-float"):
        assert words in text
    assert not (tmp_path / "out").exists()


def test_float_models_can_be_insisted_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", model(tmp_path), "--allow-float", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["epochs"]["npu"] == 0 and document["verify"]["outputs"][0]["cos"] > 0.999999
    assert document["coverage"]["percent"] == 0 and document["coverage"]["float_bytes"] == 76 + 24


@pytest.mark.parametrize("part", [{"weights_quantised": True}, {"input_quantised": True}])
def test_partly_float_models_list_what_is_float(
    part: dict[str, bool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path, **part)
    assert main(["analyze", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["coverage"]
    assert [node["op"] for node in found["float_ops"]] == ["dense", "tanh"]
    assert all(set(node) == {"node", "op", "size_bytes", "why"} for node in found["float_ops"])
    assert main(["analyze", path]) == 0
    assert "left in float by the quantiser: 1 dense, 1 tanh" in capsys.readouterr().out
    assert main(["analyze", path, "-v"]) == 0
    text = capsys.readouterr().out
    assert "coverage: " in text and "TFLiteConverter" in text


def test_real_values_between_codes_are_not_left_in_float(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the compiler makes a table of codes does not run in float, whatever the file says."""
    tensors = [T("q", (1, 4), scale=0.05), T("r", (1, 4), scale=0.05)]
    tensors += [T(name, (1, 4), "float32") for name in ("x", "y", "z")]
    between = [O("DEQUANTIZE", ["q"], ["x"]), O("TANH", ["x"], ["y"]), O("EXP", ["y"], ["z"])]
    (tmp_path / "model.tflite").write_bytes(build(tensors, [*between, O("QUANTIZE", ["z"], ["r"])], ["q"], ["r"]))
    assert main(["analyze", str(tmp_path / "model.tflite"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["epochs"]["cpu"] == 0 and found["coverage"]["percent"] == 100 and not found["coverage"]["float_ops"]


def test_quantised_models_need_no_word_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    digits = Path(__file__).parent.parent / "examples" / "digits" / "digits.tflite"
    assert main(["analyze", str(digits), "--no-verify"]) == 0
    assert "coverage" not in capsys.readouterr().out
