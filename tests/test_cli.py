"""The command line on the bundled network: what it prints, writes and returns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.doors.cli.cli import main
from tests.errors_said import readable, unwrapped
from tests.frontends.tflite_models import O, T, build

FIRST = Path(__file__).parent.parent / "examples" / "first"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "network"
    shutil.copytree(FIRST, copy)
    return copy


def test_run_prints_epochs_latency_outputs_and_safety(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(FIRST)]) == 0
    text = capsys.readouterr().out
    for expected in ("3 epochs", "latency", "output means", "0 violations"):
        assert expected in text


def test_json_has_the_keys_that_tools_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(FIRST), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) >= {"outputs", "epochs", "cycles", "latency_ms", "seconds"}
    (output,) = document["outputs"]
    assert set(output) >= {"name", "shape", "dtype", "sha256", "scale", "zero_point"}
    assert len(output["values"]) == len(output["real"]) == np.prod(output["shape"])
    assert {"name", "shape", "dtype", "scale", "zero_point"} == set(document["inputs"][0])
    assert set(document["epochs"][0]) >= {"id", "kind", "cycles", "bound_by", "origin"}


def test_saved_input_gives_the_same_output_and_another_seed_another(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{name}.npz") for name in ("in", "a", "b", "c")]
    assert main(["run", str(FIRST), "-q", "--seed", "3", "--save-input", files[0], "--output", files[1]]) == 0
    assert main(["run", str(FIRST), "-q", "--input", files[0], "--output", files[2]]) == 0
    assert main(["run", str(FIRST), "-q", "--seed", "4", "--output", files[3]]) == 0
    first, second, third = (np.load(f)["means"] for f in files[1:])
    assert (first == second).all() and (first != third).any()


def test_compare_finds_the_first_epoch_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tmp_path / "dump"
    assert main(["run", str(FIRST), "-q", "--dump", str(dump)]) == 0
    assert sorted(p.name for p in dump.iterdir()) == ["epoch_0001.npz", "epoch_0002.npz", "epoch_0003.npz"]
    assert main(["run", str(FIRST), "--compare", str(dump)]) == 0
    assert "all equal" in capsys.readouterr().out
    changed = dict(np.load(dump / "epoch_0002.npz"))
    changed["maxima"].reshape(-1)[0] += 1
    np.savez(dump / "epoch_0002.npz", **changed)
    assert main(["run", str(FIRST), "--compare", str(dump)]) == 1
    text = capsys.readouterr().out
    assert "first maxima in epoch 2" in text and "-1: 1" in text


def test_until_stops_early(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(FIRST), "--until", "2"]) == 0
    assert "no outputs" in capsys.readouterr().out


def test_listing_assembles_to_the_same_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["disasm", str(FIRST / "network_ecblobs.h")]) == 0
    listing = tmp_path / "network.s"
    listing.write_text(capsys.readouterr().out)
    for suffix in ("bin", "h"):
        target = tmp_path / f"network.{suffix}"
        assert main(["asm", str(listing), "-o", str(target)]) == 0
        capsys.readouterr()
        assert main(["disasm", str(target)]) == 0
        assert capsys.readouterr().out == listing.read_text()


def test_epochs_as_text_and_data(capsys: pytest.CaptureFixture[str]) -> None:
    header = str(FIRST / "network_ecblobs.h")
    assert main(["disasm", header, "--epochs"]) == 0
    assert "conv 3x3" in capsys.readouterr().out
    assert main(["disasm", header, "--json", "--check"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [e["epoch"] for e in document["programs"][0]["epochs"]] == [1, 2, 3]
    assert all(v["severity"] != "violation" for v in document["violations"])


def test_a_planted_violation_is_reported_by_epoch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (FIRST / "network.s").read_text()
    listing = tmp_path / "bad.s"
    assert main(["disasm", str(FIRST / "network.s"), "--check"]) == 0
    waits = [line for line in text.splitlines() if line.startswith("poll") and "[31]" in line]
    listing.write_text(text.replace(waits[0] + "\n", "", 1))
    assert main(["disasm", str(listing), "--check"]) == 1
    assert "wait" in capsys.readouterr().out.lower()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--input", "missing.npy"], "no such file"),
        (["--name", "other"], "other"),
        (["--weights", "missing.raw"], "missing.raw"),
        (["--blobs", "missing.h"], "missing.h"),
        (["--compare", "missing.npz"], "no such file"),
        (["--layers", "model.txt"], "neither .tflite nor .onnx"),
    ],
)
def test_wrong_arguments_end_in_one_error(
    folder: Path, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(folder), *arguments]) == 2
    assert expected in readable(capsys.readouterr().err)


def test_a_wrong_input_shape_names_both_shapes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = folder / "wrong.npy"
    np.save(wrong, np.zeros((1, 5, 5, 4), np.int8))
    assert main(["run", str(folder), "--input", str(wrong)]) == 2
    error = unwrapped(capsys.readouterr().err)
    assert "1x5x5x4" in error and "1x64x64x4" in error


def test_a_dump_never_lands_on_existing_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(folder), "--dump", str(folder)]) == 2
    assert "empty folder" in unwrapped(capsys.readouterr().err)


def test_layers_of_a_build_are_compared_where_its_channels_have_another_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Channels of unlike scales are sorted inside: their buffer is not in the order of the model."""
    rng = np.random.default_rng(5)
    scales = np.array([0.0005, 0.02, 0.001, 0.015, 0.0007, 0.03, 0.002, 0.01])
    kernels = [rng.integers(-127, 128, (8, 3, 3, 3)), rng.integers(-127, 128, (4, 1, 1, 8))]
    tensors = [T("x", (1, 8, 8, 3), scale=0.02), T("w", (8, 3, 3, 3), scale=scales, data=kernels[0])]
    tensors += [T("b", (8,), "int32", scale=scales * 0.02, data=rng.integers(-2000, 2000, 8))]
    tensors += [T("v", (4, 1, 1, 8), scale=[0.004] * 4, data=kernels[1]), T("h", (1, 8, 8, 8), scale=0.1)]
    tensors += [T("c", (4,), "int32", scale=[0.0004] * 4, data=[0] * 4), T("y", (1, 8, 8, 4), scale=0.3)]
    same: dict[int, tuple[str, Any]] = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 4: ("i", 1), 5: ("i", 1)}
    layers = [("x", "w", "b", "h"), ("h", "v", "c", "y")]
    ops = [O("CONV_2D", [*inputs], [output], "Conv2DOptions", same) for *inputs, output in layers]
    model, folder = tmp_path / "m.tflite", tmp_path / "build"
    model.write_bytes(build(tensors, ops, ["x"], ["y"]))
    assert main(["generate", str(model), "-q", "-o", str(folder)]) == 0
    assert main(["run", str(folder), "--layers", str(model)]) == 0
    said = capsys.readouterr().out
    assert "layers: 2 tensors" in said and "no layer is more than 1 LSB off" in said
