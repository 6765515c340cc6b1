"""Memory-pool files (`.mpool`) in both dialects: written by hand, and as saved by ST's compiler."""

from __future__ import annotations

import re
from pathlib import Path

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import JsonNode, PoolTiming, parse_json, read_json

MAX_POOLS = 256
MAX_WIDTH, MAX_RATIO = 4096, 1_000_000
_MAX_SYMBOL = 96
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")

_MAGNITUDES = {"BYTES": 1, "KBYTES": 1 << 10, "MBYTES": 1 << 20, "GBYTES": 1 << 30}


@dataclass(frozen=True)
class MemoryPool:
    """One pool as the file describes it; a size of zero means: listed, not to be used."""

    name: str
    postfix: str  # in file names and C symbols
    base: int
    size_bytes: int
    byte_width: int
    freq_ratio: float
    writable: bool
    absolute: bool  # False: the base is resolved at run time
    cacheable: bool
    constants_preferred: bool
    throughput: str
    latency: str
    file_format: str
    read_power: float = 0.0
    write_power: float = 0.0

    @property
    def symbol(self) -> str:
        """What names the pool in files, symbols and relocation tables; nothing in it may act as a path or as C."""
        return _UNSAFE.sub("_", self.postfix or self.name)[:_MAX_SYMBOL] or "_"

    @property
    def timing(self) -> PoolTiming:
        return PoolTiming(self.name, self.base, self.size_bytes, self.byte_width, self.freq_ratio)


@dataclass(frozen=True)
class PoolFile:
    pools: tuple[MemoryPool, ...]
    file_prefix: str = "atonbuf"

    @property
    def usable(self) -> tuple[MemoryPool, ...]:
        return tuple(pool for pool in self.pools if pool.size_bytes > 0)

    def timings(self) -> tuple[PoolTiming, ...]:
        return tuple(pool.timing for pool in self.usable)


def read_mpool(path: Path) -> PoolFile:
    return _pool_file(JsonNode(read_json(path), str(path)))


def parse_mpool(text: str, where: str = "pool file") -> PoolFile:
    return _pool_file(JsonNode(parse_json(text, where), where))


def _pool_file(root: JsonNode) -> PoolFile:
    memory = root.child("memory")
    pools = memory.children("mempools", MAX_POOLS)
    if not pools:
        raise InputError("names no memory pool", where=root.where, rule="memory.mempools lists the pools")
    prefix = memory.text("mem_file_prefix", "memFilePrefix", default="atonbuf")
    return PoolFile(tuple(_pool(node) for node in pools), prefix)


def _pool(node: JsonNode) -> MemoryPool:
    prop = node.child("prop")
    width, ratio = int(prop.number("byteWidth", default=1)), prop.number("freqRatio", default=1.0)
    name = node.text("name") or node.text("fname")
    if not name or not 1 <= width <= MAX_WIDTH or not 1 / MAX_RATIO <= ratio <= MAX_RATIO:
        rule = f"a name, a byteWidth of 1 to {MAX_WIDTH}, a freqRatio of 1/{MAX_RATIO} to {MAX_RATIO}"
        raise InputError("the pool lacks something that it needs", where=node.where, rule=rule)
    base = _amount(node.child("offset"))
    if base >= 1 << 32:
        raise InputError(f"the pool begins at {base:#x}", where=node.where, rule="addresses have 32 bits")
    return MemoryPool(
        name=name,
        postfix=node.text("fname"),
        base=base,
        size_bytes=_amount(node.child("size")),
        byte_width=width,
        freq_ratio=ratio,
        writable=prop.text("rights", default="ACC_WRITE") != "ACC_READ",
        absolute=node.text("mode", default="USEMODE_ABSOLUTE") != "USEMODE_RELATIVE",
        cacheable=prop.text("cacheable") == "CACHEABLE_ON",
        constants_preferred=prop.flag("constants_preferred", "constantsPreferred"),
        throughput=prop.text("throughput"),
        latency=prop.text("latency"),
        file_format=node.text("fformat"),
        read_power=prop.number("read_power", "readPower"),
        write_power=prop.number("write_power", "writePower"),
    )


def _amount(node: JsonNode) -> int:
    """`{"value": "448", "magnitude": "KBYTES"}`: decimal or hexadecimal, as text or number."""
    value, magnitude = node.text("value", default="0"), node.text("magnitude", default="BYTES")
    if magnitude not in _MAGNITUDES:
        raise InputError(f"magnitude is {magnitude[:40]!r}", where=node.where, rule="BYTES, KBYTES, MBYTES or GBYTES")
    try:
        number = int(value, 0) if len(value) <= 32 else -1
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 64:
        raise InputError(f"value is {value[:40]!r}, not an address or size", where=node.where)
    return number * _MAGNITUDES[magnitude]
