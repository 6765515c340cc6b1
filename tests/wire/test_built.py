"""What was built is what is validated: `validate --mode target` and `--mode board` with what `generate` wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from atonc.compiler.compile import compile_view
from atonc.compiler.request.options import Options
from atonc.delivery.trials.targeting import BuiltSide, CompiledSide, look
from atonc.doors.cli import cli
from atonc.insight.validating.validating import synthetic_samples
from tests.board.programs import needs_compiler
from tests.emit.generated import DIGITS
from tests.errors_said import unwrapped

from .served import served

OUT = "st_ai_output"
SPECIAL = "--no-epoch-controller"  # what stands in a profile when `generate` is called, and is not repeated


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder as a script leaves it: the model elsewhere, what was generated in st_ai_output."""
    home = tmp_path_factory.mktemp("project")
    assert cli.main(["generate", str(DIGITS), "-o", str(home / OUT), SPECIAL, "-q"]) == 0
    return home


@pytest.fixture(scope="module")
def line(project: Path) -> Iterator[str]:
    elf = project / "firmware.elf"
    assert cli.main(["board", "build", str(project / OUT), "-o", str(elf), "-q"]) == 0
    with served(elf) as place:
        yield place


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something is compiled")

    monkeypatch.setattr(compile_view, "compile_file", refuse)


def on_target(line: str, *words: object) -> int:
    return cli.main(["validate", "-m", str(DIGITS), "--mode", "target", "-d", line, "-b", "1", *map(str, words)])


@needs_compiler
@pytest.mark.usefixtures("no_compiler")
def test_two_steps_of_a_script(
    project: Path, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    assert on_target(line, "--json", "-v") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["equal"] and found["bytes_compared"] == 10
    assert found["target"]["identity"].endswith(f"is that of {OUT}/network.c")
    assert found["reference"].startswith("TFLite") and found["outputs"][0]["name"] == "probabilities"


@needs_compiler
@pytest.mark.usefixtures("no_compiler")
def test_val_json_from_anywhere(
    project: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options that it was not built with are named, since they change nothing."""
    monkeypatch.chdir(tmp_path)
    assert on_target(line, "--val-json", project / OUT / "network_c_info.json", "--prefer", "memory") == 0
    out, err = capsys.readouterr()
    assert "every byte equals the emulator's" in out
    assert f"validating what was built as {project / OUT / 'network.c'}" in err
    assert "it was built without --prefer memory" in err


@needs_compiler
def test_nothing_fits(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the folder: it says what was looked at, compiles aloud, and refuses what the board does not hold."""
    monkeypatch.chdir(tmp_path)
    assert on_target(line) == 4
    err = unwrapped(capsys.readouterr().err)
    assert "digits.tflite is compiled with the options given here" in err
    assert "the board holds another network: Default" in err and "this compilation is" in err
    assert f"no compiled network in {OUT}" in err and "--val-json FOLDER/NAME_c_info.json" in err
    assert on_target(line, SPECIAL, "-q") == 0  # the same program as the board's: its hash says so


@needs_compiler
@pytest.mark.usefixtures("no_compiler")
def test_val_json_of_another_build_is_refused(
    project: Path, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(shutil.copytree(project / OUT, tmp_path / "other"))
    blobs = other / "network.c"
    blobs.write_text(blobs.read_text() + "\n")
    (other / "network_manifest.json").unlink()
    assert on_target(line, "--val-json", other / "network_c_info.json") == 4
    err = unwrapped(capsys.readouterr().err)
    assert "the board holds another network" in err and str(other / "network.c") in err


@needs_compiler
@pytest.mark.usefixtures("no_compiler")
def test_mode_board_runs_the_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    assert cli.main(["validate", str(DIGITS), "--mode", "board", "-b", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["equal"] and f"validating what was built as {OUT}/network.c" in err


# ------------------------------------------------------------------------------------------------- without a board


def test_a_folder_of_another_model(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(DIGITS.read_bytes() + b"\0" * 4)
    given = ["--val-json", str(project / OUT / "network_c_info.json")]
    assert cli.main(["validate", str(other), "--mode", "board", *given]) == 2
    assert "comes from another model (digits.tflite)" in unwrapped(capsys.readouterr().err)


def test_val_json_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file, words in ((tmp_path / "none.json", "no such file"), (tmp_path / "c_info.json", "lies beside it")):
        (tmp_path / "c_info.json").write_text("{}")
        assert cli.main(["validate", str(DIGITS), "--mode", "board", "--val-json", str(file)]) == 2
        assert words in unwrapped(capsys.readouterr().err)


def test_options_that_contradict_the_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for now must have been asked for then; what is not repeated does not count."""
    monkeypatch.chdir(project)
    (built,) = look(DIGITS, None, None).found
    assert built.is_of(DIGITS) and built.suits({}) and built.suits({SPECIAL: ""})
    assert not built.suits({"--prefer": "memory"})


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("digits.tflite", {}),
        ("digits.tflite", {"input_type": "float32", "output_type": "float32", "inputs_channel_position": "chfirst"}),
        ("digits.onnx", {"output_type": "int8"}),
        ("digits.onnx", {"inputs_channel_position": "chlast"}),
    ],
)
def test_the_folder_expects_what_the_compilation_does(model: str, words: dict[str, str], tmp_path: Path) -> None:
    """Options of the edges come from the folder: they need not be repeated."""
    from atonc.delivery.generate import generating

    path = DIGITS.with_name(model)
    view = generating.analyze(path, Options(verify=False, **words))  # type: ignore[arg-type]
    generating.generate(view, tmp_path)
    (built,) = look(path, tmp_path / "network_c_info.json", None).found
    side, compiled = BuiltSide(built, path, Options()), CompiledSide(view)
    for sample in synthetic_samples(side.source, 2, 5):
        assert side.expect(sample) == compiled.expect(sample)
    assert side.side.signature == compiled.side.signature
