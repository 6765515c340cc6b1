"""The firmware of the matrix, and one run of it on a strict chip with something planted."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from atonc import compile
from atonc.delivery.firmware import building
from atonc.delivery.firmware.building import CompileUnit, Placement, runtime_folder
from atonc.delivery.firmware.image import our_runtime
from atonc.machine.emu.board.board import Firmware, VirtualBoard, read_firmware
from atonc.machine.emu.board.chip import ChipSetup
from atonc.machine.hw.machine import HYPERRAM, Machine, stm32n6

SELFTEST = runtime_folder("selftest")
HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "examples" / "digits" / "digits.tflite"
WEIGHTS = 0x7038_0000
PLACEMENT = Placement(code=0x3410_0000, code_bytes=0x6_0000, data_bytes=0xE_FC00 - 0x400)
# CPU 800 MHz, NPU 1000 MHz, NPU RAM 900 MHz: PLL1 to 3 from the crystal, dividers 1, 2, 6 and 11 behind them
DK_CLOCKS = {
    0x00: 0x308, 0x20: 0x0303_0000,
    0x80: 2 << 28 | 3 << 20 | 50 << 8, 0x88: 0x4900_0000, 0x90: 2 << 28 | 6 << 20 | 125 << 8, 0x98: 0x4900_0000,
    0xA0: 2 << 28 | 4 << 20 | 75 << 8, 0xA8: 0x4900_0000,
    0xC4: 0, 0xC8: 1 << 16, 0xD8: 1 << 28, 0xEC: 2 << 28,
}  # fmt: skip
_CODE = re.compile(r"^    X\((\d+), (\w+),", re.MULTILINE)


@cache
def codes() -> dict[int, str]:
    """Number -> name, as the header has them."""
    return {int(number): name for number, name in _CODE.findall((SELFTEST / "atonc_selftest.h").read_text())}


@dataclass(frozen=True)
class Finding:
    name: str
    detail: int
    place: int
    found: int
    wanted: int


@dataclass(frozen=True)
class Planted:
    """What is wrong: with the chip, in the firmware (bits of `planted`), or anywhere else on the board."""

    chip: ChipSetup = field(default_factory=ChipSetup)
    firmware: int = 0
    board: Callable[[VirtualBoard], None] | None = None


@dataclass(frozen=True)
class Image:
    firmware: Firmware
    flash: bytes


def build(folder: Path, selftest: str = "") -> Image:
    """One image for all rows. `selftest`: another text of the tests themselves."""
    compile(MODEL, name="digits").save(folder / "digits", selftest=True)
    if selftest:
        (folder / "digits" / "atonc_selftest.c").write_text(selftest)
    runtime = our_runtime()
    ours = [path for path in runtime.sources if not re.search("_lib_|_reloc_|_unit_", path.name)]
    headers = (*runtime.includes, runtime_folder("harness"), folder / "digits")
    defines = runtime.defines | {"ATONC_EC_ONLY": "", "ATON_BASE": "0x580E0000UL"}
    strict = [HERE / "firmware.c", folder / "digits" / "digits_selftest.c", folder / "digits" / "atonc_selftest.c"]
    harness = [runtime_folder("harness") / name for name in ("startup.c", "board_io.c")]
    others = [*ours, folder / "digits" / "digits.c", *harness]
    units = (
        CompileUnit(tuple(strict), headers, defines, strict=True, options=("-Os",)),
        CompileUnit(tuple(others), headers, defines),
    )
    toolchain = building.find_toolchain()
    objects = building.compile_units(toolchain, units, folder)
    image = building.link(toolchain, objects, folder / "selftest.elf", PLACEMENT)
    return Image(read_firmware(image), (folder / "digits" / "digits_atonbuf.xSPI2.raw").read_bytes())


@cache
def _machine() -> Machine:
    """With a small hyperRAM: the data cache of the virtual board looks at all of it after every epoch."""
    machine = stm32n6()
    small = tuple(replace(one, size_bytes=1 << 20) if one.kind == HYPERRAM else one for one in machine.memories)
    return replace(machine, memories=small)


def run(image: Image, planted: Planted) -> tuple[list[Finding], int]:
    """The findings, and how many registers and bytes the self-test left changed."""
    board = VirtualBoard(image.firmware, True, dict(DK_CLOCKS), _machine(), planted.chip)
    board.memory.write(WEIGHTS, np.frombuffer(image.flash, np.uint8))
    symbols = image.firmware.symbols
    board.poke(symbols["planted"], np.frombuffer(planted.firmware.to_bytes(4, "little"), np.uint8))
    if planted.board is not None:
        planted.board(board)
    board.run()
    count, changed = (int(board.memory.read(symbols[name], 4).view("<u4")[0]) for name in ("found", "changed"))
    rows = board.memory.read(symbols["findings"], 16 * min(count, 16)).view("<u4").reshape(-1, 4)
    return [_finding(*map(int, row)) for row in rows], changed


def _finding(first: int, place: int, found: int, wanted: int) -> Finding:
    return Finding(codes()[first & 0xFFFF], first >> 16, place, found, wanted)
