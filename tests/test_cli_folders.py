"""Verbs on folders that were built: what they are told and say."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from tests.errors_said import unwrapped

DIGITS = Path(__file__).parent.parent / "examples" / "digits"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model beside it, built with options."""
    place = tmp_path_factory.mktemp("folders")
    shutil.copy(DIGITS / "digits.tflite", place)
    words = ["generate", str(place / "digits.tflite"), "--no-verify", "--prefer", "memory", "--on", "cpu", "CONV_2D_0"]
    assert main([*words, "-o", str(place / "out")]) == 0
    return place / "out"


def test_validate_finds_the_model_of_a_folder(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the options that it was built with."""
    assert main(["validate", str(built), "-b", "1"]) == 0
    said = capsys.readouterr()
    assert "with the options that" in said.err and "passed" in said.out
    again = said.out.splitlines()[-1]
    assert f"atonc generate {built.parent / 'digits.tflite'} --prefer memory --on cpu CONV_2D_0" in again


def test_run_names_epochs_as_the_build_does(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(built), "--json"]) == 0
    shown = [epoch["origin"] for epoch in json.loads(capsys.readouterr().out)["epochs"]]
    steps = json.loads((built / "network_program.json").read_text())["steps"]
    assert shown == [step["title"] for step in steps] and any("CONV_2D" in title for title in shown)


def test_validate_says_what_to_pass_where_the_model_changed(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(built, tmp_path / "out")
    assert main(["validate", str(tmp_path / "out")]) == 2
    said = unwrapped(capsys.readouterr().err)
    assert f"that file is in none of {tmp_path / 'out'}, {tmp_path}, ." in said
    assert "or name it as MODEL: atonc validate MODEL --prefer memory --on cpu CONV_2D_0" in said
    (tmp_path / "digits.tflite").write_bytes(b"another")
    assert main(["validate", str(tmp_path / "out")]) == 2
    assert "has changed since" in unwrapped(capsys.readouterr().err)


@pytest.mark.parametrize("damage", ["changed", "no manifest"])
def test_validate_passes_no_folder_that_was_changed(
    damage: str, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(built, tmp_path / "out")
    shutil.copy(built.parent / "digits.tflite", tmp_path)
    (image,) = (tmp_path / "out").glob("*xSPI2.raw")
    image.write_bytes(bytes(100) + image.read_bytes()[100:])
    if damage == "no manifest":
        (tmp_path / "out" / "network_manifest.json").unlink()
    assert main(["validate", str(tmp_path / "out"), "-b", "1"]) == 2
    said = "is not the file that was generated" if damage == "changed" else "its files cannot be checked"
    assert said in unwrapped(capsys.readouterr().err)


def test_validate_runs_the_files_of_the_folder(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever writes another kernel and another hash is found by what the network computes."""
    shutil.copytree(built, tmp_path / "out")
    shutil.copy(built.parent / "digits.tflite", tmp_path)
    (image,), manifest = (tmp_path / "out").glob("*xSPI2.raw"), tmp_path / "out" / "network_manifest.json"
    before = image.read_bytes()
    image.write_bytes(bytes(value ^ 0x40 for value in before))
    hashes = [hashlib.sha256(data).hexdigest() for data in (before, image.read_bytes())]
    manifest.write_text(manifest.read_text().replace(*hashes))
    assert main(["validate", str(tmp_path / "out"), "-b", "1"]) == 1
    said = capsys.readouterr()
    assert "failed" in said.out and "LSB from exact arithmetic" in said.err


def test_outputs_alone_say_nothing_of_layers(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(built), "-b", "1", "--io-only"]) == 0
    assert "1 output; layers not checked" in capsys.readouterr().out


@pytest.mark.parametrize("epoch", ["0", "-1", "99"])
def test_run_ends_at_an_epoch_that_there_is(epoch: str, built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(built), "--until", epoch]) == 2
    assert re.search(rf"there is no epoch {epoch}\b.*from 1 to \d", unwrapped(capsys.readouterr().err), re.DOTALL)


def test_run_says_who_compiled_a_folder_of_ours(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(built)]) == 0
    assert "compiled by atonc " in capsys.readouterr().out.splitlines()[0]


def test_latency_has_the_same_digits_in_short_and_in_full(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(built)]) == 0
    short = re.search(r"latency +([\d.]+ ms)", capsys.readouterr().out)
    assert main(["run", str(built), "-v"]) == 0
    assert short is not None and f"latency {short[1]} predicted" in capsys.readouterr().out


def test_several_networks_are_named(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(built, tmp_path / "out")
    assert (
        main(["generate", str(DIGITS / "digits.tflite"), "--no-verify", "-n", "second", "-o", str(tmp_path / "out")])
        == 0
    )
    capsys.readouterr()
    for verb in ("run", "reloc"):
        more = ["-o", str(tmp_path / "image")] if verb == "reloc" else []
        assert main([verb, str(tmp_path / "out"), *more]) in (2, 4)
        said = unwrapped(capsys.readouterr().err)
        assert "is called ;" not in said and ("several networks: network, second" in said or "gcc" in said)


def test_a_float_output_tells_real_values(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its error is in LSB of the codes that it comes from, and in real values beside the range."""
    words = ["generate", str(DIGITS / "digits.tflite"), "--output-data-type", "float32", "-o", str(tmp_path / "out")]
    assert main([*words, "--json"]) == 0
    (output,) = json.loads(capsys.readouterr().out)["verify"]["outputs"]
    assert output["max_lsb"] == 1.0 and output["max_error"] == pytest.approx(1 / 256) and output["within1_pct"] == 100.0
    said = (tmp_path / "out" / "network_report.txt").read_text()
    assert re.search(r"max error 0\.003906 \(\d\.\d % of the output's range \d\.\d+\)", said)
