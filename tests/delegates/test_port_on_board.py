"""The port for the STM32N6 on the virtual board, below a stand-in for ExecuTorch's runtime: it gives the bytes of the
emulator, or says why not. The headers are ExecuTorch's own."""

from __future__ import annotations

import struct
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch", reason="atonc[executorch] is not installed: delegates are not tried")
pytest.importorskip("torchao", reason="atonc[executorch] is not installed: PT2E needs torchao")

from atonc.delivery.executorch.backend import delegate_data
from atonc.delivery.executorch.runtime import header_options
from atonc.delivery.firmware import building
from atonc.delivery.firmware.building import CompileUnit, runtime_folder
from atonc.delivery.trials.loading import FLASH, PLACEMENT, loader_runtime
from atonc.machine.emu.board.board import Firmware, VirtualBoard, read_firmware
from tests.delegates.modules import quantised
from tests.delegates.test_executorch import BOARD, has_headers
from tests.emit.generated import needs_compiler

pytestmark = [needs_compiler, pytest.mark.skipif(not has_headers(BOARD[0]), reason=f"no headers of C++ for {BOARD[0]}")]
INCLUDES = tuple(runtime_folder(part) for part in ("executorch", "interpreters", "include", "harness"))
MOST, ROOM = 4, 8192  # of the stand-in: operands, bytes of each
SIZES = (4 * 49 * 10, 4 * 12)


@cache
def _firmware() -> Firmware:
    runtime = loader_runtime()
    harness = tuple(runtime_folder("harness") / name for name in ("startup.c", "board_io.c"))
    units = [
        CompileUnit(harness, INCLUDES, {"BOARD_CPU_KHZ": "800000u"}),
        CompileUnit(runtime.sources, runtime.includes, runtime.defines, options=runtime.options),
    ]
    toolchain = building.find_toolchain()
    sources = (runtime_folder("executorch") / "port_npu.cc", Path(__file__).parent / "board" / "main.cc")
    with tempfile.TemporaryDirectory() as folder:
        objects = building.compile_units(toolchain, units, Path(folder))
        objects += [_compiled(source, Path(folder)) for source in sources]
        return read_firmware(building.link(toolchain, objects, Path(folder, "port.elf"), PLACEMENT))


def _compiled(source: Path, folder: Path) -> Path:
    machine = [option for option in building.machine_options("cortex-m33") if not option.startswith("-std=")]
    defines = [f"-D{name}={value}" if value else f"-D{name}" for name, value in loader_runtime().defines.items()]
    options = [*machine, "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", *building.STRICT]
    target = folder / f"{source.stem}.o"
    places = [f"-I{place}" for place in INCLUDES]
    command = [*options, "-O2", *defines, *header_options(), *places, "-c", str(source), "-o", str(target)]
    building.find_toolchain().run(command, f"compile {source.name}", "")
    return target


@cache
def _data() -> bytes:
    return delegate_data(quantised("ds_cnn").model, {"verify": False})


class _Board:
    def __init__(self, data: bytes, sizes: tuple[int, ...] = SIZES) -> None:
        self.board, self.read = VirtualBoard(_firmware(), True), 0
        self.symbols = _firmware().symbols
        self.board.run()
        self.board.poke(FLASH, np.frombuffer(data, np.uint8))
        words = [FLASH, len(data), len(sizes), *sizes, *[0] * (MOST - len(sizes))]
        self.board.poke(self.symbols["given"], np.frombuffer(struct.pack(f"<{len(words)}I", *words), np.uint8))

    def go(self) -> list[str]:
        self.board.run()
        lines, self.read = self.board.serial.lines[self.read :], len(self.board.serial.lines)
        return list(lines)


def test_it_gives_the_bytes_of_the_emulator() -> None:
    given, board = quantised("ds_cnn"), _Board(_data())
    assert board.go() == ["INSTALLED"]
    for _ in range(2):  # again, with what the first inference left
        board.board.poke(board.symbols["tensors"], np.frombuffer(given.example[0].numpy().tobytes(), np.uint8))
        assert board.go() == ["RUN"]
        found = board.board.memory.read(board.symbols["tensors"] + ROOM, SIZES[1]).tobytes()
        assert [found] == given.on_emulator()


@pytest.mark.parametrize(
    ("at", "said"), [*((at, "damaged") for at in (0, 4, 12, 16, 40, 60, -1)), (64, "image refused"), (900, "image")]
)
def test_it_refuses_damage(at: int, said: str) -> None:
    data = bytearray(_data())
    data[at] ^= 4
    *why, end = _Board(bytes(data)).go()
    assert end == "REFUSED" and said in why[0]


@pytest.mark.parametrize("sizes", [(SIZES[0] + 4, SIZES[1]), (SIZES[0], SIZES[1] - 4), SIZES[:1], (*SIZES, 4)])
def test_it_refuses_operands_of_other_sizes(sizes: tuple[int, ...]) -> None:
    board = _Board(_data(), sizes)
    assert board.go() == ["INSTALLED"]
    *why, end = board.go()
    assert end == "FAILED" and "other sizes" in why[0]
