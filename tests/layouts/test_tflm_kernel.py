"""The kernel for TFLite Micro: it compiles without warnings, and on the virtual board it gives the bytes of the
emulator or says why not. TFLite Micro itself is a stand-in here: names and signatures of what the kernel calls."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.compiler.request.options import Options
from atonc.delivery.firmware import building
from atonc.delivery.firmware.building import CompileUnit, runtime_folder
from atonc.delivery.generate import generating
from atonc.delivery.layouts.every import layout_files, with_layout
from atonc.delivery.layouts.tflite import LAYOUT
from atonc.delivery.layouts.tflite_model import npu_operator, read_model
from atonc.delivery.reloc.image import read_image
from atonc.delivery.trials.loading import FLASH, PLACEMENT, loader_runtime
from atonc.machine.emu.board.board import Firmware, VirtualBoard, read_firmware
from tests.emit.generated import DIGITS, GCC, needs_compiler

pytest.importorskip("ai_edge_litert")
TFLM, KERNEL = Path(__file__).parent / "tflm", runtime_folder("tflm") / "atonc_npu_kernel.cc"
CXX = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
INCLUDES = (TFLM, *(runtime_folder(part) for part in ("tflm", "interpreters", "include", "harness")))
MOST, ROOM = 4, 8192  # of the stand-in: tensors of one side, bytes of each


@pytest.mark.parametrize("tool", ["g++", GCC.replace("gcc", "g++")])
def test_it_compiles_without_warnings(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}")
    machine = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"] if tool.startswith("arm") else []
    options = [*CXX, "-Wall", "-Wextra", "-Werror", "-Wshadow", "-fsyntax-only"]
    defines = ["-DLL_ATON_RT_RELOC", "-DLL_ATON_EB_DBG_INFO"]
    command = [tool, *machine, *options, *defines, *(f"-I{folder}" for folder in INCLUDES), str(KERNEL)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def _firmware() -> Firmware:
    runtime = loader_runtime()
    harness = tuple(runtime_folder("harness") / name for name in ("startup.c", "board_io.c"))
    units = [
        CompileUnit(harness, INCLUDES, {"BOARD_CPU_KHZ": "800000u"}),
        CompileUnit(runtime.sources, runtime.includes, runtime.defines, options=runtime.options),
    ]
    toolchain = building.find_toolchain()
    with tempfile.TemporaryDirectory() as folder:
        objects = building.compile_units(toolchain, units, Path(folder))
        objects += [_compiled(source, Path(folder)) for source in (KERNEL, TFLM / "main.cc")]
        return read_firmware(building.link(toolchain, objects, Path(folder, "tflm.elf"), PLACEMENT))


def _compiled(source: Path, folder: Path) -> Path:
    machine = [option for option in building.machine_options("cortex-m33") if not option.startswith("-std=")]
    defines = [f"-D{name}={value}" if value else f"-D{name}" for name, value in loader_runtime().defines.items()]
    options = [*machine, *CXX, *building.STRICT, "-O2", *defines, *(f"-I{place}" for place in INCLUDES)]
    target = folder / f"{source.stem}.o"
    building.find_toolchain().run([*options, "-c", str(source), "-o", str(target)], f"compile {source.name}", "")
    return target


@cache
def _operator(end: str = "probabilities") -> bytes:
    view = generating.analyze(DIGITS, with_layout(Options(verify=False, cut_outputs=(end,)), LAYOUT))
    row = read_model(layout_files(LAYOUT, view)["network.tflite"]).operators[0]
    return row.table.array(5, "u1").tobytes()


class _Board:
    def __init__(
        self,
        data: bytes,
        place: int = FLASH,
        sizes: tuple[int, int] = (64, 10),
        tensors: tuple[int, int] = (0, 0),
    ) -> None:
        self.board, self.read = VirtualBoard(_firmware(), True), 0
        self.symbols = _firmware().symbols
        self.board.run()
        self.board.poke(place, np.frombuffer(data, np.uint8))
        words = [place, len(data), 1, 1, sizes[0], *[0] * (MOST - 1), sizes[1], *[0] * (MOST - 1), *tensors]
        self.board.poke(self.symbols["given"], np.frombuffer(struct.pack(f"<{len(words)}I", *words), np.uint8))

    def go(self) -> list[str]:
        self.board.run()
        lines, self.read = self.board.serial.lines[self.read :], len(self.board.serial.lines)
        return list(lines)

    def infer(self, image: np.ndarray) -> bytes:
        self.board.poke(self.symbols["tensors"], np.frombuffer(image.tobytes(), np.uint8))
        assert self.go() == ["RUN"]
        return bytes(self.board.memory.read(self.symbols["tensors"] + MOST * ROOM, 10).tobytes())


@needs_compiler
@pytest.mark.parametrize("end", ["probabilities", "dense"], ids=["cpu", "npu"])  # who writes the output
def test_it_gives_the_bytes_of_the_emulator(end: str) -> None:
    board, whole = _Board(_operator(end)), atonc.compile(DIGITS, verify=False, cut_outputs=(end,))
    assert board.go() == ["PREPARED"]
    for seed in (1, 2):
        image = np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
        assert board.infer(image) == atonc.run(whole, {"image": image})[end].tobytes()


@needs_compiler
@pytest.mark.parametrize(
    ("at", "said"),
    [*((at, "damaged") for at in (0, 4, 16)), *((at, "image refused") for at in (64, 900, 9000))],
)
def test_it_refuses_damage(at: int, said: str) -> None:
    data = bytearray(_operator())
    data[at] ^= 4
    *why, end = _Board(bytes(data)).go()
    assert end == "REFUSED" and said in why[0]


@needs_compiler
def test_it_refuses_a_model_between_two_lines() -> None:
    *why, end = _Board(_operator(), FLASH + 32).go()
    assert end == "REFUSED" and "multiple of" in why[0]


@needs_compiler
def test_it_refuses_tensors_of_other_sizes() -> None:
    for sizes in ((63, 10), (64, 11)):
        *why, end = _Board(_operator(), sizes=sizes).go()
        assert end == "REFUSED" and "another size" in why[0]


@needs_compiler
@pytest.mark.parametrize("side", [0, 1], ids=["input", "output"])
def test_it_refuses_an_arena_in_memory_of_the_network(side: int) -> None:
    data = _operator()
    pools = [pool for pool in read_image(npu_operator(data, "it").image, "it").pools if pool.destination]
    within = pools[0].destination + pools[0].size_bytes - 4
    board = _Board(data, tensors=(within, 0) if side == 0 else (0, within))
    assert board.go() == ["PREPARED"]
    *why, end = board.go()
    assert end == "FAILED" and "over memory of the network" in why[0]
