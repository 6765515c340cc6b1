"""Reads an image, ours or ST's, into an `Image`; every offset in it is checked before it is followed.

Then what a loader would find wrong with it, and what it cannot find; and the image as C files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import field

from atonc.delivery.reloc import format as fmt
from atonc.delivery.reloc.format import (
    ENTRIES_10,
    ENTRIES_12,
    ENTRIES_12_OURS,
    Abi,
    Flags,
    ImageBase,
    ImageContext,
    ImageNote,
    PoolData,
    PoolEntry,
    PoolType,
    abi_of,
    align,
    offset,
    segment,
)
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import render

_MAX_TEXT = 120


@dataclass(frozen=True)
class Slot:
    """A word that the loader replaces by an address."""

    where: int  # tagged
    value: int  # tagged


@dataclass(frozen=True)
class Image:
    data: bytes = field(repr=False)
    sections: Mapping[str, int]  # the words of the header up to the entry points, by name
    flags: Flags
    entries: Mapping[str, int]
    context: ImageContext
    pools: tuple[PoolEntry, ...]  # with the empty one at the end, as it is stored
    relocations: tuple[Slot, ...] = field(repr=False)
    got: tuple[Slot, ...] = field(repr=False)
    note: ImageNote | None = None

    @property
    def header_bytes(self) -> int:
        return 4 * (fmt.SECTION_WORDS + len(self.entries))

    @property
    def ro_bytes(self) -> int:
        return offset(self.sections["data_data"])

    @property
    def rw_bytes(self) -> int:
        return offset(self.sections["bss_end"])

    @property
    def xip_bytes(self) -> int:
        """RAM that the image needs when its code stays where it is."""
        return align(self.rw_bytes)

    @property
    def copy_bytes(self) -> int:
        return align(self.xip_bytes + self.ro_bytes)

    @property
    def params_offset(self) -> int:
        return offset(self.sections["params_offset"])

    @property
    def split(self) -> bool:
        """Its parameters are in another file; a network may also have none."""
        return self.params_offset == 0 and self.context.params_file_bytes > 0

    @property
    def params_bytes(self) -> int:
        """Bytes of parameters in this file."""
        return len(self.data) - self.params_offset if self.params_offset else 0

    @property
    def code_bytes(self) -> int:
        """Up to the parameters."""
        return len(self.data) - self.params_bytes

    @property
    def abi(self) -> Abi | None:
        return abi_of(self.context.number, self.context.dev)

    def size_of(self, name: str) -> int:
        """The size of the section `data`, `bss`, `got` or `rel`."""
        return offset(self.sections[f"{name}_end"]) - offset(self.sections[f"{name}_start"])


class _ImageReader:
    """Words and texts by position; what lies outside the file is an error that says what was looked for."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where = data, where

    def fail(self, what: str) -> InputError:
        rule = "a relocatable image begins with NBIN and keeps all that its header names inside the file"
        return InputError(what, where=self.where, rule=rule, remedy="the file is damaged, cut off, or another one")

    def word(self, at: int, what: str) -> int:
        if not 0 <= at <= len(self.data) - 4:
            raise self.fail(f"{what} lies at {at:#x}, behind the end at {len(self.data):#x}")
        return int(struct.unpack_from("<I", self.data, at)[0])

    def words(self, at: int, count: int, what: str) -> tuple[int, ...]:
        if not 0 <= at <= len(self.data) - 4 * count:
            raise self.fail(f"{what} lies at {at:#x} to {at + 4 * count:#x}, behind the end at {len(self.data):#x}")
        return struct.unpack_from(f"<{count}I", self.data, at)

    def text(self, address: int, what: str) -> str:
        if address == 0:
            return ""
        at = offset(address)
        if segment(address) != ImageBase.FLASH or at >= len(self.data):
            raise self.fail(f"{what} is a text at {address:#010x}, which is not among the constants")
        raw = self.data[at : at + _MAX_TEXT].split(b"\0")[0]
        return "".join(c if c.isprintable() else "?" for c in raw.decode("latin-1"))


