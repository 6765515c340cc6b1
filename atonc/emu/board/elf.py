"""Reads a firmware image: what to load where, where it starts, and the names of its functions."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from atonc.errors import InputError, ToolError

_MAX_FILE = 256 << 20
_MAX_SEGMENTS = 256
_MAX_SYMBOLS = 1 << 20
_ARM = "EM_ARM"
_LEAST_VECTORS = 64  # bytes: the sixteen of the core
# what pyelftools lets through when a file contradicts itself
_DAMAGE = (ValueError, KeyError, IndexError, OverflowError, TypeError, AttributeError, struct.error)


@dataclass(frozen=True)
class Segment:
    address: int  # where it is loaded
    runs_at: int  # where start-up code copies it to, if it does
    executable: bool
    data: bytes


@dataclass(frozen=True)
class Firmware:
    path: Path
    entry: int
    vector_table: int
    segments: tuple[Segment, ...]
    symbols: dict[str, int]
    sizes: dict[str, int] = field(repr=False)
    _functions: tuple[tuple[int, str], ...] = field(repr=False)

    def function_at(self, address: int) -> str:
        """The name of the function that the address lies in, for messages."""
        position = bisect_right(self._functions, (address, "\uffff")) - 1
        return self._functions[position][1] if position >= 0 else "?"


def read_firmware(path: Path) -> Firmware:
    """An ELF file for a 32-bit Arm core; hostile files are refused by one error."""
    try:
        elf_error = import_module("elftools.common.exceptions").ELFError
        elf_file = import_module("elftools.elf.elffile").ELFFile
    except ImportError as error:
        raise ToolError("pyelftools is not installed", remedy="pip install 'atonc[board]'") from error
    if not path.is_file():
        raise InputError("no such firmware image", where=str(path))
    if path.stat().st_size > _MAX_FILE:
        raise InputError("too large for a firmware image", where=str(path))
    try:
        with path.open("rb") as stream:
            return _read(elf_file(stream), path)
    except (elf_error, *_DAMAGE) as error:
        raise InputError(f"not a usable ELF file: {error}", where=str(path)) from error


def _read(elf: Any, path: Path) -> Firmware:
    if elf.elfclass != 32 or not elf.little_endian or elf["e_machine"] != _ARM:
        raise InputError("not a little-endian 32-bit Arm image", where=str(path))
    if elf.num_segments() > _MAX_SEGMENTS:
        raise InputError(f"{elf.num_segments()} segments are too many", where=str(path))
    segments = tuple(
        Segment(part["p_paddr"], part["p_vaddr"], bool(part["p_flags"] & 1), part.data())
        for part in elf.iter_segments("PT_LOAD")
        if part["p_filesz"]
    )
    if not segments:
        raise InputError("nothing to load in it", where=str(path))
    symbols: dict[str, int] = {}
    sizes: dict[str, int] = {}
    functions = []
    table = elf.get_section_by_name(".symtab")
    if table is not None:
        if table.num_symbols() > _MAX_SYMBOLS:
            raise InputError(f"{table.num_symbols()} symbols are too many", where=str(path))
        for symbol in table.iter_symbols():
            value = symbol["st_value"]
            if symbol["st_info"]["type"] == "STT_FUNC":
                functions.append((value & ~1, symbol.name))
            if symbol.name:
                symbols[symbol.name] = value
                sizes[symbol.name] = symbol["st_size"]
    start = _vector_table(elf, segments, symbols)
    return Firmware(path, elf["e_entry"], start, segments, symbols, sizes, tuple(sorted(functions)))


def _vector_table(elf: Any, segments: tuple[Segment, ...], symbols: dict[str, int]) -> int:
    """By the names that compilers give it; else the first section that begins with a stack and an address of code."""
    named = [elf.get_section_by_name(name) for name in (".isr_vector", ".intvec", ".vectors")]
    found = [section["sh_addr"] for section in named if section is not None]
    found += [symbols[name] for name in ("g_pfnVectors", "__vector_table", "__Vectors") if name in symbols]
    if found:
        return int(found[0])
    for section in elf.iter_sections():
        if section["sh_flags"] & 2 and section["sh_type"] == "SHT_PROGBITS" and section["sh_size"] >= _LEAST_VECTORS:
            stack, reset = struct.unpack("<II", section.data()[:8])
            code = any(s.runs_at <= reset & ~1 < s.runs_at + len(s.data) for s in segments if s.executable)
            if stack % 4 == 0 and stack >> 28 in (2, 3) and reset & 1 and code:
                return int(section["sh_addr"])
    return segments[0].address
