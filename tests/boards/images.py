"""Small linked images, made byte by byte: sections at addresses, with contents or without."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

ALLOC = 2
PROGBITS, SYMTAB, STRTAB, NOBITS = 1, 2, 3, 8
_HEADER, _PROGRAM, _SECTION = 52, 32, 40


@dataclass(frozen=True)
class Part:
    name: str
    start: int
    size: int
    contents: bool = True
    loaded_at: int | None = None


def write_elf(path: Path, *parts: Part, symbols: dict[str, int] | None = None) -> Path:
    """Contents are zeros that the file really holds, so sizes stay small; `.bss` may be as large as it likes."""
    names = b"\0" + b"".join(part.name.encode() + b"\0" for part in parts) + b".shstrtab\0"
    texts = b"\0" + b"".join(name.encode() + b"\0" for name in symbols or {})
    table, text_at = bytes(16), 1
    for name, value in (symbols or {}).items():
        table += struct.pack("<IIIBBH", text_at, value, 0, 0x10, 0, 0xFFF1)
        text_at += len(name) + 1
    at = _HEADER + _PROGRAM * len(parts)
    body, programs, sections, offset = b"", b"", bytes(_SECTION), 1
    for part in parts:
        held = part.size if part.contents else 0
        loaded = part.start if part.loaded_at is None else part.loaded_at
        programs += struct.pack("<8I", 1, at, part.start, loaded, held, part.size, 7, 4)
        kind = PROGBITS if part.contents else NOBITS
        sections += struct.pack("<10I", offset, kind, ALLOC, part.start, at, part.size, 0, 0, 4, 0)
        body += bytes(held)
        at, offset = at + held, offset + len(part.name) + 1
    sections += struct.pack("<10I", offset, STRTAB, 0, 0, at, len(names), 0, 0, 1, 0)
    at += len(names)
    sections += struct.pack("<10I", 0, SYMTAB, 0, 0, at, len(table), len(parts) + 3, 1, 4, 16)
    at += len(table)
    sections += struct.pack("<10I", 0, STRTAB, 0, 0, at, len(texts), 0, 0, 1, 0)
    at += len(texts)
    head = b"\x7fELF\x01\x01\x01" + bytes(9)
    head += struct.pack("<HHIIIIIHHHHHH", 2, 40, 1, 0, _HEADER, at, 0, _HEADER, _PROGRAM, len(parts),
                        _SECTION, len(parts) + 4, len(parts) + 1)  # fmt: skip
    path.write_bytes(head + programs + body + names + table + texts + sections)
    return path
