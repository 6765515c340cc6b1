"""A pool set as the `.mpool` file that ST's compiler reads."""

from __future__ import annotations

import json
from typing import Any

from atonc.machine.hw.board import Board, PoolSet
from atonc.machine.hw.mpool import MemoryPool

# the NPU's cache as all of ST's pool files describe it; it is the chip's, not the board's
_CACHE = {"nlines": 512, "linesize": 64, "associativity": 8, "bypass_enable": 1}
_CACHE_SPEED = {"rights": "ACC_WRITE", "throughput": "MID", "latency": "MID", "byteWidth": 8, "freqRatio": 2.5}
_CACHE_POWER = {"read_power": 13.584, "write_power": 12.645}
_PARAMETERS = {"param": [{"paramname": "max_onchip_sram_size", "value": "1024", "magnitude": "KBYTES"}]}
_PREFIX = "atonbuf"


def mpool_document(pools: PoolSet) -> dict[str, Any]:
    cache = {**_CACHE, "prop": _CACHE_SPEED | _CACHE_POWER}
    listed = [_entry(pool) for pool in pools.pools]
    return {
        "params": _PARAMETERS,
        "memory": {"cacheinfo": [cache], "mem_file_prefix": _PREFIX, "mempools": listed},
    }


def mpool_text(board: Board, set_name: str) -> str:
    return json.dumps(mpool_document(board.pool_set(set_name)), indent=2) + "\n"


def _entry(pool: MemoryPool) -> dict[str, Any]:
    mode = {} if pool.absolute else {"mode": "USEMODE_RELATIVE"}
    return {
        "fname": pool.symbol,
        "name": pool.name,
        "fformat": pool.file_format,
        **mode,
        "prop": _properties(pool),
        "offset": {"value": f"{pool.base:#010x}", "magnitude": "BYTES"},
        "size": _amount(pool.size_bytes),
    }


def _properties(pool: MemoryPool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rights": "ACC_WRITE" if pool.writable else "ACC_READ",
        "throughput": pool.throughput or "MID",
        "latency": pool.latency or "MID",
        "byteWidth": pool.byte_width,
        "freqRatio": pool.freq_ratio,
    }
    found |= {"cacheable": "CACHEABLE_ON"} if pool.cacheable else {}
    found |= {"read_power": pool.read_power, "write_power": pool.write_power}
    return found | ({"constants_preferred": "true"} if pool.constants_preferred else {})


def _amount(size: int) -> dict[str, str]:
    for unit, magnitude in ((1 << 20, "MBYTES"), (1 << 10, "KBYTES")):
        if size and size % unit == 0:
            return {"value": str(size // unit), "magnitude": magnitude}
    return {"value": str(size), "magnitude": "BYTES"}
