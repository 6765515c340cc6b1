"""Firmware images are hostile files too."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.emu.board import VirtualBoard, read_firmware
from tests.board.programs import build, needs_compiler


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x01\x01\x01" + bytes(60), b"MZ" * 100])
def test_not_an_image(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x.elf"
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.elf"):
        read_firmware(file)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such firmware"):
        read_firmware(tmp_path / "none.elf")


@needs_compiler
def test_damaged_images(tmp_path: Path) -> None:
    """Whatever is wrong in a file: one error, or an image that loads; never anything else."""
    good = build(tmp_path, "int main(void) { return 0; }").read_bytes()
    file, dice = tmp_path / "damaged.elf", random.Random(3)
    for _ in range(60):
        data = bytearray(good[: dice.randrange(len(good))] if dice.random() < 0.3 else good)
        for _ in range(dice.choice([1, 3, 10])):
            if data:
                data[dice.choice([dice.randrange(len(data)), dice.randrange(min(52, len(data)))])] = dice.randrange(256)
        file.write_bytes(bytes(data))
        with contextlib.suppress(AtoncError):
            VirtualBoard(read_firmware(file)).run(1000)
