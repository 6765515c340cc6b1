"""Blobs as they are stored: a bare blob, or a container with relocations, patches and debug data.

Everything in front of the blob is kept as it was read (`Container.prefix`), so writing back is word-exact even for
tables laid out in a way that we do not produce ourselves; relocations and patches are a parsed view of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.ec.instructions import WORD_MASK, Words, word_list
from atonc.machine.hw.limits import NPU_CACHE_LINE

# ----------------------------------------------------------------------------------------------------------------------
# The tables in front of a blob in a container: relocations, patches, debug data.
#
# Offsets in the header count bytes from the container's start, offsets in a table from the table's start.

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
        (layout.debug_entry, [*debug, *([0] * (len(debug) % 2))]),
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


MAX_WORDS = 1 << 23
CACHE_LINE_WORDS = NPU_CACHE_LINE // 4


@dataclass(frozen=True)
class Blob:
    """What the epoch controller reads: magic, length, program, padded to 8 bytes."""

    program: tuple[int, ...]

    def words(self) -> list[int]:
        padding = [0] * (len(self.program) % 2)
        return [BLOB_MAGIC, len(self.program), *self.program, *padding]


@dataclass(frozen=True)
class Container:
    """A blob and what is stored with it. Version 0: a bare blob without prefix.

    `filler` counts the zero words behind the blob: newer tools fill its array up to a cache line.
    """

    blob: Blob
    version: int = 0
    prefix: tuple[int, ...] = field(default=(), repr=False)
    relocations: tuple[Relocation, ...] = ()
    patches: tuple[Patch, ...] = ()
    debug: tuple[int, ...] = ()
    filler: int = 0

    def words(self) -> list[int]:
        return [*self.prefix, *self.blob.words(), *[0] * self.filler]

    def to_bytes(self) -> bytes:
        return np.array(self.words(), dtype="<u4").tobytes()


def build_container(
    blob: Blob,
    version: int,
    relocations: tuple[Relocation, ...] = (),
    patches: tuple[Patch, ...] = (),
    debug: tuple[int, ...] = (),
) -> Container:
    """A container as the tools write it; version 0 gives a bare blob."""
    if version == 0:
        if relocations or patches or debug:
            raise InputError("a bare blob cannot hold relocations, patches or debug data")
        return Container(blob)
    prefix = build_prefix(version, relocations, patches, debug)
    return _read_container([*prefix, *blob.words()], "container")


def read_container(data: bytes | Words, where: str = "blob") -> Container:
    """Exactly one bare blob or container; recognised by its magic."""
    words = _as_words(data, where)
    if not words:
        raise InputError("empty, no blob in it", where=where)
    if words[0] == BLOB_MAGIC:
        blob, filler = _read_blob(words, 0, where)
        return Container(blob, filler=filler)
    if words[0] in VERSIONS:
        return _read_container(words, where)
    raise InputError(
        f"starts with {words[0]:#010x}, which is neither a blob nor a container",
        where=where,
        rule="blobs start with 0xca057a7a, containers with 0xecbf0020, 0xecbf0030 or 0xecbf0050",
        remedy="check that the file is not truncated at its start, byte swapped or encrypted",
    )


def read_blobs(data: bytes | Words, where: str = "blobs") -> tuple[Container, ...]:
    """All blobs or containers that follow each other, with zero words between them at most."""
    words = _as_words(data, where)
    result: list[Container] = []
    position = 0
    while position < len(words):
        if words[position] == 0 and result:
            position += 1
            continue
        length = _stored_length(words, position, where)
        result.append(read_container(words[position : position + length], f"{where}, word {position}"))
        position += length
    if not result:
        raise InputError("empty, no blob in it", where=where)
    return tuple(result)


def relocate(container: Container, bases: Mapping[str, int]) -> Blob:
    """The blob with every relocated word moved by its symbol's base address."""
    _check_names("relocation symbol", {r.symbol for r in container.relocations}, set(bases))
    program = list(container.blob.program)
    for relocation in container.relocations:
        base = bases[relocation.symbol]
        for offset in relocation.offsets:
            program[offset] = program[offset] + base & WORD_MASK
    return Blob(tuple(program))