def read_image(data: bytes, where: str = "image") -> Image:
    reader = _ImageReader(data, where)
    if len(data) > fmt.MAX_IMAGE_BYTES:
        raise reader.fail(f"{len(data)} bytes are more than offsets of 28 bits can reach")
    words = reader.words(0, fmt.SECTION_WORDS, "the header")
    sections = dict(zip(fmt.SECTIONS, words, strict=True))
    if sections["magic"] != fmt.MAGIC:
        raise reader.fail(f"it begins with {sections['magic']:#010x}, not with NBIN ({fmt.MAGIC:#010x})")
    _check_sections(reader, sections)
    entries = _entries(reader)
    base = offset(sections["data_data"])
    at = base + offset(entries["ctx"])
    return Image(
        data=data,
        sections=sections,
        flags=Flags.of(sections["flags"]),
        entries=entries,
        context=_context(reader, at),
        pools=tuple(_pools(reader, base + offset(sections["params_start"]))),
        relocations=tuple(_relocations(reader, sections)),
        got=tuple(_got(reader, sections)),
        note=_note(reader, 4 * (fmt.SECTION_WORDS + len(entries))),
    )


def _check_sections(reader: _ImageReader, sections: Mapping[str, int]) -> None:
    expected = {
        ImageBase.RAM: ("data_start", "data_end", "bss_start", "bss_end", "got_start", "got_end", "params_start"),
        ImageBase.FLASH: ("data_data", "rel_start", "rel_end"),
    }
    for kind, names in expected.items():
        for name in names:
            if segment(sections[name]) != kind:
                raise reader.fail(f"{name} is {sections[name]:#010x}, not an offset in {kind.name}")
    for name in ("data", "bss", "got", "rel"):
        if sections[f"{name}_end"] < sections[f"{name}_start"]:
            raise reader.fail(f"{name} ends before it begins")
    if sections["data_start"] != ImageBase.RAM.base:
        raise reader.fail(f"data begins at {sections['data_start']:#010x}, not at {ImageBase.RAM.base:#010x}")
    copied = offset(sections["data_data"]) + offset(sections["bss_start"])
    for name, end in (("data", copied), ("rel", offset(sections["rel_end"])), ("params", sections["params_offset"])):
        if end > len(reader.data):
            raise reader.fail(f"{name} reaches to {end:#x}, behind the end at {len(reader.data):#x}")


def _entries(reader: _ImageReader) -> dict[str, int]:
    """Ten functions and the context; from 1.1.3 on two functions more. The context is the one that lies in RAM."""
    names = ENTRIES_10 if segment(reader.word(4 * 23, "the context")) == ImageBase.RAM else ENTRIES_12
    if len(names) > len(ENTRIES_10) and _note(reader, 4 * (fmt.SECTION_WORDS + len(names))) is not None:
        names = ENTRIES_12_OURS
    words = reader.words(4 * fmt.SECTION_WORDS, len(names), "the entry points")
    entries = dict(zip(names, words, strict=True))
    if segment(entries["ctx"]) != ImageBase.RAM:
        raise reader.fail(f"the context is at {entries['ctx']:#010x}, not in RAM")
    return entries


def _context(reader: _ImageReader, at: int) -> ImageContext:
    words = reader.words(at, 15, "the context")
    version = words[10]
    abi = abi_of((version >> 24 & 0xFF, version >> 16 & 0xFF, version >> 8 & 0xFF), words[11])
    sizes = words[14] if abi is None or abi.context_words > 16 else 0
    return ImageContext(
        c_name=reader.text(words[5], "the name"),
        activations_bytes=words[6],
        params_bytes=words[7],
        ext_ram_bytes=words[8],
        runtime=reader.text(words[9], "the description of the runtime"),
        version=version,
        dev=words[11],
        params_file_bytes=words[12],
        params_crc32=words[13],
        buffer_info_bytes=sizes & 0xFF,
        epoch_item_bytes=sizes >> 8 & 0xFF,
        c_name_address=words[5],
        runtime_address=words[9],
    )


