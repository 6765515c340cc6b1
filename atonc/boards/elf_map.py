"""Which memory a linked image takes: its sections at run time, where their contents are loaded, and how much of it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from atonc.disk import read_file
from atonc.errors import InputError, plain

MAX_BYTES = 512 << 20
_MAX_HEADERS = 4096
_ALLOC, _NOBITS = 2, 8
_ARM, _LOAD = 40, 1
_TAIL, _SYMBOLS = 0, 2  # sh_type of unused entries, and of the table of symbols
_STACK_END, _STACK_START, _STACK_SIZE = ("_estack", "__StackTop"), ("_sstack", "__StackLimit"), ("_Min_Stack_Size",)
_LEAST_STACK = 0x400


@dataclass(frozen=True)
class Section:
    name: str
    start: int
    size_bytes: int
    loaded_at: int  # where its contents are put; the same address unless start-up code copies them
    has_contents: bool  # False: room only, such as .bss

    @property
    def end(self) -> int:
        return self.start + self.size_bytes


@dataclass(frozen=True)
class ElfMap:
    file: str
    sections: tuple[Section, ...]
    stack: tuple[int, int] | None = None  # start and end: usually at the end of a region, in no section

    @property
    def loaded(self) -> tuple[Section, ...]:
        return tuple(section for section in self.sections if section.has_contents)


def read_elf_map(path: Path) -> ElfMap:
    """Sections that take memory, by address. Nothing of their contents is kept."""
    data = read_file(path, MAX_BYTES)
    try:
        headers = _headers(data, str(path))
        return ElfMap(plain(path.name), _sections(data, headers, str(path)), _stack(data, headers))
    except (struct.error, IndexError, ValueError) as error:
        raise InputError(f"not a usable ELF file: {plain(str(error))[:120]}", where=str(path)) from None


Header = tuple[int, ...]  # name, type, flags, address, offset, size, link, ...


def _headers(data: bytes, where: str) -> list[Header]:
    if data[:6] != b"\x7fELF\x01\x01" or struct.unpack_from("<H", data, 18)[0] != _ARM:
        raise InputError("not a little-endian 32-bit Arm image", where=where)
    (section_at,) = struct.unpack_from("<I", data, 32)
    size, count = struct.unpack_from("<HH", data, 46)
    if not count or count > _MAX_HEADERS or size < 40:
        raise InputError(f"{count} sections, 1 to {_MAX_HEADERS} can be read", where=where)
    return [struct.unpack_from("<10I", data, section_at + i * size) for i in range(count)]


def _sections(data: bytes, headers: list[Header], where: str) -> tuple[Section, ...]:
    (program_at,) = struct.unpack_from("<I", data, 28)
    size, count = struct.unpack_from("<HH", data, 42)
    if count > _MAX_HEADERS or (count and size < 32):
        raise InputError(f"{count} program headers of {size} bytes cannot be read", where=where)
    loads = [struct.unpack_from("<8I", data, program_at + i * size) for i in range(count)]
    (names,) = struct.unpack_from("<H", data, 50)
    strings = data[headers[names][4] : headers[names][4] + headers[names][5]]
    found = []
    for name, kind, flags, start, _, length, *_ in headers:
        if flags & _ALLOC and length and kind != _TAIL:
            contents = kind != _NOBITS
            loaded = _load_address(start, length, loads) if contents else start
            found.append(Section(_name(strings, name), start, length, loaded, contents))
    if not found:
        raise InputError("no section takes memory: not a linked image", where=where)
    return tuple(sorted(found, key=lambda section: (section.start, section.name)))


def _stack(data: bytes, headers: list[Header]) -> tuple[int, int] | None:
    """By the symbols that linker scripts of this family define."""
    table = next((header for header in headers if header[1] == _SYMBOLS), None)
    if table is None or table[6] >= len(headers):
        return None
    texts = headers[table[6]]
    values = _values(data[table[4] : table[4] + table[5]], data[texts[4] : texts[4] + texts[5]])
    end = next((values[name] for name in _STACK_END if name in values), 0)
    start = next((values[name] for name in _STACK_START if name in values), 0)
    size = next((values[name] for name in _STACK_SIZE if name in values), _LEAST_STACK)
    start = start if 0 < start < end else end - size
    return (start, end) if 0 < start < end else None


def _values(symbols: bytes, texts: bytes) -> dict[str, int]:
    """Of the few names that matter: where each stands among the texts, then which symbol points there."""
    places: dict[int, str] = {}
    for name in (*_STACK_END, *_STACK_START, *_STACK_SIZE):
        at = texts.find(name.encode() + b"\0")
        if at >= 0:
            places[at] = name
    whole = symbols[: len(symbols) // 16 * 16]
    return {places[row[0]]: row[1] for row in struct.iter_unpack("<IIIHH", whole) if row[0] in places}


def _load_address(start: int, size: int, loads: list[tuple[int, ...]]) -> int:
    for kind, _, virtual, physical, in_file, _, _, _ in loads:
        if kind == _LOAD and virtual <= start and start + size <= virtual + in_file:
            return start - virtual + physical
    return start


def _name(strings: bytes, at: int) -> str:
    end = strings.find(b"\0", at)
    return plain(strings[at : end if end >= 0 else None][:96].decode("utf-8", "replace")) or "(unnamed)"
