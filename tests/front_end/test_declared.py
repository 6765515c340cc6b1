"""What is declared is checked: every mistake is said with its place and what to write instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.delivery.front_end import fitting
from atonc.delivery.front_end.pipeline import CHECKS, SECTIONS, Pipeline, load, parse, presets
from atonc.delivery.front_end.tables import mel_weights
from atonc.delivery.front_end.twin import STEPS, front_end
from atonc.doors.cli.cli import main
from atonc.machine.base.about import package_folder
from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError
from tests.front_end.ways import sound

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite")


def test_every_key_of_every_section_is_checked() -> None:
    declared = {f"{name}.{field.name}" for name, kind in SECTIONS.items() for field in fields(kind)}
    assert declared | {"name", "rate"} == set(CHECKS)
    assert {field.name for field in fields(Pipeline)} == {*SECTIONS, "name", "rate"}


def test_every_step_has_its_function_and_its_pieces() -> None:
    folder = package_folder() / "machine" / "runtime" / "front_end"
    pieces = {part for step in STEPS for part in step.parts} | {"lanes.h", "codes.c", "stream.c"}
    assert {path.name for path in folder.iterdir()} == pieces
    for step in STEPS:
        assert f"fe_{step.key}(" in "".join((folder / part).read_text() for part in step.parts)


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("[mel]\ncont = 3\n", "front_end.toml:2: mel.cont", "did you mean count?"),
        ("[mel]\n\ncount = 3.5\n", "front_end.toml:3: mel.count", "a whole number from 0 to 512"),
        ("[spectrum]\nn_fft = 400\n", "front_end.toml:2: spectrum.n_fft", "one of 64, 128, 256, 512"),
        ("[frame]\nlength = 600\n[log]\nguard = 1e-6\n", "spectrum.n_fft", "n_fft = 1024"),
        ("[log]\nguard = 0.0\n", "log.guard", "neither a guard nor a floor"),
        ("[mle]\n", "front_end.toml:1: mle", "did you mean mel?"),
        ("based_on = 'librossa'\n", "based_on", "librosa"),
        ("based_on = 'nemo'\n[normalise]\nmean = [1, 2]\n", "front_end.toml:3: normalise.mean", "2 for 80 features"),
        ("based_on = 'nemo'\n[normalise]\ndeviation = 0\n", "normalise.deviation", "not above zero"),
        ("based_on = 'nemo'\n[mel]\nfmax = 9000\n", "mel.fmax", "fmax = 8000"),
        ("based_on = 'nemo'\n[mel]\nfmin = 9000\n", "mel.fmin", "lower fmin"),
        ("based_on = 'nemo'\n[dct]\ncount = 90\n", "dct.count", "90 of 80 values"),
        ("based_on = 'nemo'\n[frame]\nfirst = -400\n", "frame.first", "begin it later"),
        ("based_on = 'nemo'\n[codes]\ntype = 'int8'\nzero_point = 200\n", "codes.zero_point", "outside int8"),
        ("based_on = 'nemo'\n[codes]\nscale = 0.05\nzero_point = -3\n", "front_end.toml:2: codes", "has no type"),
        ("based_on = 'nemo'\n[log]\nof = 'none'\n", "log.of", "smallest differ between cores"),
        ("based_on = 'micro_speech'\n[dct]\ncount = 9\n", "tflm.enabled", "no DCT"),
        ("rate = nan\n", "rate", "a whole number"),
        ("x = [\n", "front_end.toml", "is no TOML"),
    ],
)
def test_mistakes_are_said_with_their_place(text: str, where: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "front_end.toml")
    assert where in str(caught.value) and says in str(caught.value)


@pytest.mark.parametrize("text", ["[normalise]\nover = 'utterance'\n", "[log]\ntop_db = 80\n"])
def test_what_needs_the_whole_utterance_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="needs the whole utterance") as caught:
        parse(f"based_on = 'nemo'\n{text}", "front_end.toml")
    assert "measured" in str(caught.value)


def test_the_three_ways_to_declare_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "front_end.toml"
    file.write_text('based_on = "nemo"\n[mel]\ncount = 40\n')
    by_file, in_python = load(file), load({"based_on": "nemo", "mel": {"count": 40}})
    assert by_file == in_python == load(by_file) != load("nemo")
    with pytest.raises(InputError, match="did you mean nemo"):
        load("nmo")


def test_constants_are_measured_and_normalise() -> None:
    made = sound(2)
    plain = front_end("nemo")
    found = plain.measured([made, made[:9000]])
    again = front_end({"based_on": "nemo", "normalise": found})
    features = np.concatenate([again.features(made), again.features(made[:9000])])
    assert np.abs(features.mean(0)).max() < 1e-3 and np.abs(features.std(0) - 1).max() < 1e-3
    assert again.measured([made, made[:9000]]) == found
    with pytest.raises(InputError, match="no frame"):
        plain.measured([made[:10]])


def test_floats_and_integers_of_a_sound_are_the_same() -> None:
    made = sound(0.3)
    codes = atonc.front_end("kaldi").for_input("int8", 0.1, 3)
    assert np.array_equal(codes(made), codes(made.astype(np.float32) / 32768))
    assert len(codes(made[:300])) == 0
    for wrong in (made.reshape(2, -1), made.astype(np.int32), np.full(500, np.nan)):
        with pytest.raises(InputError, match="samples of"):
            codes(wrong)
    with pytest.raises(InputError, match="among floats"):  # numbers of 16 bits as floats
        codes(made.astype(np.float32))


def test_mel_weights_of_a_bank_cover_its_band() -> None:
    p = load("st_yamnet")
    total = mel_weights(p).sum(0)
    bins = np.arange(p.bins) * p.rate / p.spectrum.n_fft
    inside = (bins > 300) & (bins < 7200)
    assert np.allclose(total[inside], 1) and not total[bins < 125].any() and not total[bins > 7500].any()


# ------------------------------------------------------------------------------------------------------- generate


@pytest.fixture(scope="module")
def digits() -> atonc.doors.python.compilation.Compilation:
    """Its picture of 8 x 8 is taken for eight frames of eight features here."""
    return atonc.compile(DIGITS, verify=False)


EIGHT: Mapping[str, Any] = {"based_on": "nemo", "mel": {"count": 8, "fmin": 60.0}}
TOML = 'based_on = "nemo"\n[mel]\ncount = 8\nfmin = 60.0\n'


def test_generate_writes_a_front_end_for_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "front_end.toml"
    file.write_text(TOML)
    folder = tmp_path / "build"
    command = ["generate", DIGITS, "-n", "digits", "-o", str(folder), "--no-verify", "--front-end", str(file)]
    assert main(command) == 0
    assert "8 features every 10 ms for image" in capsys.readouterr().out
    header = (folder / "digits_front_end.h").read_text()
    assert "#define DIGITS_FRONT_END_FRAMES (8)" in header and "int8_t digits_front_end_code" in header
    source = (folder / "digits_front_end.c").read_bytes()
    assert main([*command[:4], "-o", str(tmp_path / "again"), *command[6:]]) == 0
    assert (tmp_path / "again" / "digits_front_end.c").read_bytes() == source


def test_a_front_end_that_does_not_fit_is_said_before_anything_is_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(*_: Any, **__: Any) -> None:
        raise AssertionError("it was compiled first")

    monkeypatch.setattr("atonc.doors.verbs.generate.analyzed", compiled)
    file = tmp_path / "front_end.toml"
    file.write_text(f"{TOML}[codes]\ntype = 'int8'\nscale = 0.01\nzero_point = -128\n")
    for given, told in (("nemo", "frames of 80 features fit no input"), (str(file), "[codes] says int8 scale 0.01")):
        assert main(["generate", DIGITS, "-o", str(tmp_path / "build"), "--no-verify", "--front-end", given]) == 2
        assert told in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "build").exists()


def test_the_hop_of_a_front_end_is_that_of_the_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = str(Path(__file__).parents[2] / "examples" / "streaming" / "stream.tflite")
    (tmp_path / "front_end.toml").write_text(TOML)
    words = ["generate", stream, "-o", str(tmp_path / "build"), "--no-verify", "--front-end"]
    for more, hop in (((), "of 10 ms"), (("--hop", "20"), "of 20 ms")):
        assert main([*words, str(tmp_path / "front_end.toml"), *more]) == 0
        assert f"real-time factor 0.000{'457' if not more else '228'} {hop}" in capsys.readouterr().out


def test_saved_from_python_it_is_there_too(tmp_path: Path) -> None:
    stream = Path(__file__).parents[2] / "examples" / "streaming" / "stream.tflite"
    (tmp_path / "front_end.toml").write_text(TOML)
    atonc.compile(stream, verify=False).save(tmp_path / "build", front_end=tmp_path / "front_end.toml")
    assert json.loads((tmp_path / "build" / "network_program.json").read_text())["options"]["--hop"] == "10"


def test_what_is_no_front_end_is_refused() -> None:
    with pytest.raises(InputError, match="not of type NoneType"):
        atonc.front_end(None)  # type: ignore[arg-type]


def test_codes_of_another_scale_are_refused(digits: Any) -> None:
    codes = {"type": "int8", "scale": 0.01, "zero_point": -128}
    with pytest.raises(AtoncError, match=r"\[codes\] says int8 scale 0.01"):
        fitting.fitted(digits.view, {**EIGHT, "codes": codes})
    codes["scale"] = 1 / 255
    assert fitting.fitted(digits.view, {**EIGHT, "codes": codes}).pipeline.codes.zero_point == -128


def test_saved_from_python(digits: Any, tmp_path: Path) -> None:
    (tmp_path / "front_end.toml").write_text(TOML)
    files = digits.save(tmp_path / "build", front_end=tmp_path / "front_end.toml")
    assert {"model_front_end.c", "network_front_end.c", "digits_front_end.c"} & {file.name for file in files}


def test_the_page_names_every_preset_and_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "front_ends.md").read_text()
    assert [name for name in (*presets(), *CHECKS) if f"`{name}`" not in page] == []
