"""The probe firmware as a file: built into a cache folder, or somebody's ELF; and the table of its probes, read from
the image itself, so that number, name and addresses are those of what is loaded."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from atonc.compiler.place import BoardMemory
from atonc.delivery.firmware.building import find_toolchain
from atonc.delivery.probes import PROBES
from atonc.delivery.probes.build import FLASH, build_all
from atonc.delivery.probes.table import FLASH_IMAGE, folder_files
from atonc.delivery.trials import mailbox
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.emu.board import Firmware, read_firmware

ELF = "probes.elf"
_PROBE = struct.Struct("<5I4I3I4B")  # probe_t of probes.h
_MOST_PROBES, _MOST_BYTES, _LONGEST_NAME = 4096, 1 << 22, 64
_MAKE_S = 600
_REBUILD = "leave --firmware out: the firmware is built then; or build the folder of `atonc probe all`"


@dataclass(frozen=True)
class ImageProbe:
    name: str
    stimulus: bytes = field(repr=False)
    expected: bytes = field(repr=False)  # by the first answer that is thought of
    program: bytes = field(repr=False)  # its first words: enough to tell it from others
    input: int  # addresses
    output: int


@dataclass(frozen=True)
class ProbeImage:
    firmware: Firmware
    board: str
    version: str
    probes: tuple[ImageProbe, ...]

    @property
    def mailbox(self) -> int:
        return self.firmware.symbols[mailbox.SYMBOL]

    @property
    def checkpoint(self) -> int:
        return self.firmware.symbols[mailbox.CHECKPOINT] & ~1

    @property
    def flash_image(self) -> Path | None:
        """What flash wants, beside the firmware; None where nothing is there."""
        path = self.firmware.path.parent / f"{FLASH_IMAGE}.raw"
        return path if path.is_file() else None


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "atonc"


def built_image(target: BoardMemory, cache: Path, names: Sequence[str] = (), switches: Sequence[str] = ()) -> Path:
    """The firmware with all probes, or those named; one that is in the cache already is not built again."""
    wanted = [probe for probe in PROBES if not names or probe.name in names]
    files = folder_files(list(build_all(wanted, target)), target)
    told = "\0".join([*switches, *(f"{name} {hashlib.sha256(files[name]).hexdigest()}" for name in sorted(files))])
    home = cache / f"probes-{target.name}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
    if not (home / ELF).is_file():
        stage("building the firmware")
        _make(files, home, switches)
    return home / ELF


def _make(files: dict[str, bytes], home: Path, switches: Sequence[str]) -> None:
    """In a folder of its own that becomes the cache's when it is whole."""
    find_toolchain()
    make = shutil.which("make")
    if make is None:
        raise ToolError("make was not found", remedy="Debian, Ubuntu: apt install make; or give an ELF with --firmware")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as temporary:
        folder = Path(temporary) / "firmware"
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        command = [make, "-C", str(folder), "-j2", *switches]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_MAKE_S, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines()[:12]
            raise ToolError("the firmware could not be built: " + "\n".join(lines), where=str(home))
        try:
            folder.rename(home)
        except OSError:
            if not (home / ELF).is_file():  # else somebody else was faster
                raise


# ------------------------------------------------------------------------------------------------------ what is in it


def read_image(path: Path) -> ProbeImage:
    firmware = read_firmware(path)
    wanted = (mailbox.SYMBOL, mailbox.CHECKPOINT, "probes", "probes_count", "probes_board", "probes_version")
    if lacks := [name for name in wanted if name not in firmware.symbols]:
        raise InputError(
            f"not a probe firmware of atonc: it has no {lacks[0]}",
            where=str(path),
            remedy=_REBUILD,
        )
    reader = _ImageBytes(firmware)
    count = reader.word("probes_count")
    if not 0 < count <= _MOST_PROBES:
        raise InputError(f"{count} probes in it", where=str(path))
    if firmware.sizes["probes"] != count * _PROBE.size:
        raise InputError("its table of probes is that of another version of atonc", where=str(path), remedy=_REBUILD)
    start = firmware.symbols["probes"]
    rows = [_PROBE.unpack(reader.at(start + k * _PROBE.size, _PROBE.size)) for k in range(count)]
    board, version = (reader.text(firmware.symbols[name]) for name in ("probes_board", "probes_version"))
    return ProbeImage(firmware, board, version, tuple(_probe(row, reader) for row in rows))


def _probe(row: tuple[int, ...], reader: _ImageBytes) -> ImageProbe:
    name, program, stimulus, answers, _, stimulus_size, output_size, given, wanted, *_ = row
    data = struct.unpack("<2I", reader.at(answers, 8))[1]
    return ImageProbe(
        reader.text(name),
        reader.at(stimulus, stimulus_size),
        reader.at(data, output_size),
        reader.at(program, 64),
        given,
        wanted,
    )


class _ImageBytes:
    """What lies at an address of the loaded image."""

    def __init__(self, firmware: Firmware) -> None:
        self._firmware = firmware

    def at(self, address: int, size: int) -> bytes:
        for one in self._firmware.segments:
            start = address - one.address
            if start >= 0 and start + size <= len(one.data) and size <= _MOST_BYTES:
                return one.data[start : start + size]
        raise InputError(f"damaged: {size} bytes at {address:#010x} are not in it", where=str(self._firmware.path))

    def word(self, name: str) -> int:
        return int.from_bytes(self.at(self._firmware.symbols[name], 4), "little")

    def text(self, address: int) -> str:
        found = bytearray()
        while len(found) <= _LONGEST_NAME and (byte := self.at(address + len(found), 1)) != b"\0":
            found += byte
        if not found or len(found) > _LONGEST_NAME or not found.isascii():
            raise InputError(f"damaged: no name at {address:#010x}", where=str(self._firmware.path))
        return found.decode("ascii")


def flash_base(target: BoardMemory) -> int:
    return next((pool.base for pool in target.pools if pool.name == FLASH), 0)
