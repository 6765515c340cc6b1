"""The memories that a network needs: ranges, what must be in them, and the list that the runtime checks."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import BufferKind
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.mpool import MemoryPool


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


# ---------------------------------------------------------------------------------------------------------------- C

_TABLE = """#if defined(ATONC_RUNTIME)
#include "atonc_runtime.h"

/* Checked when the network is initialised. With ATONC_CHECK_IMAGES 0 constants are not read for that. */
#if !defined(ATONC_CHECK_IMAGES)
#  define ATONC_CHECK_IMAGES 1
#endif
static const atonc_memory_t atonc_memories[] = {{
{rows}  {{ .size = 0 }},
}};
#endif
"""


def table(network: CNetwork) -> str:
    rows = "".join(f"  {_row(network, part)}, /* {names.word(part.pool.name)} */\n" for part in ranges(network))
    return _TABLE.format(rows=rows)


def _row(network: CNetwork, part: PoolRange) -> str:
    base, size = network.place(part.start), part.size_bytes
    if not part.data:
        return f"{{ .base = {base}, .size = {size}U }}"
    return (
        f"{{ .base = {base}, .size = {size}U, .initialised = {size}U, "
        f".crc32 = ATONC_CHECK_IMAGES ? 0x{part.crc:08x}U : 0U }}"
    )


CHECK = """#if defined(ATONC_RUNTIME)
  if (!atonc_check_version(LL_ATON_VERSION_MAJOR, LL_ATON_VERSION_MINOR, LL_ATON_VERSION_MICRO) ||
      !atonc_check_memories(atonc_memories)) {
    return false;
  }
#endif
"""
