"""Initial contents of memories as files: raw bytes, Intel HEX, and C arrays for what lives in RAM."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from atonc.compiler.emit.c import names, relative
from atonc.compiler.emit.c.memories import PoolRange, constant_ranges
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.c.pool_comments import file_postfix
from atonc.machine.hw.mpool import MemoryPool

_ROW = 32
_BANK = 1 << 16


def by_pool(network: CNetwork) -> dict[MemoryPool, list[PoolRange]]:
    parts = sorted(constant_ranges(network), key=lambda part: part.start)
    return {pool: list(group) for pool, group in groupby(parts, lambda part: part.pool)}


def file_stem(network: CNetwork, pool: MemoryPool) -> str:
    return f"{network.name}_atonbuf.{file_postfix(pool)}"


def encrypted_file(network: CNetwork) -> str:
    """The image of which a part is to be encrypted; empty where none is."""
    region = network.program.encrypted
    return next((f"{file_stem(network, p)}.raw" for p in by_pool(network) if region and p.name == region.pool), "")


def raw_files(network: CNetwork) -> dict[str, bytes]:
    """Makes an image of each pool that holds constants, from its base to the last of them."""
    return {f"{file_stem(network, pool)}.raw": _image(pool, parts) for pool, parts in by_pool(network).items()}


def hex_files(network: CNetwork) -> dict[str, bytes]:
    """The same as Intel HEX, with addresses."""
    return {
        f"{file_stem(network, pool)}.hex": "".join(hex_lines(parts)).encode()
        for pool, parts in by_pool(network).items()
    }


def _image(pool: MemoryPool, parts: list[PoolRange]) -> bytes:
    image = bytearray(max(part.end for part in parts) - pool.base)
    for part in parts:
        image[part.start - pool.base : part.end - pool.base] = part.data
    return bytes(image)


def hex_lines(parts: list[PoolRange]) -> Iterator[str]:
    bank = -1
    for part in parts:
        for offset in range(0, part.size_bytes, _ROW):
            start = part.start + offset
            row = part.data[offset : offset + _ROW]
            while row:
                if start // _BANK != bank:
                    bank = start // _BANK
                    yield _record(0, 4, bank.to_bytes(2, "big"))
                room = _BANK - start % _BANK
                yield _record(start % _BANK, 0, row[:room])
                start, row = start + len(row[:room]), row[room:]
    yield _record(0, 1, b"")


def _record(address: int, kind: int, data: bytes) -> str:
    body = bytes((len(data),)) + address.to_bytes(2, "big") + bytes((kind,)) + data
    return f":{(body + bytes((-sum(body) & 0xFF,))).hex().upper()}\n"


# --------------------------------------------------------------------------------------------------------------- RAM


def ram_ranges(network: CNetwork) -> list[PoolRange]:
    """Constants in memories that lose them without power."""
    return [part for pool, parts in by_pool(network).items() if pool.writable for part in parts]


_LOADER = """/* {file}: constants of the network that live in RAM, written by {tool}. Do not edit.
 *
 * Add this file to the firmware and call {function} once, when these memories are ready and before the network is
 * initialised. Or leave it out, and load {images} by other means.
 */

#include <stdint.h>
#include <string.h>

#include "ll_aton_caches_interface.h"

{pools}void {function}(void);

{arrays}void {function}(void)
{{
{body}}}
"""


def loader_files(network: CNetwork) -> dict[str, bytes]:
    """A C file that carries these constants and copies them; none where there are none."""
    parts = ram_ranges(network)
    if not parts:
        return {}
    arrays, body = "", ""
    for index, part in enumerate(parts):
        name, size = f"atonc_constants_{index}", part.size_bytes
        where = network.place(part.start)
        values = names.lines_of((str(byte) for byte in part.data), 32)
        arrays += f"static const uint8_t {name}[{size}] = {{\n{values}}};\n\n"
        body += f"  memcpy((void *){where}, {name}, {size}U); /* {names.word(part.pool.name)} */\n"
        lines = f"{network.place(part.start // 32 * 32)}, {-(-part.end // 32) * 32 - part.start // 32 * 32}U"
        body += f"  LL_ATON_Cache_MCU_Clean_Range({lines});\n  LL_ATON_Cache_NPU_Clean_Invalidate_Range({lines});\n"
    images = ", ".join(f"{file_stem(network, pool)}.raw" for pool in dict.fromkeys(part.pool for part in parts))
    file = f"{network.name}_ram_constants.c"
    text = _LOADER.format(
        file=file, tool=network.tool, function=loader_function(network), images=images, arrays=arrays, body=body,
        pools=relative.declarations(network),
    )  # fmt: skip
    return {file: text.encode()}


def loader_function(network: CNetwork) -> str:
    return f"ATONC_Load_Constants_{network.suffix}"
