"""The example of a camera: the front end of the training reads the digits, others do not, C has the same codes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import atonc
from examples.camera import look

ROOT = Path(__file__).resolve().parent.parent


def test_frames_are_read_as_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = atonc.compile(ROOT / "examples" / "digits" / "digits.tflite", name="digits", verify=False)
    made.save(tmp_path / "build", front_end=look.HERE / "front_end.toml")
    compiler = shutil.which("cc") is not None
    assert look.main([str(tmp_path / "build"), "--wrong", *["--c"] * compiler]) == 0
    said = capsys.readouterr().out.strip().splitlines()
    page = (look.HERE / "README.md").read_text()
    assert [line for line in said if line not in page] == []
    assert len(said) == len(look.WRONG) + compiler and "99 of 100" in said[0]
