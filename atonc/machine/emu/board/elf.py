"""Reads a firmware image: what to load where, where it starts, and the names of its functions."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import field
from pathlib import Path

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.elf import Elf, SectionKind, SymbolKind, read_elf

_MAX_FILE = 256 << 20
_MAX_SEGMENTS = 256
_LEAST_VECTORS = 64  # bytes: the sixteen of the core


@dataclass(frozen=True)
class LoadedSegment:
    address: int  # where it is loaded
    runs_at: int  # where start-up code copies it to, if it does
    executable: bool
    data: bytes


@dataclass(frozen=True)
class Firmware:
    path: Path
    entry: int
    vector_table: int
    segments: tuple[LoadedSegment, ...]
    symbols: dict[str, int]
    sizes: dict[str, int] = field(repr=False)
    _functions: tuple[tuple[int, str], ...] = field(repr=False)

    def function_at(self, address: int) -> str:
        """The name of the function that the address lies in, for messages."""
        position = bisect_right(self._functions, (address, "\uffff")) - 1
        return self._functions[position][1] if position >= 0 else "?"


def read_firmware(path: Path) -> Firmware:
    """An ELF file for a 32-bit Arm core; hostile files are refused by one error."""
    if not path.is_file():
        raise InputError("no such firmware image", where=str(path))
    if path.stat().st_size > _MAX_FILE:
        raise InputError("too large for a firmware image", where=str(path))
    elf = read_elf(path.read_bytes(), str(path))
    if len(elf.segments) > _MAX_SEGMENTS:
        raise InputError(f"{len(elf.segments)} segments are too many", where=str(path))
    loaded = [part for part in elf.segments if part.size_bytes]
    segments = tuple(LoadedSegment(one.loaded_at, one.runs_at, one.executable, elf.contents(one)) for one in loaded)
    if not segments:
        raise InputError("nothing to load in it", where=str(path))
    listed = elf.symbols()
    symbols = {symbol.name: symbol.value for symbol in listed if symbol.name}
    sizes = {symbol.name: symbol.size_bytes for symbol in listed if symbol.name}
    functions = sorted((one.value & ~1, one.name) for one in listed if one.kind == SymbolKind.FUNCTION)
    start = _vector_table(elf, segments, symbols)
    return Firmware(path, elf.entry, start, segments, symbols, sizes, tuple(functions))


def _vector_table(elf: Elf, segments: tuple[LoadedSegment, ...], symbols: dict[str, int]) -> int:
    """By the names that compilers give it; else the first section that begins with a stack and an address of code."""
    named = [elf.section(name) for name in (".isr_vector", ".intvec", ".vectors")]
    found = [section.address for section in named if section is not None]
    found += [symbols[name] for name in ("g_pfnVectors", "__vector_table", "__Vectors") if name in symbols]
    if found:
        return found[0]
    for section in elf.sections:
        first = elf.contents(section)[:_LEAST_VECTORS]
        if section.in_memory and section.kind == SectionKind.CONTENTS and len(first) == _LEAST_VECTORS:
            stack, reset = struct.unpack_from("<II", first)
            code = any(s.runs_at <= reset & ~1 < s.runs_at + len(s.data) for s in segments if s.executable)
            if stack % 4 == 0 and stack >> 28 in (2, 3) and reset & 1 and code:
                return section.address
    return segments[0].address
