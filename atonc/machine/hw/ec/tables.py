"""The tables in front of a blob in a container: relocations, patches, debug data.

Offsets in the header count bytes from the container's start, offsets in a table from the table's start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.ec.instructions import WORD_MASK

BLOB_MAGIC = 0xCA057A7A


@dataclass(frozen=True)
class ContainerLayout:
    """Where a container version keeps what; entries are word indices in the header."""

    version: int
    header_words: int
    patch_entry: int  # 0: this version has no patches
    debug_entry: int
    program_entry: int
    patch_words: int
    absent: int | None  # offset of an absent debug section; None: that of the program


VERSIONS: dict[int, ContainerLayout] = {
    0xECBF0020: ContainerLayout(0x20, 4, 0, 2, 3, 0, None),
    0xECBF0030: ContainerLayout(0x30, 6, 2, 3, 4, 4, 0),
    0xECBF0050: ContainerLayout(0x50, 6, 2, 3, 4, 5, 0),
}
_RELOCATION_ENTRY = 1
_RELOCATION_WORDS = 3
_MAX_NAME = 256
_NAME = re.compile(rf"[!-'*-:<-~]{{1,{_MAX_NAME}}}")  # printable, and without what delimits it in the assembly text


@dataclass(frozen=True)
class Relocation:
    """Program words (without magic and length) to which the symbol's base address is added."""

    symbol: str
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Patch:
    """Program words whose masked bits a named value replaces. Version 0x30 knows no shift."""

    symbol: str
    mask: int
    offsets: tuple[int, ...]
    shift: int = 0

    def place(self, value: int) -> tuple[int, int]:
        """Mask and bits to put into each word; a negative shift moves both to the left."""
        mask = self.mask if self.shift >= 0 else self.mask << -self.shift & WORD_MASK
        moved = value >> self.shift if self.shift >= 0 else value << -self.shift
        return mask, moved & mask


@dataclass(frozen=True)
class Tables:
    relocations: tuple[Relocation, ...]
    patches: tuple[Patch, ...]
    debug: tuple[int, ...]


