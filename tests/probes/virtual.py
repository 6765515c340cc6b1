"""The firmware of the probes on the virtual board: built once, run with chips that answer as they should or do not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.compiler.place import board
from atonc.delivery.probes.build import DEFAULT_BOARD, FLASH, BuiltProbe
from atonc.delivery.probes.log import SELF_TEST
from atonc.delivery.probes.table import FLASH_IMAGE, folder_files
from atonc.delivery.trials import mailbox
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.board.chip import ChipSetup, mapped
from atonc.machine.emu.board.npu import Execute
from atonc.machine.hw.machine import Machine, stm32n6

_QUICK = "-DRUNS=1u -DWATCHDOG_POLLS=8000u"
# RCC as applications of ST leave it: CPU 800, bus 400, NPU 1000, NPU RAM 900 MHz
_CLOCKS = {
    0x00: 0x708, 0x20: 0x0303_0000, 0x24: 1 << 20, 0x80: 4 << 20 | 50 << 8, 0x88: 0x4900_0000,
    0x90: 4 << 20 | 125 << 8, 0x98: 0x4A00_0000, 0xA0: 8 << 20 | 225 << 8, 0xA8: 0x4A00_0000,
    0xC4: 0, 0xC8: 1 << 16, 0xD8: 1 << 28, 0xEC: 2 << 28,
}  # fmt: skip


@dataclass(frozen=True)
class Chip:
    """What stands in the place of the chip: other behaviour, other cycles, memories that nobody has made ready."""

    execute: Execute | None = None
    machine: Machine | None = None
    mapped: bool = True
    programmed: bool = True
    data_cache: bool = False
    emulated: bool = True  # probes whose setting the emulator does not know are skipped

    def constant(self, name: str) -> float:
        """A constant of its cycles or memories."""
        return (self.machine or stm32n6()).constant(name)


def firmware(folder: Path, built: Sequence[BuiltProbe]) -> Path:
    target = board(DEFAULT_BOARD)
    for name, data in folder_files(built, target).items():
        (folder / name).write_bytes(data)
    return make_for_virtual_board(folder)


def make_for_virtual_board(folder: Path) -> Path:
    return make(folder, ["CPU=cortex-m33", "UART=1", f"EXTRA={_QUICK}"])


def make(folder: Path, arguments: Iterable[str] = ()) -> Path:
    command = ["make", "-C", str(folder), "-j2", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "probes.elf"


def log_of(elf: Path, chip: Chip | None = None) -> list[str]:
    """What the firmware prints on its UART."""
    chip = chip or Chip()
    virtual = board_with(elf, chip)
    offset, asked = mailbox.request(0, (mailbox.EMULATED if chip.emulated else 0) | mailbox.ON_CHIP)
    virtual.poke(virtual.firmware.symbols[mailbox.SYMBOL] + offset, np.frombuffer(asked, np.uint8))
    virtual.run()
    return [line.strip() for line in virtual.serial.lines]


def board_with(elf: Path, chip: Chip) -> VirtualBoard:
    setup = mapped("XSPI1", "XSPI2") if chip.mapped else ChipSetup()
    virtual = VirtualBoard(read_firmware(elf), chip.data_cache, _CLOCKS, chip.machine, setup)
    if chip.execute is not None:
        virtual.npu.execute = chip.execute
    image = elf.parent / f"{FLASH_IMAGE}.raw"
    if chip.programmed and image.exists():
        base = next(pool.base for pool in board(DEFAULT_BOARD).pools if pool.name == FLASH)
        virtual.poke(base, np.frombuffer(image.read_bytes(), np.uint8))
    return virtual


def crc16(text: str) -> int:
    """CRC-16/CCITT-FALSE."""
    crc = 0xFFFF
    for byte in text.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return crc


def answers_in(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Name -> verdict and values, of lines whose checksum is right; all of them must be. The self-test has found
    nothing."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        body, star, checksum = line.rpartition(" *")
        assert star and checksum == f"{crc16(body):04X}", line
        if body.startswith(SELF_TEST):
            assert body == f"{SELF_TEST} 1 findings=0", line
            continue
        head, version, name, *words = body.split(" ")
        assert (head, version) == ("ATONC-PROBE", "1")
        values = dict(word.split("=", 1) for word in words if "=" in word)
        found[name] = {**values, "verdict": "" if "=" in (words[:1] or ["="])[0] else words[0]}
    return found
