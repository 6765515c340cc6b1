"""The command of `next` can be pasted: files with their folders, quoted, and the options that the model needs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a folder below the one where the commands run, with a name that a shell would take apart."""
    folder = tmp_path / "my models"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(DIGITS, folder / "it's $HOME.tflite")).relative_to(tmp_path)


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (["generate", "--resident", "-o", "a folder"], "view"),
        (["analyze", "--resident"], "generate"),
        (["validate", "-b", "1"], "generate"),
        (["analyze", "--on", "cpu", "CONV_2D_4"], "generate"),  # without it
    ],
)
def test_next_can_be_pasted(words: list[str], verb: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([words[0], str(model), *words[1:], *(["--no-verify"] if words[0] == "analyze" else [])])
    said = re.search(r"^next +(atonc .*?): ", capsys.readouterr().out, re.MULTILINE)
    assert said is not None
    program, *given = shlex.split(said[1])
    assert (program, given[0]) == ("atonc", verb)
    assert Path(given[1]).exists() and given[1] in (str(model), "a folder")
    assert ("--resident" in given) == ("--resident" in words and verb != "view")
    more = {"view": ["--save", "page.html"], "explain": ["--no-prices"], "generate": ["-o", "out", "--no-verify"]}
    assert main([*given, *more[verb]]) == 0
