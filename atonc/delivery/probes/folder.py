"""A folder that builds to one firmware with these probes in it: sources, runtime, Makefile, flash image, README."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.compiler.emit.c.memories import PoolRange, hex_lines
from atonc.compiler.place import BoardMemory
from atonc.delivery.firmware.building import runtime_folder
from atonc.delivery.probes import table
from atonc.delivery.probes.build import BuiltProbe
from atonc.delivery.probes.places import FLASH
from atonc.delivery.probes.readme import readme

# of the runtime that ships with atonc
_PARTS = (("probe", "*"), ("bare_metal", "*"), ("include", "*.h"), ("src", "*.[ch]"), ("wire", "wire_chip.[ch]"))
FLASH_IMAGE = "probes_flash"


def folder_files(built: Sequence[BuiltProbe], target: BoardMemory) -> dict[str, bytes]:
    """File name -> contents."""
    found: dict[str, bytes] = {}
    for part, pattern in _PARTS:
        found |= {path.name: path.read_bytes() for path in sorted(runtime_folder(part).glob(pattern))}
    found["probes.c"] = table.text(built, target.name).encode()
    found |= _flash_image(built, target)
    found["README.md"] = readme(built, target, FLASH_IMAGE).encode()
    return found


def _flash_image(built: Sequence[BuiltProbe], target: BoardMemory) -> dict[str, bytes]:
    """What must be in flash, as bytes from the beginning of the pool and as Intel HEX; none where nothing must."""
    homes = [home for one in built for home in one.in_flash]
    if not homes:
        return {}
    pool = next(pool for pool in target.pools if pool.name == FLASH)
    ranges = [PoolRange(pool, home.address, home.buffer.data, home.size_bytes) for home in homes]
    image = bytearray(b"\xff" * (max(part.end for part in ranges) - pool.base))
    for part in ranges:
        image[part.start - pool.base : part.end - pool.base] = part.data
    return {f"{FLASH_IMAGE}.raw": bytes(image), f"{FLASH_IMAGE}.hex": "".join(hex_lines(ranges)).encode()}
