"""examples/story builds with CMake; on the virtual board its loop writes what the session in Python writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from examples.story import story
from tests.board.programs import needs_compiler
from tests.board.test_bare_metal import build_example

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "story"
TOKENS = 44  # four sentences
pytestmark = [needs_compiler, pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")]


def test_the_firmware_writes_the_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("-DATONC_CPU=cortex-m33", f"-DATONC_TOKENS={TOKENS}")
    firmware = build_example(EXAMPLE, tmp_path, "../bare_metal/arm-none-eabi.cmake", *options)
    assert story.main([str(firmware.parent / "network"), "--tokens", str(TOKENS)]) == 0
    written = capsys.readouterr().out.strip()
    assert written in (EXAMPLE / "README.md").read_text()
    assert main(["board", "run", str(firmware), "--first-stage", "yes"]) == 0
    shown = [line[2:] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert shown == written.splitlines()
