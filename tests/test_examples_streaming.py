"""The examples of streaming: their files are what their scripts say, they do what they are for, and pages say so."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import atonc
from examples import make_denoiser, make_story, make_wake_word
from examples.denoiser import denoise
from examples.made_sounds import read_wav
from examples.wake_word import listen

ROOT = Path(__file__).resolve().parent.parent
WORDS, NOISE = ROOT / "examples" / "wake_word", ROOT / "examples" / "denoiser"


@pytest.fixture(scope="module")
def wake_word(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wake_word") / "build"
    made = atonc.compile(WORDS / "wake_word.tflite", name="wake_word", verify=False)
    made.save(folder, front_end=WORDS / "front_end.toml")
    return folder


@pytest.fixture(scope="module")
def denoiser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("denoiser") / "build"
    types = {"input_type": "int8", "output_type": "int8"}
    made = atonc.compile(
        NOISE / "denoiser_int8.onnx", name="denoiser", verify=False, states=("state_out=state_in",), **types
    )
    made.save(folder, front_end=NOISE / "front_end.toml")
    return folder


def test_the_files_are_what_the_scripts_say() -> None:
    make_wake_word.check()
    pytest.importorskip("onnx")
    make_denoiser.check()
    make_story.check()


def test_the_word_is_heard_and_c_has_the_same_codes(wake_word: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiler = shutil.which("cc") is not None
    assert listen.main([str(wake_word), *["--c"] * compiler]) == 0
    said = capsys.readouterr().out.strip().splitlines()
    page = (WORDS / "README.md").read_text()
    assert [line for line in said if line not in page] == []
    assert "4 of 4 words, 0 false alarms" in said[2]
    if compiler:
        assert said[3] == "codes of C and of Python: 11168 of 11168 equal"


def test_another_front_end_or_a_missing_reset_is_noticed(wake_word: Path) -> None:
    sound, _ = read_wav(WORDS / "clip.wav")
    session, sound = atonc.load(wake_word, "wake_word").stream(), sound[: 16000 * 23 // 10]  # one word
    right = listen.front_end_of(wake_word)(sound)
    wrong = listen.front_end_of(wake_word, *listen.WRONG["samples not divided by 32768"])(sound)
    assert len(listen.heard(listen.scores(session, right))) == 1
    assert listen.heard(listen.scores(session, wrong)) == []
    frames = right.reshape(-1, 1, 1, 1, right.shape[1])[:20]
    session.reset()
    first, second = (session.run(frames)["score"] for _ in range(2))  # no reset between them
    session.reset()
    assert np.array_equal(session.run(frames)["score"], first) and not np.array_equal(first, second)


def test_noise_is_taken_away_as_in_float(denoiser: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert denoise.main([str(denoiser)]) == 0
    said = capsys.readouterr().out.strip().splitlines()
    page = (NOISE / "README.md").read_text()
    before, in_float, on_chip = (float(line.split()[-2]) for line in said)
    assert in_float > before + 8 and abs(on_chip - in_float) < 0.2
    for line in said:  # kernels of another machine may round another way
        title, value = line.rsplit(maxsplit=2)[0], float(line.split()[-2])
        (kept,) = (one for one in page.splitlines() if one.startswith(title))
        assert abs(float(kept.split()[-2]) - value) < 0.05, line
