"""Parts of memory pools: what is left when others have taken theirs, and where something gets a place of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.place import BoardMemory
from atonc.compiler.place.pools import outside_chip
from atonc.delivery.application.types import Span
from atonc.machine.base.errors import CapacityError
from atonc.machine.hw.limits import PREFETCH_BYTES, XSPI_TAIL
from atonc.machine.hw.mpool import MemoryPool

LINE = 64  # no two owners share a line of any cache
BEHIND = PREFETCH_BYTES + XSPI_TAIL  # what engines may read ahead outside the chip
_LEAST_BYTES = 4096  # a smaller piece of a pool holds nothing worth an epoch's while


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same bytes: sorted, whole lines, as one where they touch."""
    found: list[Span] = []
    for start, end in sorted((start // LINE * LINE, -(-end // LINE) * LINE) for start, end in spans if end > start):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def size_of(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in joined(spans))


def left_of(span: Span, taken: Iterable[Span]) -> Iterator[Span]:
    """What is free of a span, in whole lines."""
    yield from gaps(span, joined(taken))


def gaps(span: Span, taken: Iterable[Span]) -> Iterator[Span]:
    """What is free of a span, to the byte; what is taken comes in order."""
    cursor, stop = span
    for start, end in taken:
        if start < stop and end > cursor:
            if start > cursor:
                yield cursor, start
            cursor = max(cursor, end)
    if cursor < stop:
        yield cursor, stop


def inside(span: Span, wanted: Iterable[Span]) -> Iterator[Span]:
    """What of a span is among those that are wanted."""
    for start, end in joined(wanted):
        low, high = max(start, span[0]), min(end, span[1])
        if low < high:
            yield low, high


def without(memory: BoardMemory, taken: Sequence[Span]) -> BoardMemory:
    """The RAM that is left; and of the flash the largest part that is, since all constants lie in one piece."""
    pools = tuple(pool if pool.writable or memory.is_filled(pool) else _largest(pool, taken) for pool in memory.pools)
    return _cut(replace(memory, pools=pools), lambda span: left_of(span, taken))


def _largest(pool: MemoryPool, taken: Sequence[Span]) -> MemoryPool:
    """The pool itself where nothing of it is taken."""
    found = list(left_of((pool.base, pool.base + pool.size_bytes), taken))
    if not found:
        raise CapacityError("all of it is reserved", where=f"memory {pool.name}", rule="networks need flash")
    start, end = max(found, key=lambda span: (span[1] - span[0], -span[0]))
    return replace(pool, base=start, size_bytes=end - start)


def within(memory: BoardMemory, wanted: Sequence[Span], least: int = _LEAST_BYTES) -> BoardMemory:
    """The RAM of these spans, and what engines may read ahead behind each, but for a gap that this would close: it is
    somebody else's. Pieces below `least` bytes are left out."""
    spans, roomy = joined(wanted), list[Span]()
    for number, (start, end) in enumerate(spans, 1):
        ((_, ahead),) = joined([(start, end + (BEHIND if outside_chip(start) else PREFETCH_BYTES))])
        closes = number < len(spans) and spans[number][0] <= ahead
        roomy.append((start, end if closes else ahead))
    return _cut(memory, lambda span: inside(span, roomy), least)


def only_on_chip(memory: BoardMemory, wanted: Sequence[Span]) -> BoardMemory:
    """Exactly these spans of the RAM on the chip, however small."""
    return _cut(memory, lambda span: [span] if outside_chip(span[0]) else inside(span, wanted), least=1)


def _cut(memory: BoardMemory, pieces: Callable[[Span], Iterable[Span]], least: int = _LEAST_BYTES) -> BoardMemory:
    pools: list[MemoryPool] = []
    for pool in memory.pools:
        if not pool.writable:
            pools.append(pool)
            continue
        homes = memory.pinned.values()
        found = [  # large enough for a buffer, or the place of one
            (start, end)
            for start, end in pieces((pool.base, pool.base + pool.size_bytes))
            if end - start >= least or any(start <= low and high <= end for low, high in homes)
        ]
        for number, (start, end) in enumerate(found, 1):
            name = pool.name if number == 1 else f"{pool.name}_{number}"
            pools.append(replace(pool, name=name, base=start, size_bytes=end - start))
    return replace(memory, pools=tuple(pools))


def with_flash(memory: BoardMemory, start: int, end: int) -> BoardMemory:
    """Constants go into this part of the flash only."""
    flash = flash_of(memory)
    others = tuple(pool for pool in memory.pools if pool.writable or memory.is_filled(pool))
    return replace(memory, pools=(*others, replace(flash, base=start, size_bytes=end - start)))


def with_shared(memory: BoardMemory, spans: Sequence[Span], constants_at: Mapping[bytes, int]) -> BoardMemory:
    """Parts of the flash in which constants lie that other networks read too."""
    flash = flash_of(memory)
    added = tuple(
        replace(flash, name=f"{flash.name}_{start:08x}", postfix=f"{flash.symbol}_{start:08x}", base=start)
        for start, _ in spans
    )
    sized = tuple(replace(pool, size_bytes=end - start) for pool, (start, end) in zip(added, spans, strict=True))
    return replace(memory, pools=(*memory.pools, *sized), constants_at=constants_at)


def flash_of(memory: BoardMemory) -> MemoryPool:
    found = [pool for pool in memory.pools if not pool.writable and not memory.is_filled(pool)]
    if len(found) != 1:
        raise CapacityError(
            f"{len(found)} memory pools for constants",
            where=memory.name,
            rule="an application keeps the constants of all its networks in one flash",
            remedy="take a board or a pool set with one pool that is not written",
        )
    return found[0]


def places_at_an_end(memory: BoardMemory, sizes: Sequence[int], low: bool = False) -> list[Span]:
    """A place for each in the NPU's own RAM, where engines may start anywhere: from its end on, or from its start
    (`low`), so that what is left is in one piece. Engines may read ahead behind each."""
    free = _npu_ram(memory, low)
    found: list[Span] = []
    for size in sizes:
        need = places_from(0, [size])[0][1]
        number = next((n for n, (start, end) in enumerate(free) if end - start >= need), None)
        if number is None:
            raise CapacityError(
                f"{size:,} bytes that must survive find no place in the NPU's own RAM",
                where=memory.name,
                remedy="let fewer inputs and outputs survive, or reserve less of npuRAM3 to npuRAM6",
            )
        start, end = free[number]
        found.append((start, start + need) if low else (end - need, end))
        free[number] = (start + need, end) if low else (start, end - need)
    return found


def place_for_code(memory: BoardMemory, size: int) -> Span | None:
    """So many bytes of the chip for the processor: at the end of a pool, and not of the NPU's own RAM if others do."""
    need = -(-size // LINE) * LINE
    pools = sorted(memory.on_chip, key=lambda pool: (memory.is_npu_ram(pool), -pool.base))
    ends = (pool.base + pool.size_bytes for pool in pools if pool.size_bytes >= need)
    return next(((end - need, end) for end in ends), None)


def places_from(start: int, sizes: Sequence[int]) -> list[Span]:
    """A place for each, one behind the other."""
    found: list[Span] = []
    for size in sizes:
        found.append((start, start + -(-(size + PREFETCH_BYTES) // LINE) * LINE))
        start = found[-1][1]
    return found


def region_at_an_end(memory: BoardMemory, size: int, low: bool = False) -> list[Span]:
    """So many bytes of the NPU's own RAM from its end, or from its start; fewer where it has not so many."""
    found: list[Span] = []
    for start, end in _npu_ram(memory, low):
        need = min(end - start, -(-size // LINE) * LINE)
        if need > 0:
            found.append((start, start + need) if low else (end - need, end))
            size -= need
    return found


def _npu_ram(memory: BoardMemory, low: bool) -> list[Span]:
    pools = [(pool.base, pool.base + pool.size_bytes) for pool in memory.on_chip if memory.is_npu_ram(pool)]
    return sorted(pools, reverse=not low)