@dataclass(frozen=True)
class _Section:
    """One table as words, with what its entries may refer to."""

    words: list[int]
    program_length: int
    where: str

    def entries(self, words_per_entry: int) -> list[list[int]]:
        count = self.words[0] if self.words else 0
        end = 1 + count * words_per_entry
        if end > len(self.words):
            raise InputError(f"{count} entries do not fit the table of {len(self.words)} words", where=self.where)
        entries = [self.words[i : i + words_per_entry] for i in range(1, end, words_per_entry)]
        if sum(entry[-2] for entry in entries) > len(self.words):  # lists that share words would cost quadratic time
            raise InputError("the lists are longer than the table", where=self.where)
        return entries

    def offsets(self, count: int, start: int) -> tuple[int, ...]:
        if start % 4 or start // 4 + count > len(self.words):
            raise InputError(f"list of {count} words at {start:#x} is not inside the table", where=self.where)
        found = tuple(self.words[start // 4 : start // 4 + count])
        if found and max(found) >= self.program_length:
            raise InputError(f"word {max(found)} is outside the program of {self.program_length}", where=self.where)
        return found

    def name(self, start: int) -> str:
        words = self.words[start // 4 : start // 4 + _MAX_NAME // 4 + 2]
        raw, terminator, _ = np.array(words, dtype="<u4").tobytes()[start % 4 :].partition(b"\0")
        name = raw.decode("ascii", "replace")
        if not terminator:
            raise InputError(f"the name at {start:#x} does not end", where=self.where)
        return _checked_name(name, self.where)


def read_tables(layout: ContainerLayout, prefix: list[int], program_length: int, where: str) -> Tables:
    """Parse everything in front of the blob; `prefix` ends where the blob starts."""
    bounds = _section_bounds(layout, prefix, where)
    sections = {
        kind: _Section(prefix[start:end], program_length, f"{where}, {kind} table")
        for kind, (start, end) in bounds.items()
    }
    relocations = _relocations(sections["relocation"]) if "relocation" in sections else ()
    patches = _patches(sections["patch"], layout.patch_words) if "patch" in sections else ()
    debug = tuple(sections["debug"].words) if "debug" in sections else ()
    return Tables(relocations, patches, debug)


def _section_bounds(layout: ContainerLayout, prefix: list[int], where: str) -> dict[str, tuple[int, int]]:
    """First and last+1 word of each section that is there, in file order."""
    end = len(prefix)
    entries = {"relocation": _RELOCATION_ENTRY, "patch": layout.patch_entry, "debug": layout.debug_entry}
    offsets = {kind: prefix[entry] for kind, entry in entries.items() if entry}
    if layout.absent is None and offsets["debug"] == end * 4:
        del offsets["debug"]
    starts = {kind: offset for kind, offset in offsets.items() if offset}
    for kind, offset in starts.items():
        if offset % 4 or not layout.header_words * 4 <= offset < end * 4:
            raise InputError(f"{kind} section offset {offset:#x} is not inside the container", where=where)
    edges = [*(offset // 4 for offset in starts.values()), end]
    if sorted(set(edges)) != edges:
        raise InputError("the container's sections overlap or are out of order", where=where)
    return {kind: (edges[i], edges[i + 1]) for i, kind in enumerate(starts)}


def _relocations(section: _Section) -> tuple[Relocation, ...]:
    result = tuple(
        Relocation(section.name(name), section.offsets(count, start))
        for name, count, start in section.entries(_RELOCATION_WORDS)
    )
    _check_unique([r.symbol for r in result], "symbol", section.where)
    _check_unique([offset for r in result for offset in r.offsets], "program word", section.where)
    return result


def _patches(section: _Section, words_per_entry: int) -> tuple[Patch, ...]:
    result = []
    for entry in section.entries(words_per_entry):
        name, *shift, mask, count, start = entry
        signed = (shift[0] ^ 1 << 31) - (1 << 31) if shift else 0
        if not -64 < signed < 64:
            raise InputError(f"shift by {signed} bits", where=section.where)
        result.append(Patch(section.name(name), mask, section.offsets(count, start), signed))
    _check_unique([p.symbol for p in result], "name", section.where)
    return tuple(result)


def _checked_name(name: str, where: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name[:_MAX_NAME]!r} is not a name of up to {_MAX_NAME} characters", where=where)
    return name


def _check_unique(items: Sequence[str] | Sequence[int], kind: str, where: str) -> None:
    if len(set(items)) != len(items):
        raise InputError(f"a {kind} is listed twice", where=where)


# ----------------------------------------------------------------------------------------------------------- writing


def build_prefix(
    version: int, relocations: Sequence[Relocation], patches: Sequence[Patch], debug: Sequence[int]
) -> list[int]:
    """Header and tables as the tools lay them out: relocations, patches, debug; each padded to 8 bytes."""
    magic, layout = next(((m, v) for m, v in VERSIONS.items() if v.version == version), (0, None))
    if layout is None:
        raise InputError(f"container version {version:#x} is unknown", rule="versions are 0x20, 0x30 and 0x50")
    if patches and not layout.patch_entry:
        raise InputError(f"containers of version {version:#x} have no patches")
    rows = [(p, [p.shift & WORD_MASK, p.mask] if layout.patch_words == 5 else [p.mask]) for p in patches]
    sections = [
        (_RELOCATION_ENTRY, _table([(r.symbol, [], r.offsets) for r in relocations])),
        (layout.patch_entry, _table([(p.symbol, extra, p.offsets) for p, extra in rows])),
        (layout.debug_entry, _padded([*debug])),
    ]
    return _assemble(magic, layout, sections)


def _assemble(magic: int, layout: ContainerLayout, sections: Sequence[tuple[int, list[int]]]) -> list[int]:
    header, body = [magic] + [0] * (layout.header_words - 1), list[int]()
    for entry, words in sections:
        if words:
            header[entry] = 4 * (layout.header_words + len(body))
            body += words
    header[layout.program_entry] = 4 * (layout.header_words + len(body))
    if layout.absent is None and not header[layout.debug_entry]:
        header[layout.debug_entry] = header[layout.program_entry]
    return header + body


def _table(rows: Sequence[tuple[str, list[int], Sequence[int]]]) -> list[int]:
    """count, entries (name, extra words, length, list), all lists, all names."""
    if not rows:
        return []
    entry_words = 3 + len(rows[0][1])
    list_at = 1 + entry_words * len(rows)
    name_at = 4 * (list_at + sum(len(offsets) for _, _, offsets in rows))
    entries, lists, names = [len(rows)], list[int](), b""
    for name, extra, offsets in rows:
        entries += [name_at + len(names), *extra, len(offsets), 4 * (list_at + len(lists))]
        lists += offsets
        names += _checked_name(name, "container").encode("ascii") + b"\0"
    names += bytes(-(name_at + len(names)) % 8)
    return [*entries, *lists, *np.frombuffer(names, dtype="<u4").tolist()]


def _padded(words: list[int]) -> list[int]:
    return words + [0] * (len(words) % 2)
