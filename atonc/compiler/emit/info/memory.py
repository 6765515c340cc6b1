"""Pools and buffers, numbered from 1 as everything in the file is."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from atonc.compiler.emit.c import buffers_info
from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.program import UserBuffer
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import BufferKind
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED
from atonc.machine.hw.mpool import MemoryPool

POOL_ALIGNMENT = 8
_NO_LIMIT = 0xFFFF_FFFF
_FORMATS = {
    "INT8": "S8", "UINT8": "U8", "INT16": "S16", "UINT16": "U16", "INT32": "S32", "UINT32": "U32", "FLOAT": "FLOAT",
}  # fmt: skip


@dataclass(frozen=True)
class InfoRegion:
    """Where buffers lie: one pool, several pools in a row, or memory of the application."""

    pools: tuple[MemoryPool, ...]
    user: UserBuffer | None = None

    @property
    def base(self) -> int:
        return self.user.address if self.user is not None else self.pools[0].base


class InfoMemory:
    """All pools and buffers of a program with their numbers."""

    def __init__(self, network: CNetwork) -> None:
        self.network = network

    @cached_property
    def regions(self) -> list[InfoRegion]:
        """Every pool, then the combinations that some buffer spans, then the application's buffers."""
        pools = [InfoRegion((pool,)) for pool in self.network.pools]
        seen = [self._region(self.network.home(name)) for name in self.infos]
        users = [InfoRegion((), user) for user in self.network.program.user_io]
        return list(dict.fromkeys((*pools, *(region for region in seen if region.user is None), *users)))

    def _region(self, home: Placed) -> InfoRegion:
        user = self.network.user_of(home.buffer.name)
        if user is not None:
            return InfoRegion((), user)
        end = max(home.end, home.address + 1)
        pools = [p for p in self.network.pools if p.base < end and home.address < p.base + p.size_bytes]
        return InfoRegion(tuple(sorted(pools, key=lambda pool: pool.base)))

    @cached_property
    def _numbers(self) -> dict[InfoRegion, int]:
        return {region: k for k, region in enumerate(self.regions, 1)}

    def region_of(self, buffer: str) -> int:
        return self._numbers[self._region(self.network.home(buffer))]

    def pool_number(self, name: str) -> int:
        return next(k for k, r in enumerate(self.regions, 1) if len(r.pools) == 1 and r.pools[0].name == name)

    @cached_property
    def infos(self) -> dict[str, Info]:
        """Buffer -> what the tables of network.c say; the same buffer is listed once."""
        net = self.network
        lists = (
            buffers_info.inputs(net), buffers_info.outputs(net), buffers_info.internals(net), buffers_info.params(net),
        )  # fmt: skip
        return {info.buffer: info for infos in reversed(lists) for info in infos}

    @cached_property
    def ids(self) -> dict[str, int]:
        """Buffer -> its number, in the order of pools and addresses."""
        ordered = sorted(self.infos, key=lambda n: (self.region_of(n), self.network.home(n).address, n))
        return {name: k for k, name in enumerate(ordered, 1)}


def pool_rows(memory: InfoMemory) -> list[dict[str, Any]]:
    by_region: dict[int, list[int]] = {}
    for name, number in memory.ids.items():
        by_region.setdefault(memory.region_of(name), []).append(number)
    return [
        _user_row(region.user, k, by_region.get(k, []))
        if region.user is not None
        else _pool_row(memory, region.pools, k, by_region.get(k, []))
        for k, region in enumerate(memory.regions, 1)
    ]


