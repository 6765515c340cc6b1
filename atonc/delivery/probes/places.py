"""Where the buffers of a probe lie: in the NPU's own RAM, each kind in a bank of its own, unless the probe is about
another memory. Everything begins where the memory begins, so that probes do not depend on each other; what must be in
flash already lies behind what earlier probes have there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from atonc.compiler.place import BoardMemory, Placed
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.machine.base.errors import InternalError
from atonc.machine.hw.limits import CPU_CACHE_LINE, PREFETCH_BYTES
from atonc.machine.hw.mpool import MemoryPool

FLASH, HYPERRAM, CPU_RAM = "octoFlash", "hyperRAM", "cpuRAM2"
_USUAL = {
    BufferKind.INPUT: "npuRAM3",
    BufferKind.OUTPUT: "npuRAM4",
    BufferKind.CONSTANT: "npuRAM5",
    BufferKind.SCRATCH: "npuRAM6",
}


def memory_of(buffer: Buffer, homes: Mapping[str, str]) -> str:
    return homes.get(buffer.name, _USUAL[buffer.kind])


def has_memories(board: BoardMemory, buffers: Iterable[Buffer], homes: Mapping[str, str]) -> bool:
    return {memory_of(buffer, homes) for buffer in buffers} <= {pool.name for pool in board.pools}


def put(
    board: BoardMemory, buffers: Iterable[Buffer], homes: Mapping[str, str], last: int, flash_used: int
) -> dict[str, Placed]:
    """One buffer after the other, each with room for what engines read ahead. `flash_used`: bytes of the flash that
    belong to other probes."""
    pools = {pool.name: pool for pool in board.pools}
    used = {FLASH: -(-flash_used // CPU_CACHE_LINE) * CPU_CACHE_LINE}
    placed = {}
    for buffer in buffers:
        pool = pools[memory_of(buffer, homes)]
        start = used.get(pool.name, 0)
        used[pool.name] = _end(pool, start, buffer)
        placed[buffer.name] = Placed(buffer, pool.base + start, pool.name, 0, last)
    return placed


def _end(pool: MemoryPool, start: int, buffer: Buffer) -> int:
    end = -(-(start + buffer.size_bytes + PREFETCH_BYTES) // CPU_CACHE_LINE) * CPU_CACHE_LINE
    if end > pool.size_bytes:
        raise InternalError(
            f"{buffer.name} does not fit: {end} bytes of {pool.size_bytes}",
            where=pool.name,
            rule="a probe fits the memories that it names",
            remedy="make the probe smaller",
        )
    return end


