"""examples/two_networks builds with CMake and runs on the virtual board: answers, turns, and results that stay."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.board.programs import needs_compiler
from tests.board.test_bare_metal import build_example

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "two_networks"
pytestmark = [needs_compiler, pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")]


def test_the_example_on_the_virtual_board(tmp_path: Path) -> None:
    build_example(EXAMPLE, tmp_path, "../bare_metal/arm-none-eabi.cmake", "-DATONC_CPU=cortex-m33")
    command = [sys.executable, str(EXAMPLE / "run_on_virtual_board.py"), str(tmp_path / "build")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    said = "answers [7, 7], runs [5, 10], lost 0, error 0"
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr
    assert said in (EXAMPLE / "README.md").read_text()