def _pool_row(memory: InfoMemory, pools: tuple[MemoryPool, ...], number: int, buffers: list[int]) -> dict[str, Any]:
    """Describes a pool; for several in a row, what holds for all of them: the worst of each property."""
    slowest = max(pools, key=lambda pool: pool.freq_ratio / pool.byte_width)
    several = len(pools) > 1
    inside = set(buffers)
    kept = [memory.network.home(name) for name, k in memory.ids.items() if k in inside]
    used = max(home.end for home in kept) - pools[0].base if several else memory.network.used_bytes(pools[0])
    return {
        "address": str(pools[0].base) if pools[0].absolute else "",
        "alignment": POOL_ALIGNMENT,
        "attributes": {
            "burst_max_length": _NO_LIMIT,
            "burst_penalty": 0,
            "byte_width": slowest.byte_width,
            **_encryption(memory.network, pools),
            "freq_ratio": slowest.freq_ratio,
            "latency": slowest.latency,
            "read_power": max(pool.read_power for pool in pools),
            "score": round(10 * slowest.byte_width / slowest.freq_ratio),  # ours: tenths of bytes per NPU cycle
            "throughput": slowest.throughput,
            "use_for_initrs": any(home.buffer.kind == BufferKind.CONSTANT for home in kept),
            "write_power": max(pool.write_power for pool in pools),
        },
        "buffers": buffers,
        "cacheable": "CACHEABLE_ON" if any(pool.cacheable for pool in pools) else "CACHEABLE_OFF",
        "fname": "" if several else f"atonbuf.{pools[0].symbol}.raw",
        "id": number,
        "name": "_".join(pool.name for pool in pools),
        "offset_start": 0,
        "persistent": True,
        "pipelined": "PIPELINED_ON",
        "rights": "ACC_WRITE" if all(pool.writable for pool in pools) else "ACC_READ",
        "size_bytes": sum(pool.size_bytes for pool in pools),
        "subpools": [memory.pool_number(pool.name) for pool in pools] if several else [],
        "used_size_bytes": used,
        "user_allocated": False,
    }


def _encryption(network: CNetwork, pools: tuple[MemoryPool, ...]) -> dict[str, Any]:
    """What part of the pool's image is to be encrypted; ST's files have it only where there is one."""
    region = network.program.encrypted
    if region is None or [pool.name for pool in pools] != [region.pool]:
        return {}
    return {"encryption": {"offset": region.offset, "size": region.size_bytes}}


def _user_row(user: UserBuffer, number: int, buffers: list[int]) -> dict[str, Any]:
    """Memory of the application: nothing is known but its size."""
    unknown: dict[str, Any] = {"burst_max_length": _NO_LIMIT, "burst_penalty": 0, "byte_width": 1, "freq_ratio": 1.0}
    unknown |= {"latency": "HIGH", "read_power": 0.0, "score": 0, "throughput": "LOW"}
    return {
        "address": "",
        "alignment": user.alignment,
        "attributes": {**unknown, "use_for_initrs": False, "write_power": 0.0},
        "buffers": buffers,
        "cacheable": "CACHEABLE_OFF",
        "fname": "",
        "id": number,
        "name": user.symbol,
        "offset_start": 0,
        "persistent": True,
        "pipelined": "PIPELINED_ON",
        "rights": "ACC_WRITE",
        "size_bytes": user.size_bytes,
        "subpools": [],
        "used_size_bytes": user.size_bytes,
        "user_allocated": True,
    }


def buffer_rows(memory: InfoMemory) -> list[dict[str, Any]]:
    return [_buffer_row(memory, memory.infos[name], number) for name, number in memory.ids.items()]


def _buffer_row(memory: InfoMemory, info: Info, number: int) -> dict[str, Any]:
    home, region = memory.network.home(info.buffer), memory.region_of(info.buffer)
    fixed = info.bits - (1 - info.unsigned) if info.is_fixed_point else 0
    row: dict[str, Any] = {
        "alignment": ALIGNED,
        "batch": info.channels,
        "channel_first": info.position == "First",
        "channel_last": info.position != "First",
        "epochs": {"end": home.last + 1, "start": 0 if info.param else home.first + 1},
        "flags": "",
        "format": f"STAI_FORMAT_{_FORMATS.get(info.type, 'NONE')}",
        "id": number,
    }
    if info.scales:
        axis = 1 if len(info.scales) > 1 else -1
        row["intq"] = {"axis": axis, "offsets": list(info.offsets), "scales": list(info.scales)}
    return row | {
        "is_param": info.param,
        "mpool_id": region,
        "name": info.label,
        "nbits": info.bits,
        "offset_start": home.address - memory.regions[region - 1].base,
        "qmn": {"m": fixed, "n": 0, "sign": int(not info.unsigned)},
        "shape": channels_second(info.shape),
        "shape_map": [],
        "size_bytes": info.size_bytes,
    }


def channels_second(shape: tuple[int, ...]) -> list[int]:
    """Batch, channels, height, width: the order of this file, however the bytes lie."""
    return [shape[0], shape[-1], *shape[1:-1]] if len(shape) > 2 else list(shape)
