"""The memories that a network needs: ranges, what must be in them, and how files and the runtime say so.

Initial contents are files of raw bytes, Intel HEX, and C arrays for what lives in RAM.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator
from itertools import groupby

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.place.pools import is_external
from atonc.compiler.place.types import Placed
from atonc.compiler.place.usage import Use
from atonc.compiler.plan.types import BufferKind
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import Words, render
from atonc.machine.hw.limits import CPU_CACHE_LINE
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.mpool import MemoryPool

_ROW = 32
_BANK = 1 << 16


@dataclass(frozen=True)
class PoolRange:
    """A part of a pool that is used in one way."""

    pool: MemoryPool
    start: int
    data: bytes = b""  # what must be there before the first inference; empty: working memory
    size_bytes: int = 0

    @property
    def end(self) -> int:
        return self.start + self.size_bytes

    encrypted: bool = False  # before it goes into flash: nobody knows yet what will be there

    @property
    def crc(self) -> int:
        """0: not to be checked."""
        return 0 if self.encrypted else zlib.crc32(self.data)


def ranges(network: CNetwork) -> list[PoolRange]:
    """Lists the used ranges by address; constants and working memory apart."""
    found = [*constant_ranges(network), *working_ranges(network)]
    return sorted(found, key=lambda part: (part.start, part.end))


@memoise
def constant_ranges(network: CNetwork) -> tuple[PoolRange, ...]:
    """Neighbouring constants together, also across the gaps that alignment leaves. Most files ask for them."""
    return tuple(_constant_ranges(network))


def _constant_ranges(network: CNetwork) -> Iterator[PoolRange]:
    homes = sorted(network.constants(), key=lambda home: home.address)
    working = sorted(home.address for home in _working(network))
    run: list[Placed] = []
    for home in homes:
        split = run and (_between(working, run[-1].end, home.address) or _kind(network, run[0]) != _kind(network, home))
        if split:
            yield _constants(network, run)
            run = []
        run.append(home)
    if run:
        yield _constants(network, run)


def working_ranges(network: CNetwork) -> Iterator[PoolRange]:
    """One range per pool, from the first byte used to the last. Engines may read a little further: placement keeps
    that inside the pool, and whoever lives there does not notice."""
    homes = list(_working(network))
    for pool in network.pools:
        end = pool.base + pool.size_bytes
        inside = [home for home in homes if home.address < end and home.end > pool.base]
        if inside:
            start = max(pool.base, min(home.address for home in inside))
            stop = min(end, max(home.end for home in inside))
            yield PoolRange(pool, start, size_bytes=stop - start)


def _working(network: CNetwork) -> Iterator[Placed]:
    for name, home in network.program.placed.items():
        if home.buffer.kind != BufferKind.CONSTANT and network.user_of(name) is None and home.buffer.size_bytes:
            yield home


def _between(starts: list[int], low: int, high: int) -> bool:
    """Whether one of the starts, which ascend, lies there."""
    first = bisect_left(starts, low)
    return first < len(starts) and starts[first] < high


def _kind(network: CNetwork, home: Placed) -> tuple[MemoryPool | None, bool]:
    """What may lie in one range: constants of one pool, encrypted or not."""
    region = network.program.encrypted
    return network.pool_at(home.address), region is not None and region.meets(home.address, home.end)


def _constants(network: CNetwork, homes: list[Placed]) -> PoolRange:
    pool, encrypted = _kind(network, homes[0])
    assert pool is not None, "placement puts constants into pools"
    start, end = homes[0].address, max(home.end for home in homes)
    if encrypted and network.program.encrypted is not None:
        end = network.program.encrypted.end  # in whole words of the cipher
    image = bytearray(end - start)
    for home in homes:
        image[home.address - start : home.address - start + len(home.buffer.data)] = home.buffer.data
    return PoolRange(pool, start, bytes(image), end - start, encrypted)


# ------------------------------------------------------------------------------------------------------------ images


def by_pool(network: CNetwork) -> dict[MemoryPool, list[PoolRange]]:
    parts = sorted(constant_ranges(network), key=lambda part: part.start)
    return {pool: list(group) for pool, group in groupby(parts, lambda part: part.pool)}


def file_stem(network: CNetwork, pool: MemoryPool) -> str:
    return f"{network.name}_atonbuf.{pool.symbol}"


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


def loader_files(network: CNetwork) -> dict[str, bytes]:
    """A C file that carries these constants and copies them; none where there are none."""
    parts = ram_ranges(network)
    if not parts:
        return {}
    rows = []
    for k, part in enumerate(parts):
        first, last = part.start // CPU_CACHE_LINE * CPU_CACHE_LINE, -(-part.end // CPU_CACHE_LINE) * CPU_CACHE_LINE
        rows.append(
            {
                **{"k": k, "size": part.size_bytes, "start": network.place(part.start)},
                "pool": names.word(part.pool.name),
                "values": names.lines_of((str(byte) for byte in part.data), 32),
                "lines": f"{network.place(first)}, {last - first}U",
            }
        )
    images = ", ".join(f"{file_stem(network, pool)}.raw" for pool in dict.fromkeys(part.pool for part in parts))
    text = render("network/ram_constants.c", network.words, images=images, parts=rows)
    return {f"{network.name}_ram_constants.c": text.encode()}


# ----------------------------------------------------------------------------------------------------------------- C


def memories_h(network: CNetwork) -> str:
    """`<name>_memories.h`: what the firmware must provide, as macros and as checks that it may switch on.

    The figures of RAM are the count of all views. Ranges may have gaps inside, which nobody uses; these have none.
    """
    parts, memory = ranges(network), network.memory
    used = [pool for pool in network.pools if any(part.pool == pool for part in parts)]
    rows = [
        f" \\\n  X({names.word(p.pool.name)}, {network.place(p.start)}, {p.size_bytes}UL, {int(bool(p.data))}, "
        f"0x{p.crc if p.data else 0:08x}UL)"
        for p in parts
    ]
    return render(
        "network/memories.h",
        network.words,
        ram_bytes=memory.ram_bytes,
        uses=[{"USE": use.upper(), "bytes": memory.ram_by_use.get(use, 0)} for use in Use],
        spilled_bytes=memory.spilled_bytes,
        pools=[_pool_row(network, pool, [part for part in parts if part.pool == pool]) for pool in used],
        list="".join(rows),
        clear=" && \\\n    ".join(_clear([part for part in parts if part.pool.absolute])),
    )


def _pool_row(network: CNetwork, pool: MemoryPool, parts: list[PoolRange]) -> Words:
    label, rows = names.word(pool.name), list[Words]()
    for kind, chosen in (("CONSTANTS", [p for p in parts if p.data]), ("WORK", [p for p in parts if not p.data])):
        for k, part in enumerate(chosen):
            rows.append(
                {
                    "key": f"{label.upper()}_{kind}{f'_{k}' if k else ''}",
                    **{"start": network.place(part.start), "size": part.size_bytes},
                    **{"initialised": bool(part.data), "crc32": f"0x{part.crc:08x}"},
                }
            )
    return {
        **{"pool": label, "have": have(pool), "at": f" at {pool.base:#010x}" if pool.absolute else ""},
        **{"advice": _advice(network, pool, parts), "parts": rows},
    }


def have(pool: MemoryPool) -> str:
    return f"ATONC_HAVE_{names.word(pool.name).upper()}"


def _advice(network: CNetwork, pool: MemoryPool, parts: list[PoolRange]) -> str:
    said = []
    if any(not part.data for part in parts):
        said.append("working memory")
    if any(part.data for part in parts):
        where = f"at {pool.base:#010x}" if pool.absolute else "wherever the firmware has it"
        said.append(f"constants, {file_stem(network, pool)}.raw {where}")
    if pool.writable and any(part.data for part in parts):
        said.append(f"to be loaded after each reset, see ATONC_Load_Constants_{network.suffix}")
    if is_external(pool):
        said.append("outside the chip, constants pass through the NPU cache")
    return "; ".join(said)


def _clear(parts: list[PoolRange]) -> list[str]:
    """Beyond `start` or before `end`, for every range of working memory."""
    working = [part for part in parts if not part.data]
    tests = [f"((end) <= {names.address(p.start)} || (start) >= {names.address(p.end)})" for p in working]
    return tests or ["1"]


def table_rows(network: CNetwork) -> list[Words]:
    """The list that the runtime checks when the network is initialised."""
    return [
        {
            **{"start": network.place(part.start), "size": part.size_bytes, "pool": names.word(part.pool.name)},
            "contents": f", .initialised = {part.size_bytes}U, .crc32 = ATONC_CHECK_IMAGES ? 0x{part.crc:08x}U : 0U"
            if part.data
            else "",
        }
        for part in ranges(network)
    ]
