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
_TAIL = 0  # sh_type of unused entries


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

    @property
    def loaded(self) -> tuple[Section, ...]:
        return tuple(section for section in self.sections if section.has_contents)


def read_elf_map(path: Path) -> ElfMap:
    """Sections that take memory, by address. Nothing of their contents is kept."""
    data = read_file(path, MAX_BYTES)
    try:
        return ElfMap(plain(path.name), _sections(data, str(path)))
    except (struct.error, IndexError, ValueError) as error:
        raise InputError(f"not a usable ELF file: {plain(str(error))[:120]}", where=str(path)) from None


def _sections(data: bytes, where: str) -> tuple[Section, ...]:
    if data[:6] != b"\x7fELF\x01\x01" or struct.unpack_from("<H", data, 18)[0] != _ARM:
        raise InputError("not a little-endian 32-bit Arm image", where=where)
    program_at, section_at = struct.unpack_from("<II", data, 28)
    program_size, program_count, section_size, count, names = struct.unpack_from("<HHHHH", data, 42)
    if not count or count > _MAX_HEADERS or program_count > _MAX_HEADERS or section_size < 40:
        raise InputError(f"{count} sections, 1 to {_MAX_HEADERS} can be read", where=where)
    if program_count and program_size < 32:
        raise ValueError("program headers are too short")
    loads = [struct.unpack_from("<8I", data, program_at + i * program_size) for i in range(program_count)]
    headers = [struct.unpack_from("<10I", data, section_at + i * section_size) for i in range(count)]
    strings = data[headers[names][4] : headers[names][4] + headers[names][5]]
    found = []
    for name, kind, flags, start, _, size, *_ in headers:
        if flags & _ALLOC and size and kind != _TAIL:
            contents = kind != _NOBITS
            loaded = _load_address(start, size, loads) if contents else start
            found.append(Section(_name(strings, name), start, size, loaded, contents))
    if not found:
        raise InputError("no section takes memory: not a linked image", where=where)
    return tuple(sorted(found, key=lambda section: (section.start, section.name)))


def _load_address(start: int, size: int, loads: list[tuple[int, ...]]) -> int:
    for kind, _, virtual, physical, in_file, _, _, _ in loads:
        if kind == _LOAD and virtual <= start and start + size <= virtual + in_file:
            return start - virtual + physical
    return start


def _name(strings: bytes, at: int) -> str:
    end = strings.find(b"\0", at)
    return plain(strings[at : end if end >= 0 else None][:96].decode("utf-8", "replace")) or "(unnamed)"
