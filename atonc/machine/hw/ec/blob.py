"""Blobs as they are stored: a bare blob, or a container with relocations, patches and debug data.

Everything in front of the blob is kept as it was read (`Container.prefix`), so writing back is word-exact even for
tables laid out in a way that we do not produce ourselves; relocations and patches are a parsed view of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.ec.instructions import WORD_MASK, Words, word_list
from atonc.machine.hw.ec.tables import (
    BLOB_MAGIC,
    VERSIONS,
    Patch,
    Relocation,
    build_prefix,
    read_tables,
)
from atonc.machine.hw.limits import NPU_CACHE_LINE

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
