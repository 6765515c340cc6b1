"""What a loader would find wrong with an image, and what it cannot find."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from atonc.delivery.reloc import format as fmt
from atonc.delivery.reloc.format import ImageBase, PoolData, PoolType, offset, segment
from atonc.delivery.reloc.image import Image, code_crc32
from atonc.machine.base.frozen import dataclass


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
    yield Check("processor", flags.cpu in fmt.CPUS, fmt.CPUS.get(flags.cpu, f"part {flags.cpu:#05x}"))
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
        pointers = sum(_looks_like_pointer(image, word) for word in _data_words(image))
        seen = f"empty, but {pointers} words of the data look like pointers: a linker's output, not finished"
        yield Check("relocation list", pointers == 0, seen if pointers else "empty, and no word needs it")


def _data_words(image: Image) -> Iterator[int]:
    start, size = image.ro_bytes, image.size_of("data") // 4 * 4
    for at in range(start, start + size, 4):
        yield int.from_bytes(image.data[at : at + 4], "little")


def _looks_like_pointer(image: Image, word: int) -> bool:
    return segment(word) in (ImageBase.FLASH, ImageBase.RAM) and _points_inside(image, word)


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