def apply_patches(container: Container, values: Mapping[str, int]) -> Container:
    """The container with the masked bits of the patched words replaced; patches not named stay as they are."""
    _check_names("patch", {p.symbol for p in container.patches}, set(values), all_needed=False)
    program = list(container.blob.program)
    for patch in container.patches:
        if patch.symbol in values:
            mask, value = patch.place(values[patch.symbol])
            for offset in patch.offsets:
                program[offset] = program[offset] & ~mask | value
    return replace(container, blob=Blob(tuple(program)))


def _check_names(kind: str, known: set[str], given: set[str], all_needed: bool = True) -> None:
    if given - known:
        raise InputError(f"{kind} {', '.join(sorted(given - known))} is not in the container")
    if all_needed and known - given:
        raise InputError(f"{kind} {', '.join(sorted(known - given))} has no address")


def _as_words(data: bytes | Words, where: str) -> list[int]:
    if isinstance(data, (bytes, bytearray, memoryview)):
        if len(data) % 4:
            raise InputError(f"{len(data)} bytes are not a whole number of 32-bit words", where=where)
        data = np.frombuffer(data, dtype="<u4")
    if len(data) > MAX_WORDS:
        raise InputError(f"{len(data)} words are more than any blob can have", where=where)
    return word_list(data, where)


def _read_blob(words: list[int], start: int, where: str) -> tuple[Blob, int]:
    """The blob and the number of zero words behind it."""
    end = start + _stored_blob_length(words, start, where)
    length = words[start + 1]
    rest = words[start + 2 + length :]
    if any(rest) or len(words) - end not in range(CACHE_LINE_WORDS):
        raise InputError(
            f"{len(rest)} words follow the program of {length} words",
            where=where,
            rule="the program is filled up with zero words to 8 bytes, and to a cache line of 64 bytes at most",
            remedy="check that length and program belong together",
        )
    return Blob(tuple(words[start + 2 : start + 2 + length])), len(words) - end


def _stored_length(words: list[int], start: int, where: str) -> int:
    """Words of the blob or container that starts there, padding included."""
    if words[start] in VERSIONS:
        layout = VERSIONS[words[start]]
        if start + layout.header_words > len(words):
            raise InputError("container header is truncated", where=where)
        offset = words[start + layout.program_entry]
        if offset % 8 or offset // 4 < layout.header_words:
            raise InputError(f"program offset {offset:#x} is not valid", where=where)
        return offset // 4 + _stored_blob_length(words, start + offset // 4, where)
    return _stored_blob_length(words, start, where)


def _stored_blob_length(words: list[int], start: int, where: str) -> int:
    if start + 2 > len(words):
        raise InputError("ends before the program's magic and length", where=where)
    if words[start] != BLOB_MAGIC:
        raise InputError(f"word {start} is {words[start]:#010x}, expected the magic {BLOB_MAGIC:#010x}", where=where)
    length = words[start + 1]
    if length > len(words) - start - 2:
        raise InputError(
            f"the program should have {length} words, but only {len(words) - start - 2} follow",
            where=where,
            remedy="the file is truncated; get a complete copy",
        )
    return 2 + length + length % 2


def _read_container(words: list[int], where: str) -> Container:
    layout = VERSIONS[words[0]]
    if len(words) < layout.header_words:
        raise InputError("container header is truncated", where=where)
    start = words[layout.program_entry] // 4
    _stored_length(words, 0, where)
    blob, filler = _read_blob(words, start, where)
    prefix = words[:start]
    tables = read_tables(layout, prefix, len(blob.program), where)
    return Container(blob, layout.version, tuple(prefix), tables.relocations, tables.patches, tables.debug, filler)
