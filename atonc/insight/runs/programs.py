"""Epoch-controller programs in files: reading every form, disassembling, decoding, assembling."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.decode import Replay, decode_epochs
from atonc.machine.hw.ec import instructions
from atonc.machine.hw.ec.blob import Container, read_blobs
from atonc.machine.hw.ec.header import read_header_file
from atonc.machine.hw.ec.text import assemble, disassemble
from atonc.machine.hw.epoch import Epoch

_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class NamedProgram:
    name: str
    container: Container

    def text(self) -> str:
        return disassemble(self.container)

    def epochs(self, replay: Replay | None = None) -> list[Epoch]:
        return decode_epochs(instructions.decode(self.container.blob.program), replay)


def read_programs(path: Path) -> list[NamedProgram]:
    """All programs of a generated header, a raw blob, a container, or an assembly listing (.s)."""
    if path.suffix in (".h", ".c"):
        return [NamedProgram(blob.name, blob.container) for blob in read_header_file(path).blobs]
    if path.suffix in (".s", ".asm", ".txt"):
        return [NamedProgram(plain(path.stem), assemble(_text(path), where=str(path)))]
    containers = read_blobs(read_file(path, _MAX_BYTES), str(path))
    names = [plain(path.stem)] if len(containers) == 1 else [f"{plain(path.stem)}[{k}]" for k in range(len(containers))]
    return [NamedProgram(name, c) for name, c in zip(names, containers, strict=True)]


def assemble_file(path: Path) -> Container:
    return assemble(_text(path), where=str(path))


def to_header(container: Container, name: str) -> str:
    """A C header with the program as 64-bit words, as firmware includes it."""
    words = container.words()
    words += [0] * (len(words) % 2)
    pairs = [f"  0x{high:08x}{low:08x}UL," for low, high in zip(words[::2], words[1::2], strict=True)]
    body = "\n".join(pairs)
    return f"#include <stdint.h>\n\nstatic const uint64_t {name}[{len(pairs)}] = {{\n{body}\n}};\n"


def to_binary(container: Container) -> bytes:
    data = array("I", container.words())
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()


def _text(path: Path) -> str:
    try:
        return read_file(path, _MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not a text file", where=str(path), remedy="give an assembly listing") from None
