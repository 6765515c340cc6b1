"""Linked images and objects for a 32-bit Arm core in the ELF format: the one reader of such files.

Files may come from strangers: whatever contradicts itself is refused by one error, and nothing is copied before it is
asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import field
from enum import IntEnum, IntFlag

from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass

_ARM = 40
_LOAD = 1
_MAX_HEADERS = 4096
_MAX_SYMBOLS = 1 << 20
_SECTION, _SEGMENT, _SYMBOL, _RELOCATION = (struct.Struct(text) for text in ("<10I", "<8I", "<IIIBBH", "<II"))


class SectionKind(IntEnum):
    UNUSED = 0
    CONTENTS = 1
    SYMBOLS = 2
    ROOM = 8  # no contents in the file, such as .bss


class Flag(IntFlag):
    IN_MEMORY = 2  # of a section


class SymbolKind(IntEnum):
    FUNCTION = 2
    SECTION = 3


@dataclass(frozen=True)
class ElfSection:
    name: str
    kind: int
    flags: int
    address: int
    offset: int  # in the file
    size_bytes: int
    link: int  # number of the section that it belongs to

    @property
    def in_memory(self) -> bool:
        return bool(self.flags & Flag.IN_MEMORY) and self.size_bytes > 0 and self.kind != SectionKind.UNUSED


@dataclass(frozen=True)
class ElfSegment:
    """What is loaded: to `loaded_at`, for code that expects it at `runs_at`."""

    offset: int
    runs_at: int
    loaded_at: int
    size_bytes: int  # in the file
    executable: bool


@dataclass(frozen=True)
class ElfSymbol:
    name: str
    value: int
    size_bytes: int
    kind: int
    section: int


@dataclass(frozen=True)
class ElfRelocation:
    where: int
    kind: int
    symbol: int  # its number in the table that the section is linked with


@dataclass(frozen=True)
class Elf:
    data: bytes = field(repr=False)
    where: str
    entry: int
    sections: tuple[ElfSection, ...]
    segments: tuple[ElfSegment, ...]

    def section(self, name: str) -> ElfSection | None:
        return next((section for section in self.sections if section.name == name), None)

    def contents(self, part: ElfSection | ElfSegment) -> bytes:
        if isinstance(part, ElfSection) and part.kind == SectionKind.ROOM:
            return b""
        return self.data[part.offset : part.offset + part.size_bytes]

    def symbols(self) -> list[ElfSymbol]:
        """Lists the symbols of the image; none if they were taken out."""
        table = next((section for section in self.sections if section.kind == SectionKind.SYMBOLS), None)
        return [] if table is None else self.symbols_of(table)

    def symbols_of(self, table: ElfSection) -> list[ElfSymbol]:
        if table.size_bytes // _SYMBOL.size > _MAX_SYMBOLS:
            raise InputError(f"{table.size_bytes // _SYMBOL.size:,} symbols are too many", where=self.where)
        texts = self.contents(self.numbered(table.link))
        rows = _SYMBOL.iter_unpack(_whole(self.contents(table), _SYMBOL.size))
        return [ElfSymbol(_text(texts, at), value, size, info & 15, home) for at, value, size, info, _, home in rows]

    def relocations(self, section: ElfSection) -> Iterator[ElfRelocation]:
        for where, info in _RELOCATION.iter_unpack(_whole(self.contents(section), _RELOCATION.size)):
            yield ElfRelocation(where, info & 255, info >> 8)

    def numbered(self, number: int) -> ElfSection:
        if number >= len(self.sections):
            raise InputError(f"not a usable ELF file: there is no section {number}", where=self.where)
        return self.sections[number]


def read_elf(data: bytes, where: str) -> Elf:
    try:
        if data[:6] != b"\x7fELF\x01\x01" or struct.unpack_from("<H", data, 18)[0] != _ARM:
            raise InputError("not a little-endian 32-bit Arm image", where=where)
        entry, segments_at, sections_at = struct.unpack_from("<3I", data, 24)
        segments = _headers(data, where, "program headers", segments_at, 42, _SEGMENT)
        rows = _headers(data, where, "sections", sections_at, 46, _SECTION)
        (names,) = struct.unpack_from("<H", data, 50)
    except struct.error as error:
        raise InputError(f"not a usable ELF file: {error}", where=where) from None
    texts = data[rows[names][4] : rows[names][4] + rows[names][5]] if names < len(rows) else b""
    sections = tuple(ElfSection(_text(texts, name), *rest[:6]) for name, *rest in rows)
    loaded = tuple(
        ElfSegment(offset, virtual, physical, size, bool(flags & 1))
        for kind, offset, virtual, physical, size, _, flags, _ in segments
        if kind == _LOAD
    )
    return Elf(data, where, entry, sections, loaded)


def _headers(
    data: bytes, where: str, what: str, start: int, sizes_at: int, layout: struct.Struct
) -> list[tuple[int, ...]]:
    """`sizes_at`: where the size and the count of these headers stand."""
    size, count = struct.unpack_from("<HH", data, sizes_at)
    if count > _MAX_HEADERS or (count and size < layout.size):
        raise InputError(f"{count} {what} of {size} bytes cannot be read", where=where)
    return [layout.unpack_from(data, start + number * size) for number in range(count)]


def _whole(table: bytes, size: int) -> bytes:
    return table[: len(table) // size * size]


def _text(texts: bytes, at: int) -> str:
    end = texts.find(b"\0", at)
    return plain(texts[at : end if end >= 0 else None][:4096].decode("utf-8", "replace"))
