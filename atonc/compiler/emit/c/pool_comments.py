"""Comments that list the memory pools, in the form that tools read."""

from __future__ import annotations

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.network import CNetwork
from atonc.machine.hw.mpool import MemoryPool


def pool_comments(network: CNetwork) -> str:
    holding = {pool.name for home in network.constants() if (pool := network.pool_at(home.address)) is not None}
    return "".join(_one(network, k, pool, pool.name in holding) for k, pool in enumerate(network.pools))


def file_postfix(pool: MemoryPool) -> str:
    """What names the pool in files."""
    return pool.symbol


def used_bytes(network: CNetwork, pool: MemoryPool) -> int:
    """Counts the bytes from the base of a pool to the last one that the network keeps in it."""
    end = pool.base + pool.size_bytes
    ends = [min(h.end, end) for h in network.program.placed.values() if h.address < end and h.end > pool.base]
    region = network.program.encrypted
    ends += [region.end] if region is not None and region.pool == pool.name else []
    return max(ends, default=pool.base) - pool.base


def _one(network: CNetwork, index: int, pool: MemoryPool, constants: bool) -> str:
    used = used_bytes(network, pool)
    rights = "READ_WRITE" if pool.writable else "READ_ONLY"
    return (
        f"/* global pool {index} is {amount(used) if used else '?'} */\n"
        f"/* index={index} file postfix={file_postfix(pool)} name={names.word(pool.name)} offset=0x{pool.base:08x}  "
        f"{'absolute' if pool.absolute else 'relative'}_mode size={pool.size_bytes} {rights} "
        f"THROUGHPUT={names.word(pool.throughput)} LATENCY={names.word(pool.latency)} byte width={pool.byte_width} "
        f"freq ratio={pool.freq_ratio:g} cacheable={'ON' if pool.cacheable else 'OFF'} "
        f"read_power={pool.read_power:g} write_power={pool.write_power:g} "
        f"use4initializers={'YES' if constants else 'NO'} */\n"
    )


def amount(size_bytes: int) -> str:
    if size_bytes >= 1 << 20:
        return f"{size_bytes / (1 << 20):.2f} MB"
    return f"{size_bytes / (1 << 10):.2f} KB" if size_bytes >= 1 << 10 else f"{size_bytes} B"
