"""Which memory a linked image takes: its sections at run time, where their contents are loaded, and how much of it."""

from __future__ import annotations

from pathlib import Path

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.elf import Elf, SectionKind, read_elf
from atonc.machine.hw.elf import ElfSection as FileSection

MAX_BYTES = 512 << 20
_LONG_NAME = 96
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
    elf = read_elf(read_file(path, MAX_BYTES), str(path))
    return ElfMap(plain(path.name), _sections(elf), _stack(elf))


def _sections(elf: Elf) -> tuple[Section, ...]:
    found = []
    for section in elf.sections:
        if section.in_memory:
            contents = section.kind != SectionKind.ROOM
            loaded = _load_address(section, elf) if contents else section.address
            name = section.name[:_LONG_NAME] or "(unnamed)"
            found.append(Section(name, section.address, section.size_bytes, loaded, contents))
    if not found:
        raise InputError("no section takes memory: not a linked image", where=elf.where)
    return tuple(sorted(found, key=lambda section: (section.start, section.name)))


def _stack(elf: Elf) -> tuple[int, int] | None:
    """By the symbols that linker scripts of this family define."""
    names = {*_STACK_END, *_STACK_START, *_STACK_SIZE}
    values = {symbol.name: symbol.value for symbol in elf.symbols() if symbol.name in names}
    end = next((values[name] for name in _STACK_END if name in values), 0)
    start = next((values[name] for name in _STACK_START if name in values), 0)
    size = next((values[name] for name in _STACK_SIZE if name in values), _LEAST_STACK)
    start = start if 0 < start < end else end - size
    return (start, end) if 0 < start < end else None


def _load_address(section: FileSection, image: Elf) -> int:
    for part in image.segments:
        if part.runs_at <= section.address and section.address + section.size_bytes <= part.runs_at + part.size_bytes:
            return section.address - part.runs_at + part.loaded_at
    return section.address
