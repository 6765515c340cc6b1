"""Relocatable images on the virtual board: a firmware of ours with the loader in it, which installs and runs them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from atonc.delivery.firmware import building
from atonc.delivery.firmware import image as firmware
from atonc.delivery.firmware.building import CompileUnit, Placement
from atonc.delivery.firmware.image import Runtime
from atonc.delivery.reloc.format import CPUS
from atonc.delivery.reloc.image import Image
from atonc.delivery.trials.boarding import INSTALL, FirmwareError, Inference, Rig
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.system import Clock, Nvic, SystemControl
from atonc.machine.emu.bus import Bytes
from atonc.machine.emu.files.types import EpochFlags

XIP, COPY, CLEAR = 1, 2, 4
# the loader's own data and stack; images and their RAM go elsewhere
PLACEMENT = Placement(data=0x3400_0400, data_bytes=0x3_FC00)
FLASH, PARAMS, EXEC_RAM, EXT_RAM = 0x7100_0000, 0x7180_0000, 0x3406_0000, 0x9010_0000
EXEC_RAM_BYTES, EXT_RAM_BYTES = 640 << 10, 27 << 20
_PROFILE = 5
_CPUID = 0xED00
_LINE = 64


@dataclass(frozen=True)
class EpochTime:
    """One epoch block: cycles of the CPU before the NPU starts, while it works, and after."""

    first: int
    last: int
    flags: EpochFlags
    pre: int
    npu: int
    post: int

    @property
    def kind(self) -> str:
        if EpochFlags.BLOB in self.flags:
            return "EC"
        return "SW" if EpochFlags.PURE_SW in self.flags else "HYBRID" if EpochFlags.HYBRID in self.flags else "HW"


@dataclass(frozen=True)
class Spot:
    """Where an image and its memories are; the same as in ST's validation firmware unless said otherwise."""

    mode: int = XIP
    file: int = FLASH
    params: int = PARAMS  # of a split image
    exec_ram: int = EXEC_RAM
    exec_ram_bytes: int = EXEC_RAM_BYTES
    ext_ram: int = EXT_RAM
    ext_ram_bytes: int = EXT_RAM_BYTES


def board_cpu() -> str:
    """The processor that the virtual board says it is: images for another one are refused."""
    number = SystemControl(Nvic(), Clock()).read(_CPUID, 4) >> 4 & 0xFFF
    return CPUS[number].lower()


class InstallError(FirmwareError):
    """The loader refused; `reason` is its word for why."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.reason = line.split()[-1]


def loader_runtime(mode: str = firmware.ASYNC, secure: bool = True, debug_info: bool = True) -> Runtime:
    """Our runtime with the loader, for images that were built with the same three choices."""
    ours = firmware.our_runtime(mode)
    defines = ours.defines | {"LL_ATON_RT_RELOC": ""} | ({"LL_ATON_EB_DBG_INFO": ""} if debug_info else {})
    return replace(ours, defines=defines, options=("-mcmse",) if secure else ())


def build_loader(runtime: Runtime, folder: Path) -> Path:
    """The firmware, `folder/loader.elf`."""
    common = firmware.compile_runtime(runtime, folder / "runtime")
    harness = building.runtime_folder("harness")
    toolchain = building.find_toolchain()
    includes = (harness, *runtime.includes)
    unit = CompileUnit(
        (harness / "loader_main.c",), includes, runtime.defines, strict=runtime.ours, options=runtime.options
    )
    objects = building.compile_units(toolchain, [unit], folder)
    return building.link(toolchain, [*common, *objects], folder / "loader.elf", PLACEMENT)


class LoaderRig(Rig):
    """A board whose firmware waits for images."""

    def __init__(self, elf: Path, data_cache: bool = True) -> None:
        super().__init__(elf, [], data_cache=data_cache)

    def install(
        self, image: Image, params: bytes = b"", spot: Spot | None = None, model: bytes = b"", slot: int = 0
    ) -> str:
        """Puts the files into memory and lets the firmware install them; the line that it prints about the image."""
        spot = spot or Spot()
        self.put(spot.file, image.data)
        if params:
            self.put(spot.params, params)
        words = (spot.exec_ram, spot.exec_ram_bytes, spot.ext_ram, spot.ext_ram_bytes, spot.params if params else 0)
        where = struct.pack(
            "<8I16sI", spot.file, *words, spot.mode, int(bool(model)), model, int(image.note is not None)
        )
        self.board.poke(self.board.firmware.symbols["board_image"], np.frombuffer(where, np.uint8))
        self.inputs.pop(slot, None)
        self.outputs.pop(slot, None)
        return self._installed(self.command(INSTALL, slot))

    def profile(self, inputs: Sequence[Bytes], slot: int = 0) -> tuple[Inference, list[EpochTime]]:
        """One inference, and what each of its blocks took."""
        found = self.run(inputs, slot, _PROFILE)
        times = [list(map(int, line.split()[2:])) for line in self.said if line.startswith("ATONC EPOCH")]
        return found, [EpochTime(t[0], t[1], EpochFlags(t[2]), *t[3:]) for t in times]

    def _installed(self, lines: Sequence[str]) -> str:
        result = next(line for line in lines if line.startswith("ATONC INSTALL"))
        if result.split()[2] != "0":
            raise InstallError(result)
        self._learn(lines)
        return next(line for line in lines if line.startswith("ATONC IMAGE"))