def _pools(reader: _ImageReader, at: int) -> Iterator[PoolEntry]:
    for _ in range(fmt.MAX_POOLS + 1):
        name, flags, file_offset, destination, size = reader.words(at, fmt.POOL_WORDS, "the table of memory pools")
        yield PoolEntry(reader.text(name, "a pool"), flags, file_offset, destination, size, name)
        at += 4 * fmt.POOL_WORDS
        if not name:
            return
    raise reader.fail(f"the table of memory pools has no end within {fmt.MAX_POOLS} entries")


def _relocations(reader: _ImageReader, sections: Mapping[str, int]) -> Iterator[Slot]:
    start, end = offset(sections["rel_start"]), offset(sections["rel_end"])
    for where in reader.words(start, (end - start) // 4, "the relocation list"):
        base = 0 if segment(where) == ImageBase.FLASH else offset(sections["data_data"])
        yield Slot(where, reader.word(base + offset(where), "a relocated word"))


def _got(reader: _ImageReader, sections: Mapping[str, int]) -> Iterator[Slot]:
    start, end = offset(sections["got_start"]), offset(sections["got_end"])
    base = offset(sections["data_data"])
    for index, value in enumerate(reader.words(base + start, (end - start) // 4, "the GOT")):
        yield Slot(ImageBase.RAM.base + start + 4 * index, value)


def _note(reader: _ImageReader, at: int) -> ImageNote | None:
    if at + 4 * fmt.NOTE_WORDS > len(reader.data):
        return None
    words = reader.words(at, fmt.NOTE_WORDS, "the note")
    if words[0] != fmt.NOTE_MAGIC:
        return None
    model = reader.data[at + 20 : at + 20 + fmt.HASH_BYTES]
    return ImageNote(words[1], words[2], words[3], words[4] & 0xFF, words[4] >> 8 & 0xFF, model, at)


def code_crc32(data: bytes, note_offset: int) -> int:
    """Works out the checksum of the code part, with the word that holds the result counted as zero."""
    at = note_offset + 12
    return zlib.crc32(data[at + 4 :], zlib.crc32(b"\0\0\0\0", zlib.crc32(data[:at])))


def c_files(image: Image, name: str) -> dict[str, bytes]:
    rows = (", ".join(f"0x{b:02x}" for b in image.data[k : k + 16]) for k in range(0, len(image.data), 16))
    words = {
        **vars(image.context),
        **{"name": name, "NAME": name.upper()},
        **{"xip_bytes": image.xip_bytes, "copy_bytes": image.copy_bytes, "image_bytes": len(image.data)},
        "body": ",\n".join(f"  {row}" for row in rows),
        "pools": [
            {
                **{"k": k, "pool": pool.name, "flags": f"{pool.flags:X}", "label": pool.label()},
                **{"offset": pool.file_offset, "destination": f"{pool.destination:X}", "size": pool.size_bytes},
            }
            for k, pool in enumerate(image.pools[:-1])
        ],
    }
    return {f"{name}_rel.{kind}": render(f"reloc/rel.{kind}", words).encode() for kind in ("h", "c")}


@dataclass(frozen=True)
class Check:
    """`good` is None where the file alone cannot tell."""

    what: str
    good: bool | None
    seen: str


def checks(image: Image, params: bytes | None = None) -> list[Check]:
    """All of them, in the order in which a loader meets them; `params` is the second file of a split image."""
    return [*_header(image), *_runtime(image), *_words(image), *_params(image, params), *_own(image)]


def _header(image: Image) -> Iterator[Check]:
    flags = image.flags
    known = (flags.major, flags.minor) == (fmt.MAJOR, fmt.MINOR)
    yield Check("format", known, f"version {flags.major}.{flags.minor}")
    yield Check("CPU", flags.cpu in fmt.CPUS, fmt.CPUS.get(flags.cpu, f"part {flags.cpu:#05x}"))
    yield Check("float ABI", flags.float_abi == 2, fmt.FLOAT_ABIS.get(flags.float_abi, str(flags.float_abi)))
    bad = [name for name, value in image.entries.items() if name != "ctx" and not _is_code(image, value)]
    yield Check("entry points", not bad, f"outside the code: {', '.join(bad)}" if bad else "all in the code")


def _is_code(image: Image, value: int) -> bool:
    inside = image.header_bytes <= offset(value) < image.ro_bytes
    return segment(value) == ImageBase.FLASH and bool(value & 1) and inside


def _runtime(image: Image) -> Iterator[Check]:
    context = image.context
    number = ".".join(map(str, context.number))
    abi = image.abi
    core = f" (Core {abi.core}, {len(abi.callbacks)} callbacks)" if abi else ", a release that was not published"
    yield Check("runtime", abi is not None, f"LL_ATON {number}-{context.dev}{core}")
    if abi is not None:
        same = abi.header_words * 4 == image.header_bytes
        yield Check("entry table", same, f"{len(image.entries)} words, the release has {len(abi.entries)}")
    if context.buffer_info_bytes:
        item = 48 if image.flags.debug_info else 20
        same = (context.buffer_info_bytes, context.epoch_item_bytes) == (56, item)
        yield Check("struct sizes", same, f"{context.buffer_info_bytes} and {context.epoch_item_bytes} bytes")


def _words(image: Image) -> Iterator[Check]:
    for name, slots in (("relocations", image.relocations), ("GOT", image.got)):
        wrong = [slot for slot in slots if slot.value and not _points_inside(image, slot.value)]
        count = (
            f"{len(wrong)} of {len(slots)} point nowhere, first at {wrong[0].where:#010x}" if wrong else str(len(slots))
        )
        yield Check(name, not wrong, count)
    stray = [slot for slot in image.relocations if segment(slot.where) != ImageBase.RAM]
    where = f"{len(stray)} in the code: only COPY works" if stray else "all in the data"
    yield Check("patched words", not stray, where)
    if not image.relocations:
        words = (word for word in _data_words(image) if segment(word) in (ImageBase.FLASH, ImageBase.RAM))
        pointers = sum(_points_inside(image, word) for word in words)
        seen = f"empty, but {pointers} words of the data look like pointers: a linker's output, not finished"
        yield Check("relocation list", pointers == 0, seen if pointers else "empty, and no word needs it")


def _data_words(image: Image) -> Iterator[int]:
    start, size = image.ro_bytes, image.size_of("data") // 4 * 4
    for at in range(start, start + size, 4):
        yield int.from_bytes(image.data[at : at + 4], "little")


def _points_inside(image: Image, value: int) -> bool:
    kind, at = segment(value), offset(value)
    if kind == ImageBase.RAM:
        return at <= image.rw_bytes
    if kind == ImageBase.FLASH:
        return at <= image.ro_bytes
    return kind in (ImageBase.PARAM_0, ImageBase.PARAM_1)


def _params(image: Image, params: bytes | None) -> Iterator[Check]:
    for pool in image.pools[:-1]:
        good = pool.type in (PoolType.RELOC, PoolType.COPY, PoolType.RESET) and pool.id < 2
        if pool.type == PoolType.RELOC and pool.id == 0:
            good = good and pool.data == PoolData.PARAM and not pool.attributes & fmt.WRITE
        yield Check(f"pool {pool.name}", good, pool.label())
    found = params if image.split else image.data[image.params_offset :]
    context = image.context
    if found is None:
        yield Check("parameters", None, f"in another file of {context.params_file_bytes:,} bytes")
        return
    enough = len(found) >= context.params_file_bytes
    yield Check("parameters", enough, f"{len(found):,} bytes, needed are {context.params_file_bytes:,}")
    behind = len(found) - context.params_file_bytes  # images of ST count the programs in front of them apart
    crcs = {zlib.crc32(found[at : at + context.params_file_bytes]) for at in {0, max(0, behind)}}
    yield Check("checksum of the parameters", context.params_crc32 in crcs, f"{context.params_crc32:#010x}")


def _own(image: Image) -> Iterator[Check]:
    note = image.note
    if note is None:
        yield Check("checksum of the code", None, "none: only images of atonc have one")
        return
    crc = code_crc32(image.data[: note.code_bytes], note.offset)
    yield Check("checksum of the code", crc == note.code_crc32, f"{note.code_crc32:#010x}, found {crc:#010x}")
    yield Check("callbacks used", note.callbacks <= 7, f"the first {note.callbacks}")
