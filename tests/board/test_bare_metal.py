"""examples/bare_metal builds with CMake for both cores and recognises its digit on the virtual board; other models of
the user find every memory promised."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from atonc.machine.emu.board import VirtualBoard, read_firmware
from tests.board.programs import needs_compiler

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "bare_metal"
pytestmark = [needs_compiler, pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")]


def _firmware(tmp_path: Path, *options: str) -> Path:
    return build_example(EXAMPLE, tmp_path, "arm-none-eabi.cmake", *options)


def build_example(example: Path, tmp_path: Path, toolchain: str, *options: str) -> Path:
    """The firmware of an example, made by the command of this Python."""
    command = tmp_path / "atonc"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m atonc "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    build = str(tmp_path / "build")
    configure = ["cmake", "-S", str(example), "-B", build, f"-DATONC={command}", f"-DATONC_PYTHON={sys.executable}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for step in (
        [*configure, *options, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"],
        ["cmake", "--build", build, "--parallel", "2"],
    ):
        done = subprocess.run(step, capture_output=True, text=True, timeout=600, env=environment, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path / "build" / "firmware.elf"


def _answer(file: Path) -> int:
    firmware = read_firmware(file)
    board = VirtualBoard(firmware)
    board.run()
    assert not board.memory.read(firmware.symbols["error"], 4).any()
    return int(board.memory.read(firmware.symbols["answer"], 4).view("<i4")[0])


def test_example_for_the_chip(tmp_path: Path) -> None:
    read_firmware(_firmware(tmp_path, "-DATONC_CPU=cortex-m55"))


def test_example_on_the_virtual_board(tmp_path: Path) -> None:
    assert _answer(_firmware(tmp_path, "-DATONC_CPU=cortex-m33")) == 7


def test_a_model_and_a_picture_of_the_user(tmp_path: Path) -> None:
    """A model with float scores at its end, and a picture of the test set that is no 7."""
    test = np.load(ROOT / "examples" / "digits" / "test.npz")
    place = int(np.flatnonzero(test["labels"] != 7)[0])
    (tmp_path / "mine.inc").write_text(",".join(map(str, test["image"][place].reshape(-1))))
    model = ROOT / "examples" / "digits" / "digits.onnx"
    own = (f"-DATONC_MODEL={model}", f"-DATONC_IMAGE={tmp_path / 'mine.inc'}")
    assert _answer(_firmware(tmp_path, "-DATONC_CPU=cortex-m33", *own)) == test["labels"][place]


def test_every_memory_of_the_pool_file_is_promised() -> None:
    """A larger model takes more banks than the digits do; npu_power.c switches all of them on."""
    pools = json.loads((EXAMPLE / "ram_only.mpool").read_text())["memory"]["mempools"]
    promised = (EXAMPLE / "CMakeLists.txt").read_text()
    assert pools and all(f"ATONC_HAVE_{pool['name'].upper()}=1" in promised for pool in pools)
