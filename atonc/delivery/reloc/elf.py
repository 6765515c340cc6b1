"""A linked image as ELF becomes the bytes of the file: sections in order, relocation list, header completed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from atonc.delivery.reloc import format as fmt
from atonc.delivery.reloc.format import ImageBase, PoolData, PoolEntry, PoolType, align, offset, segment
from atonc.delivery.reloc.image import code_crc32
from atonc.delivery.reloc.pools import PoolTable
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.elf import Elf, ElfSection, SymbolKind, read_elf

_ABS32, _GOT_BREL = 2, 26
# distances inside the code, which moves as one piece
_INSIDE = {10: "THM_CALL", 30: "THM_JUMP24", 102: "THM_JUMP11", 103: "THM_JUMP8", 51: "THM_JUMP19", 3: "REL32"}
_NOTHING = {0: "NONE", 40: "V4BX"}
_PARAMS_FILL = 4  # a word that keeps the section alive, see image.ld
PARAMS_ALIGNMENT = 64


@dataclass(frozen=True)
class ImageRelocation:
    where: int
    type: int
    symbol: str
    target: int  # address of the symbol


@dataclass(frozen=True)
class Linked:
    """What the linker made of the image."""

    flash: bytes
    data: bytes
    bss_end: int
    header_words: int
    programs: bytes  # that stand in front of the parameters
    relocations: tuple[int, ...]  # tagged positions of words in .data


def read_linked(path: Path, header_words: int) -> Linked:
    elf = read_elf(path.read_bytes(), str(path))
    sections = {section.name: section for section in elf.sections}
    found = [r for name in (".rel.flash", ".rel.data") if name in sections for r in _entries(elf, sections[name])]
    bss = sections[".bss"]
    return Linked(
        flash=elf.contents(sections[".flash"]),
        data=elf.contents(sections[".data"]),
        bss_end=bss.address + bss.size_bytes,
        header_words=header_words,
        programs=elf.contents(sections[".params_0"])[:-_PARAMS_FILL],
        relocations=tuple(_listed(found, 4 * header_words, path)),
    )


def _entries(elf: Elf, section: ElfSection) -> Iterator[ImageRelocation]:
    symbols = elf.symbols_of(elf.numbered(section.link))
    for entry in elf.relocations(section):
        symbol = symbols[entry.symbol]
        name = elf.numbered(symbol.section).name if symbol.kind == SymbolKind.SECTION else symbol.name
        yield ImageRelocation(entry.where, entry.kind, name, symbol.value)


def _listed(relocations: list[ImageRelocation], header_bytes: int, path: Path) -> Iterator[int]:
    """Positions that the loader must patch; what it could not patch is an error that names the symbol."""
    for entry in relocations:
        if entry.type == _ABS32 and segment(entry.where) == ImageBase.RAM:
            if entry.target:  # a weak function that is not there stays NULL
                yield entry.where
        elif not _moves_by_itself(entry, header_bytes):
            raise InputError(
                f"{entry.symbol} is used at {entry.where:#010x} in a way that cannot be moved (type {entry.type})",
                where=str(path),
                rule="code of an image reaches data through r9 and functions by distance",
                remedy="compile every source for position independence; functions of the C library with tables are not",
            )


def _moves_by_itself(entry: ImageRelocation, header_bytes: int) -> bool:
    """True of entry points, to which the loader adds the base, of slots of the GOT, and of distances in the code."""
    if segment(entry.where) != ImageBase.FLASH:
        return False
    if entry.type == _ABS32:
        return offset(entry.where) < header_bytes
    near = entry.type in _INSIDE and segment(entry.target) == ImageBase.FLASH
    return near or entry.type == _GOT_BREL or entry.type in _NOTHING


_HEADER = {name: 4 * index for index, name in enumerate(fmt.SECTIONS)}
_PARAMS_SIZE = 4 * 12  # in the context; the checksum follows


def file_bytes(linked: Linked, pools: PoolTable, split: bool) -> tuple[bytes, bytes]:
    """The image, and the file with the parameters when they go apart (empty otherwise)."""
    contents = linked.programs + pools.params
    image = bytearray(linked.flash + linked.data)
    data = len(linked.flash)
    # the loader copies all up to the memory that it clears, so that much must be in the file
    image += bytes(max(0, data + offset(_word(image, "bss_start")) - len(image)))
    context = data + offset(_at(image, 4 * (linked.header_words - 1)))
    struct.pack_into("<2I", image, context + _PARAMS_SIZE, len(contents), zlib.crc32(contents))
    for at, entry in _pools_in(image, data, pools):
        struct.pack_into("<I", image, at + 8, entry.file_offset + len(linked.programs))
    _append_relocations(image, linked.relocations)
    inside = bool(contents) and not split
    struct.pack_into("<I", image, _HEADER["params_offset"], len(image) if inside else 0)
    note = 4 * linked.header_words
    struct.pack_into("<2I", image, note + 8, len(image), 0)
    struct.pack_into("<I", image, note + 12, code_crc32(bytes(image), note))
    return bytes(image) + (contents if inside else b""), contents if split else b""


def _pools_in(image: bytearray, data: int, pools: PoolTable) -> Iterator[tuple[int, PoolEntry]]:
    """Where the table has pools whose contents are copied; programs in front of them move them. The pool that stays in
    the file is found by its symbol, which lies behind the programs already."""
    table = data + offset(_word(image, "params_start"))
    for index, entry in enumerate(pools.entries):
        if entry.type == PoolType.COPY or entry.data == PoolData.MIXED:
            yield table + 4 * fmt.POOL_WORDS * index, entry


def _append_relocations(image: bytearray, relocations: tuple[int, ...]) -> None:
    image += bytes(align(len(image)) - len(image))
    start = len(image)
    image += struct.pack(f"<{len(relocations)}I", *relocations)
    struct.pack_into(
        "<2I", image, _HEADER["rel_start"], ImageBase.FLASH.base + start, ImageBase.FLASH.base + len(image)
    )
    image += bytes(align(len(image), PARAMS_ALIGNMENT) - len(image))


def _word(image: bytearray, name: str) -> int:
    return _at(image, _HEADER[name])


def _at(image: bytearray, at: int) -> int:
    return int(struct.unpack_from("<I", image, at)[0])
