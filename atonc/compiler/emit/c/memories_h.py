"""`<name>_memories.h`: what the firmware must provide, as macros and as checks that it may switch on."""

from __future__ import annotations

from atonc.compiler.emit.c import images, names, relative
from atonc.compiler.emit.c.memories import PoolRange, ranges
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.c.pool_comments import file_postfix
from atonc.compiler.place.pools import is_external
from atonc.compiler.place.usage import Use
from atonc.machine.hw.mpool import MemoryPool

_HEAD = """/* {file}: the memories that the network needs, written by {tool}. Do not edit.
 *
 * A memory that nobody has switched on reads as zeros or stops the bus, and a network on it fails without a word.
 * So before the first inference the firmware
 *   - switches on and maps every memory listed here (clock and power of the AXISRAM banks, XSPI in memory-mapped mode,
 *     NPU cache where a memory lies outside the chip);
 *   - puts the image of each memory with constants at its address;
 *   - keeps its own data, stack and frame buffers out of the ranges marked as working memory.
 *
 * To have this checked by the compiler:
 *   1. define ATONC_CHECK_MEMORIES (for instance -DATONC_CHECK_MEMORIES=1);
 *   2. beside the code that switches a memory on, define its ATONC_HAVE_... as 1, in a header that is included first
 *      or on the command line. A memory that is used but not promised is then an error.
 *   {name}.c includes this file if it finds it.
 * To have fixed addresses of the firmware checked against the working memory:
 *   ATONC_{net}_KEEPS_CLEAR(0x34200000, 0x34300000);
 * At run time: ATONC_{net}_MEMORIES(X) expands X(name, address, bytes, initialised, crc32) for every range, to fill
 * tables of MPU or RIF regions for instance. With atonc's own runtime the network checks address, contents and version
 * when it is initialised (atonc_runtime.h).
 */
"""


def text(network: CNetwork) -> str:
    net = names.macro(network.name)
    parts = ranges(network)
    file = f"{network.name}_memories.h"
    guard = f"ATONC_{net}_MEMORIES_H"
    sections = (
        _HEAD.format(file=file, tool=network.tool, name=network.name, net=net),
        f"#ifndef {guard}\n#define {guard}\n",
        relative.declarations(network),
        _ram(network, net),
        *(_section(network, net, pool, [p for p in parts if p.pool == pool]) for pool in _used(network, parts)),
        _list(network, net, parts),
        _clear(net, [part for part in parts if part.pool.absolute]),
        _checks(network, parts),
        "#endif\n",
    )
    return "\n".join(section for section in sections if section)


def _ram(network: CNetwork, net: str) -> str:
    """The count of all views. Ranges below may have gaps inside, which nobody uses; these figures have none."""
    memory = network.memory
    lines = [
        "/* What the network takes of RAM, in bytes that some buffer has at some time: in all, and by use. The ranges",
        " * of working memory below go from the first such byte of a memory to the last. */",
        f"#define ATONC_{net}_RAM_BYTES {memory.ram_bytes}UL",
        *(f"#define ATONC_{net}_RAM_{use.upper()}_BYTES {memory.ram_by_use.get(use, 0)}UL" for use in Use),
        f"#define ATONC_{net}_SPILLED_BYTES {memory.spilled_bytes}UL /* of the activations, outside the chip */",
    ]
    return "\n".join(lines) + "\n"


def have(pool: MemoryPool) -> str:
    return f"ATONC_HAVE_{names.word(pool.name).upper()}"


def _used(network: CNetwork, parts: list[PoolRange]) -> list[MemoryPool]:
    return [pool for pool in network.pools if any(part.pool == pool for part in parts)]


def _section(network: CNetwork, net: str, pool: MemoryPool, parts: list[PoolRange]) -> str:
    label = names.word(pool.name).upper()
    lines = [f"/* {names.word(pool.name)}: {_advice(network, pool, parts)} */"]
    for kind, chosen in (("CONSTANTS", [p for p in parts if p.data]), ("WORK", [p for p in parts if not p.data])):
        for k, part in enumerate(chosen):
            key = f"ATONC_{net}_{label}_{kind}{f'_{k}' if k else ''}"
            lines += [f"#define {key}_ADDRESS {network.place(part.start)}", f"#define {key}_BYTES {part.size_bytes}UL"]
            if part.data:
                lines.append(f"#define {key}_CRC32 0x{part.crc:08x}UL")
    return "\n".join(lines) + "\n"


def _advice(network: CNetwork, pool: MemoryPool, parts: list[PoolRange]) -> str:
    said = []
    if any(not part.data for part in parts):
        said.append("working memory")
    if any(part.data for part in parts):
        file = f"{network.name}_atonbuf.{file_postfix(pool)}.raw"
        where = f"at {pool.base:#010x}" if pool.absolute else "wherever the firmware has it"
        said.append(f"constants, {file} {where}")
    if pool.writable and any(part.data for part in parts):
        said.append(f"to be loaded after each reset, see {images.loader_function(network)}")
    if is_external(pool):
        said.append("outside the chip, constants pass through the NPU cache")
    return "; ".join(said)


def _list(network: CNetwork, net: str, parts: list[PoolRange]) -> str:
    rows = [
        f"  X({names.word(p.pool.name)}, {network.place(p.start)}, {p.size_bytes}UL, {int(bool(p.data))}, "
        f"0x{p.crc if p.data else 0:08x}UL)"
        for p in parts
    ]
    return " \\\n".join([f"#define ATONC_{net}_MEMORIES(X)", *rows]) + "\n"


def _clear(net: str, parts: list[PoolRange]) -> str:
    """Beyond `start` or before `end`, for every range of working memory."""
    tests = [f"((end) <= {names.address(p.start)} || (start) >= {names.address(p.end)})" for p in parts if not p.data]
    tested = " && \\\n    ".join(tests or ["1"])
    return (
        f"#define ATONC_{net}_KEEPS_CLEAR(start, end) \\\n  _Static_assert( \\\n    {tested}, \\\n"
        f'    "the range overlaps the working memory of network {net}")\n'
    )


def _at(pool: MemoryPool) -> str:
    return f" at {pool.base:#010x}" if pool.absolute else ""


def _checks(network: CNetwork, parts: list[PoolRange]) -> str:
    lines = ["#if defined(ATONC_CHECK_MEMORIES) && ATONC_CHECK_MEMORIES"]
    for pool in _used(network, parts):
        name = names.word(pool.name)
        lines += [
            f"#  if !defined({have(pool)})",
            f'#    error "network {network.name} uses {name}{_at(pool)}: switch it on, define {have(pool)}"',
            "#  endif",
        ]
    return "\n".join([*lines, "#endif"]) + "\n"
