"""`atonc evaluate` from the data to the figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc import evaluate
from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.verify.emulation import Emulation
from atonc.doors.cli.cli import main
from atonc.doors.verbs.reply import document, file_hash
from tests.evaluating.networks import COLOURS, SIDE, colour_folder, colour_model
from tests.patience import until


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return colour_model(tmp_path_factory.mktemp("model") / "int8.onnx")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return colour_folder(tmp_path / "data")


def test_pictures_in_folders_of_classes(
    model: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    float_model = colour_model(tmp_path / "float.onnx", quantised=False)
    out = tmp_path / "out"
    words = ["evaluate", str(model), "--data", str(folder), "--float", str(float_model), "--processes", "1"]
    assert main([*words, "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 12
    assert {side: f[0]["value"] for side, f in found["figures"].items()} == {"NPU": 1, "int8": 1, "float": 1}
    assert found["figures"]["NPU"][0]["low"] == pytest.approx(0.7575, abs=1e-4)  # Wilson, 12 of 12
    assert found["distances"]["NPU-float"][0]["value"] > 0.999
    assert json.loads((out / "evaluation.json").read_text()) == found
    page = (out / "evaluation.html").read_text()
    assert "<h1>int8.onnx" in page and "Confusion matrix" in page and "model sha256" in page
    assert all(f"<dt>{word}</dt>" in page for word in ("data sha256", "date", "numpy"))
    assert page.count("class='curves'") == 1 + len(COLOURS) and page.count("<path class='side-2'") == 1 + len(COLOURS)
    assert [curve["average_precision"] for curve in found["curves"]["NPU"]] == [1.0] * (1 + len(COLOURS))
    assert 'href="report.html"' in page and b"int8.onnx" in (out / "report.html").read_bytes()


def test_the_hash_of_the_data_is_of_every_file_and_its_name(model: Path, folder: Path, tmp_path: Path) -> None:
    def told() -> str:
        found = evaluate(model, folder, output=tmp_path / "out", processes=1, int8=False)
        return str(found.as_dict()["origin"]["data sha256"])

    first = told()
    assert told() == first
    some = next(path for path in sorted(folder.rglob("*.png")))
    some.rename(some.with_name("other.png"))
    assert told() != first


def test_the_npu_gets_the_pixels_and_says_what_the_emulator_says(model: Path, folder: Path, tmp_path: Path) -> None:
    """top-1 of a wrong colour order: the engine sees the picture, not something like it."""
    found = evaluate(model, folder, output=tmp_path / "out", colours="bgr", processes=1, int8=False)
    compiled = compile_file(model)
    emulation = Emulation(compiled.program, compiled.graph)
    right = 0
    from PIL import Image

    for number, name in enumerate(COLOURS):
        for path in sorted((folder / name).iterdir()):
            pixels = np.asarray(Image.open(path), np.float32)[..., ::-1] / np.float32(255)
            value = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])
            scores = next(iter(emulation.run({"x": value}).values()))
            right += int(np.argmax(scores) == number)
    assert found.sides["NPU"][0].value == right / 12 < 1


def test_samples_that_change_their_answer_are_pictures_of_the_page(
    model: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A float model of other weights answers otherwise."""
    import onnx
    from onnx import numpy_helper

    other = onnx.load(str(colour_model(tmp_path / "float.onnx", quantised=False)))
    weights = numpy_helper.to_array(other.graph.initializer[0])
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights[::-1].copy(), "w"))
    onnx.save(other, str(tmp_path / "float.onnx"))
    words = ["evaluate", str(model), "--data", str(folder), "--float", str(tmp_path / "float.onnx"), "--no-int8"]
    assert main([*words, "-o", str(tmp_path / "out"), "--processes", "1"]) == 0
    assert "8 samples get another answer" in capsys.readouterr().out
    page = (tmp_path / "out" / "evaluation.html").read_text()
    assert page.count("<img") == 8 and "blue/0.png" in page


def test_arrays_and_csv_and_a_generator_are_the_same(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(3)
    values = random.random((6, 3, SIDE, SIDE)).astype(np.float32)
    labels = np.argmax(values.mean(axis=(2, 3))[:, ::-1], axis=1)
    np.savez(tmp_path / "data.npz", x=values, labels=labels)
    rows = np.concatenate([values.reshape(6, -1), labels[:, None]], axis=1)
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",", fmt="%.9g")
    (tmp_path / "made_data.py").write_text(
        "import numpy as np\n\ndef samples():\n    data = np.load('data.npz')\n"
        "    yield from zip(data['x'], data['labels'])\n"
    )
    (tmp_path / "parts" / "later").mkdir(parents=True)
    np.savez(tmp_path / "parts" / "first.npz", x=values[:2], labels=labels[:2])
    np.savez(tmp_path / "parts" / "later" / "second.npz", x=values[2:], labels=labels[2:])
    monkeypatch.chdir(tmp_path)
    found = [
        evaluate(model, data, output=tmp_path / f"out{k}", processes=1, int8=False)
        for k, data in enumerate(("data.npz", "data.csv", "made_data:samples", "parts"))
    ]
    assert found[0].sides["NPU"][0].value == 1.0
    assert found[0].sides == found[1].sides == found[2].sides == found[3].sides


def test_a_metric_of_the_user(model: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def first(outputs, truth):\n    return float(outputs[0].argmax() == truth)\n"
    (tmp_path / "my_metric.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    found = evaluate(model, folder, output="out", metric="my_metric:first", processes=1, int8=False)
    (figure,) = found.sides["NPU"]
    assert (figure.name, figure.value) == ("my_metric:first", 1.0)


def test_a_dask_cluster_gives_the_bytes_of_one_process(model: Path, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    wanted = {"processes": 1, "int8": False, "samples_together": 4}
    here = evaluate(model, folder, output=tmp_path / "here", **wanted)
    there = evaluate(model, folder, output=tmp_path / "there", **wanted, scheduler="local")
    assert here.as_dict() == there.as_dict()
    units = [{p.name: p.read_bytes() for p in (tmp_path / n / "units").glob("??/*")} for n in ("here", "there")]
    assert units[0] == units[1] and len(units[0]) == 3


def _evaluate(model: Path, folder: Path, out: Path) -> subprocess.Popen[bytes]:
    words = ["evaluate", str(model), "--data", str(folder), "-o", str(out), "-q"]
    words += ["--processes", "2", "--samples-together", "2", "--no-int8"]
    command = [sys.executable, "-c", "from atonc.doors.cli.cli import main; raise SystemExit(main())", *words]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(atonc.__file__).parents[1])})


def test_killed_and_resumed_gives_the_same_figures(model: Path, tmp_path: Path) -> None:
    folder = colour_folder(tmp_path / "data", each=10)
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    process = _evaluate(model, folder, resumed)
    until(lambda: list((resumed / "units").glob("??/*")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in (resumed / "units").glob("??/*")}
    assert 0 < len(done) <= 15
    assert _evaluate(model, folder, resumed).wait() == 0
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())  # not done again
    mine = evaluate(model, folder, output=whole, processes=1, samples_together=2, int8=False).as_dict()
    written = json.loads((resumed / "evaluation.json").read_text())
    assert written == document("evaluate", mine, file_hash(model))
