"""The command line with files that mean harm, in terminals and locales of all kinds: a short error, quickly."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.inputs.images import FORMATS
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError, plain
from tests.errors_said import readable
from tests.frontends.tflite_models import O, T, build
from tests.patience import no_hang

ROOT = Path(__file__).resolve().parent.parent
FIRST, DIGITS = str(ROOT / "examples" / "first"), str(ROOT / "examples" / "digits" / "digits.tflite")
REFUSED = 2
NASTY = "x\x1b[2J\u202e\natonc: all is well\x9b31m\udc80"


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What it says, which is one error and nothing else."""
    with no_hang():
        assert main(words) == REFUSED, words
    said = capsys.readouterr().err
    assert said.count("atonc: ") == 1 or NASTY in words, said
    return readable(said)


# ---------------------------------------------------------------------------------------------------------------- files


@pytest.fixture(params=["pipe", "/dev/zero", "folder"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What is no file but can be opened."""
    if request.param == "/dev/zero":
        return Path("/dev/zero")
    path = tmp_path / "odd.npy"
    path.mkdir() if request.param == "folder" else os.mkfifo(path)
    return path


def test_devices_pipes_and_folders_are_refused(endless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(endless)
    for words in (
        ["analyze", name],
        ["analyze", DIGITS, "--mpool", name],
        ["run", FIRST, "--input", name],
        ["run", FIRST, "--weights", name],
        ["run", FIRST, "--blobs", name],
        ["validate", DIGITS, "--input", name],
        ["disasm", name],
        ["asm", name],
    ):
        assert "not a file" in refusal(words, capsys), words


def test_a_folder_may_hold_pipes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("network.c", "network_manifest.json", "network_c_info.json"):
        os.mkfifo(tmp_path / name)
    refusal(["run", str(tmp_path)], capsys)
    refusal(["explain", str(tmp_path)], capsys)


def test_impossible_names(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x" * 5000 + ".tflite", "x" * 300 + ".tflite", "a\0b.tflite"):
        for words in (["analyze", name], ["run", name], ["explain", name], ["compare", name, name], ["disasm", name],
                      ["validate", DIGITS, "--input", name], ["analyze", DIGITS, "--mpool", name],
                      ["analyze", DIGITS, "--st-neural-art", f"x@{name}"]):  # fmt: skip
            refusal(words, capsys)


# --------------------------------------------------------------------------------------------------------------- inputs


def archive(method: int, content: bytes, claimed: int = 0) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        made.writestr("image.npy", content)
    data = bytearray(file.getvalue())
    if claimed:  # in the directory at the end: what it will become
        at = data.rindex(b"PK\x01\x02") + 24
        data[at : at + 4] = claimed.to_bytes(4, "little")
    return bytes(data)


def npy(value: np.ndarray) -> bytes:  # type: ignore[type-arg]
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


GOOD = npy(np.zeros((1, 64, 64, 4), np.int8))
INPUTS = {  # made by the test that wants them: a bomb takes seconds
    "a bomb": lambda: archive(zipfile.ZIP_DEFLATED, bytes(100 << 20)),
    "a bomb of another kind": lambda: archive(zipfile.ZIP_BZIP2, bytes(100 << 20)),
    "a claim": lambda: archive(zipfile.ZIP_STORED, GOOD, 4_000_000_000),
    "words": lambda: npy(np.full((1, 64, 64, 4), "abc")),
    "objects": lambda: b"\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, 'shape': (9,), }" + b" " * 50,
    "more than there is": lambda: GOOD.replace(b"(1, 64, 64, 4)", b"(9, 64, 64, 4)"),
    "less than nothing": lambda: GOOD.replace(b"(1, 64, 64, 4)", b"(1, 64, -4, 4)"),
    "a picture that is none": lambda: b"\x89PNG\r\n\x1a\nnothing",
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("what", INPUTS)
def test_hostile_inputs(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = INPUTS[what]()
    for name in ("a.npy", "a.npz", "a.png"):  # the name does not matter
        (tmp_path / name).write_bytes(content)
        refusal(["run", FIRST, "--input", str(tmp_path / name)], capsys)
    refusal(["validate", DIGITS, "--input", str(tmp_path / "a.npy")], capsys)


def test_pictures_are_told_by_their_contents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = image.fromarray(np.arange(64 * 64 * 4, dtype=np.uint8).reshape(64, 64, 4))
    for kind in FORMATS:
        (tmp_path / "x.dat").unlink(missing_ok=True)
        picture.convert("RGB").save(tmp_path / "x.dat", kind)
        assert main(["run", FIRST, "-q", "--input", str(tmp_path / "x.dat")]) == 0, kind
    for kind, converted in (("TIFF", "RGB"), ("ICO", "RGB"), ("PNG", "I;16")):
        picture.convert("L").convert(converted).save(tmp_path / "x.png", kind)
        said = refusal(["run", FIRST, "--input", str(tmp_path / "x.png")], capsys)
        assert "image" in said
    (tmp_path / "x.png").write_bytes(b"P6 100000 100000 255\n" + bytes(100))
    assert "10,000,000,000" in refusal(["run", FIRST, "--input", str(tmp_path / "x.png")], capsys).replace(
        "100000 x 100000 pixels", "10,000,000,000"
    )


# ---------------------------------------------------------------------------------------------------------------- names


def nasty_model() -> bytes:
    tensors = [T("x", (1, 4, 4, 8), scale=0.1), T(NASTY[:-1], (1, 4, 4, 8), scale=0.2)]
    return build(tensors, [O("RELU", ["x"], [NASTY[:-1]])], ["x"], [NASTY[:-1]])


def test_names_never_act_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "bad\x1b[2J\u202ename.tflite"
    model.write_bytes(nasty_model())
    out = tmp_path / "out"
    for words in (
        ["generate", str(model), "-o", str(out), "-v"],
        ["explain", str(model), "-v", "--no-prices"],
        ["explain", str(out), "-v"],
        ["run", str(out), "-v"],
        ["validate", str(model), "--per-layer", "-v"],
        ["analyze", str(model), "--json"],
        ["compare", str(out), str(out), "-v"],
    ):
        assert main(words) == 0, capsys.readouterr().err
        shown = capsys.readouterr()
        assert all(line.isprintable() for line in (shown.out + shown.err).split("\n")), words
        assert not any(line.startswith("atonc: all is well") for line in shown.out.splitlines())
    assert plain(NASTY).replace("\n", "").isprintable()
    assert str(InputError(NASTY)).isprintable()


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_other_encodings(locale: str, tmp_path: Path) -> None:
    """Names and sentences that the terminal's encoding does not have are spelled out."""
    model = tmp_path / "modèle_图.tflite"
    tensors = [T("entrée", (1, 4, 4, 8), scale=0.1), T("出力", (1, 4, 4, 8), scale=0.2)]
    model.write_bytes(build(tensors, [O("RELU", ["entrée"], ["出力"])], ["entrée"], ["出力"]))
    odd = {"LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    environment = {**os.environ, **odd, "PYTHONPATH": str(ROOT)}
    script = (
        "import sys; from atonc.doors.cli.cli import main; m = sys.argv[1]\n"
        "sys.exit(main(['generate', m, '-o', 'out', '-v']) or main(['explain', 'out', '-v']) or main(['run', 'out'])\n"
        " or main(['view', 'out', '--save', 'x.html']) or main(['validate', m, '--samples', '1'])\n"
        " or main(['analyze', m, '--json']) or main(['analyze', m + '.absent']))"
    )
    command = [sys.executable, "-c", script, str(model)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True)
    assert done.returncode == REFUSED, done.stderr
    assert b"Traceback" not in done.stderr and b"there is no such file" in done.stderr
    assert done.stdout.isascii() and b"\\u51fa\\u529b" in done.stdout


# ----------------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "absent.tflite"],
        ["analyze", "absent.onnx"],
        ["explain", "absent"],
        ["validate", "absent.tflite"],
        ["run", "absent"],
        ["compare", "absent", "absent"],
        ["ops", "absent"],
        ["disasm", "absent"],
        ["analyze", DIGITS, "--no-such-option"],
        ["analyze", DIGITS, "--numerics", "x"],
    ],
    ids=lambda words: " ".join(word if word != DIGITS else "digits" for word in words),
)
def test_errors_as_objects(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--json"]) == REFUSED
    shown = capsys.readouterr()
    found = json.loads(shown.out)["error"]
    assert found["exit_code"] == REFUSED and found["what"] and set(found) >= {"kind", "where", "rule", "remedy"}
    readable(shown.err)


def test_a_model_that_does_not_fit_as_an_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = [T("x", (1, 4096, 4096, 4), scale=0.1), T("y", (1, 4096, 4096, 4), scale=0.2)]
    (tmp_path / "large.tflite").write_bytes(build(tensors, [O("RELU", ["x"], ["y"])], ["x"], ["y"]))
    for verb in ("analyze", "explain"):
        assert main([verb, str(tmp_path / "large.tflite"), "--json"]) == 3
        found = json.loads(capsys.readouterr().out)["error"]
        assert found["exit_code"] == 3 and any("options that help" in line for line in found["details"])


def test_our_own_mistakes_are_short_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x\x1b[2J")

    monkeypatch.setattr("atonc.insight.explain.operators.operator_table", broken)
    assert main(["ops", "--json"]) == 4
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["kind"] == "InternalError"
    assert "Traceback" not in readable(shown.err)
    monkeypatch.setenv("ATONC_TRACEBACK", "1")
    assert main(["ops"]) == 4 and "Traceback" in capsys.readouterr().err


def test_nobody_reads_the_object_of_a_refusal(tmp_path: Path) -> None:
    """The exit code says what happened, and nothing else is printed."""
    (tmp_path / "model.tflite").write_bytes(b"nothing")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "atonc", "analyze", str(tmp_path / "model.tflite"), "--json"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 2 and "Traceback" not in done.stderr
