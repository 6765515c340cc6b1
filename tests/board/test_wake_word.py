"""examples/wake_word builds with CMake; on the virtual board its loop hears what the session in Python hears."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import atonc
from examples.made_sounds import read_wav, write_wav
from examples.wake_word import listen
from tests.board.programs import needs_compiler
from tests.board.test_bare_metal import build_example
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "wake_word"
pytestmark = [needs_compiler, pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")]


def test_the_firmware_hears_the_word(tmp_path: Path) -> None:
    sound, rate = read_wav(EXAMPLE / "clip.wav")
    sound = sound[rate * 5 // 4 : rate * 2]  # one word
    write_wav(tmp_path / "clip.wav", sound, rate)
    options = ("-DATONC_CPU=cortex-m33", f"-DATONC_CLIP={tmp_path / 'clip.wav'}")
    firmware = build_example(EXAMPLE, tmp_path, "../bare_metal/arm-none-eabi.cmake", *options)
    network = firmware.parent / "network"
    codes = listen.front_end_of(network)(sound)
    heard = listen.heard(listen.scores(atonc.load(network, "wake_word").stream(), codes))
    assert len(heard) == 1
    command = [sys.executable, str(EXAMPLE / "run_on_virtual_board.py"), str(firmware)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, f"{len(codes)} frames, heard at {heard[0]:.2f} s, error 0\n"), done
