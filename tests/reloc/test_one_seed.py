"""A seed means one thing: `run`, `validate`, `load-and-run` and a board make the same inputs of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.trials import loading
from atonc.doors.cli.cli import main
from atonc.insight.runs import runs
from tests.board.programs import needs_compiler
from tests.emit.generated import DIGITS
from tests.errors_said import unwrapped
from tests.reloc import images

SEED = 3


def generated(model: Path, folder: Path, **options: object) -> Path:
    pools = str(images.pool_file(images.MEMORIES["flash"], "flash"))
    wanted = Options(mpool=pools, relocatable=True, verify=False, **options)  # type: ignore[arg-type]
    generating.generate(generating.analyze(model, wanted), folder)
    return folder


def of_run(folder: Path, tmp_path: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    files = [tmp_path / name for name in ("in.npz", "out.npz")]
    words = ["--seed", str(SEED), "--save-input", str(files[0]), "--output", str(files[1]), "-q"]
    assert main(["run", str(folder), *words]) == 0
    inputs, outputs = (dict(np.load(file)) for file in files)
    return inputs, outputs


def of_validate(model: Path, tmp_path: Path) -> list[np.ndarray]:
    """The second of three samples from the seed before is that of the seed."""
    folder = tmp_path / "validated"
    assert main(["validate", str(model), "--seed", str(SEED - 1), "-b", "3", "-o", str(folder), "-q", "--io-only"]) == 0
    with np.load(folder / "network_val_io.npz") as arrays:
        return [arrays[name][1] for name in sorted(arrays) if name.startswith("m_inputs")]


@pytest.mark.parametrize("model", ["digits.tflite", "digits.onnx"])
def test_run_and_validate(model: str, tmp_path: Path) -> None:
    """int8 codes in the order of TFLite; float numbers in the order of ONNX, over the range of their codes."""
    path = DIGITS.with_name(model)
    inputs, _ = of_run(generated(path, tmp_path / "network"), tmp_path)
    assert [value.tobytes() for value in inputs.values()] == [v.tobytes() for v in of_validate(path, tmp_path)]


def test_several_inputs_of_one_shape(tmp_path: Path) -> None:
    """They differ from each other, here as there."""
    from atonc.compiler.compare.inputs import NaturalInput, make_values

    values = make_values([NaturalInput((1, 4), "int8"), NaturalInput((1, 4), "int8")], SEED)
    assert not np.array_equal(*values)
    info = loading.told([f"ATONC EDGE IN 7 8 0 2 0 0 0 1 4 {name}" for name in "ab"])
    assert [v.tolist() for v in runs.made(info.inputs, SEED).values()] == [v.tolist() for v in values]


def other_range(path: Path) -> Path:
    """The digits with an input from -1 to 1."""
    model = onnx.load(DIGITS.with_name("digits.onnx"))
    names = next(node.input[1:] for node in model.graph.node if node.op_type == "QuantizeLinear")
    values = dict(zip(names, (np.array(2 / 255, np.float32), np.array(0, np.int8)), strict=True))
    for constant in model.graph.initializer:
        if constant.name in values:
            constant.CopyFrom(numpy_helper.from_array(values[constant.name], constant.name))
    onnx.save(model, path)
    return path


@needs_compiler
@pytest.mark.parametrize("model", ["digits.tflite", "digits.onnx", "other range"])
def test_an_image_gives_what_the_folder_gives(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = other_range(tmp_path / "other.onnx") if model == "other range" else DIGITS.with_name(model)
    folder = generated(path, tmp_path / "network")
    _, expected = of_run(folder, tmp_path)
    file, found = tmp_path / "network_rel.bin", tmp_path / "found.npz"
    file.write_bytes(images.image(folder).image.data)
    loader = images.loader()
    monkeypatch.setattr("atonc.delivery.trials.loading.build_loader", lambda runtime, into: loader)
    assert main(["load-and-run", str(file), "--seed", str(SEED), "--output", str(found), "-q"]) == 0
    with np.load(found) as arrays:
        assert {k: v.tolist() for k, v in arrays.items()} == {k: v.tolist() for k, v in expected.items()}
    assert main(["load-and-run", "-i", str(file), "--input", str(tmp_path / "in.npz"), "--json"]) == 0
    digests = json.loads(capsys.readouterr().out)["outputs"]
    assert digests == [runs.digest(value) for value in expected.values()]


def test_files_that_are_no_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a_rel.bin").write_bytes(b"NBIN")
    (tmp_path / "b.rel").write_bytes(b"NBIN")
    assert main(["load-and-run", str(tmp_path / "a_rel.bin"), "-i", str(tmp_path / "b.rel")]) == 2
    assert "two images" in unwrapped(capsys.readouterr().err)
