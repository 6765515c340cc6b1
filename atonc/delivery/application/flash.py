"""One image of the flash for all networks: a slot for each, so that one can be replaced without the others."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from atonc.compiler.emit.c import memories
from atonc.compiler.emit.c.memories import PoolRange
from atonc.delivery.application.types import FlashSlot
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.mpool import MemoryPool

ERASED = b"\xff"  # what flash reads before it is programmed


@dataclass(frozen=True)
class SlotContents:
    """The constants of a network, from the start of its slot."""

    slot: FlashSlot
    data: bytes

    @property
    def crc32(self) -> int:
        return zlib.crc32(self.data)


def flash_image(contents: Sequence[SlotContents]) -> tuple[int, bytes]:
    """The first address, and everything from there to the last constant; nothing lies between the slots."""
    ordered = sorted((one for one in contents if one.data), key=lambda one: one.slot.start)
    if not ordered:
        return 0, b""
    image = bytearray()
    base = ordered[0].slot.start
    for one in ordered:
        image += ERASED * (one.slot.start - base - len(image))
        image += one.data
    return base, bytes(image)


def hex_text(contents: Sequence[SlotContents], pool: MemoryPool) -> bytes:
    """The same as Intel HEX, without what lies between."""
    ordered = sorted((one for one in contents if one.data), key=lambda one: one.slot.start)
    parts = [PoolRange(pool, one.slot.start, one.data, len(one.data)) for one in ordered]
    return "".join(memories.hex_lines(parts)).encode()


def linker_lines(contents: Sequence[SlotContents]) -> Iterator[str]:
    yield "/* Where the networks of the application lie in flash, written by atonc: INCLUDE it in a linker script."
    yield " * app_flash.bin and app_flash.hex have the contents; a slot is larger than what is in it, so that the next"
    yield " * version of a network finds room. */"
    for one in contents:
        start, end = f"_app_flash_{one.slot.network}_start", f"_app_flash_{one.slot.network}_end"
        yield f"PROVIDE({start} = {one.slot.start:#010x}); PROVIDE({end} = {one.slot.end:#010x});"
    first = min((one.slot.start for one in contents), default=0)
    last = max((one.slot.end for one in contents), default=0)
    yield f"PROVIDE(_app_flash_start = {first:#010x}); PROVIDE(_app_flash_end = {last:#010x});"
