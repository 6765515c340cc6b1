"""examples/bare_metal builds with CMake for both cores and recognises its digit on the virtual board."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from atonc.machine.emu.board import VirtualBoard, read_firmware
from tests.board.programs import needs_compiler

ROOT = Path(__file__).parents[2]
pytestmark = [needs_compiler, pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")]


@pytest.mark.parametrize("cpu", ["cortex-m33", "cortex-m55"])
def test_example(tmp_path: Path, cpu: str) -> None:
    command = tmp_path / "atonc"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m atonc "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    options = [f"-DATONC_CPU={cpu}", f"-DATONC={command}", f"-DATONC_PYTHON={sys.executable}"]
    configure = ["cmake", "-S", str(ROOT / "examples" / "bare_metal"), "-B", str(tmp_path / "build"), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for step in (
        [*configure, "-DCMAKE_TOOLCHAIN_FILE=arm-none-eabi.cmake"],
        ["cmake", "--build", str(tmp_path / "build"), "--parallel", "2"],
    ):
        done = subprocess.run(step, capture_output=True, text=True, timeout=600, env=environment, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    firmware = read_firmware(tmp_path / "build" / "firmware.elf")
    if cpu == "cortex-m33":
        board = VirtualBoard(firmware)
        board.run()
        answer = board.memory.read(firmware.symbols["answer"], 4).view("<i4")[0]
        assert answer == 7 and not board.memory.read(firmware.symbols["error"], 4).any()
