"""The machine as data: units, memories, clocks and the constants of the cycle models."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import field, fields
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from atonc.machine.base.disk import read_text, read_toml
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass, replace

# ----------------------------------------------------------------------------------------------------------------------
# JSON as people write it by hand: with comments and trailing commas. ST's pool and machine files need both.

MAX_BYTES = 1 << 22

_STRING = r'"(?:\\.|[^"\\\n])*+"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])")


def read_json(path: Path) -> Mapping[str, Any]:
    """The object that the file holds."""
    return parse_json(read_text(path, MAX_BYTES), str(path))


def parse_json(text: str, where: str = "") -> Mapping[str, Any]:
    text = _COMMENT.sub(lambda match: match[1] or " ", text)
    text = _TRAILING_COMMA.sub(lambda match: match[1] or "", text)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}", where=where) from None
    except (RecursionError, ValueError):
        raise InputError("not JSON: nested too deeply or a number out of range", where=where) from None
    if not isinstance(data, dict):
        raise InputError("does not hold an object", where=where)
    return data


class JsonNode:
    """One object of such a file, with typed access and errors that name the place."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise InputError("should be an object", where=where)
        self.data, self.where = data, where

    def text(self, *keys: str, default: str = "") -> str:
        value = self._first(keys, default)
        return plain(value if isinstance(value, str) else str(value))

    def string(self, key: str) -> str:
        """A text and nothing else; empty where there is none."""
        value = self.data.get(key, "")
        if not isinstance(value, str):
            raise InputError(f"{key} is {str(value)[:40]!r}, not a text", where=self.where)
        return plain(value)

    def number(self, *keys: str, default: float = 0.0) -> float:
        value = self._first(keys, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2.0**64:
            raise InputError(f"{keys[0]} is {str(value)[:40]!r}, not a number", where=self.where)
        return float(value)

    def flag(self, *keys: str) -> bool:
        """Booleans are written as such or as the word "true"."""
        value = self._first(keys, False)
        return value is True or (isinstance(value, str) and value.lower() == "true")

    def child(self, key: str) -> JsonNode:
        return JsonNode(self.data.get(key, {}), f"{self.where}, {key}")

    def children(self, key: str, most: int) -> list[JsonNode]:
        items = self.data.get(key, [])
        if not isinstance(items, list) or len(items) > most:
            raise InputError(f"{key} should be a list of at most {most} objects", where=self.where)
        return [JsonNode(item, f"{self.where}, {key} {index}") for index, item in enumerate(items)]

    def _first(self, keys: tuple[str, ...], default: Any) -> Any:
        return next((self.data[key] for key in keys if key in self.data), default)


FLASH, HYPERRAM = "flash", "hyperram"  # kinds of memory outside the chip
NPU_RAM, CPU_RAM = "npu_ram", "cpu_ram"  # and on it
_CACHE = "npuCache"  # RAM only while the cache is off
_MAX_UNITS = 64
MEASURED_WITHIN = 0.01  # of a constant that probes measured: the fewest cycles of several runs, twice
_FARTHEST = 4  # times a known constant: what is further off is another quantity


@dataclass(frozen=True)
class PoolTiming:
    """What ST's estimate knows about a memory pool: cycles per byte = freq_ratio / byte_width."""

    name: str
    base: int
    size_bytes: int
    byte_width: int
    freq_ratio: float

    @property
    def end(self) -> int:
        return self.base + self.size_bytes

    @property
    def cycles_per_byte(self) -> float:
        return self.freq_ratio / self.byte_width


@dataclass(frozen=True)
class MemoryBank:
    """A memory of the chip or the board; `kind` is cpu_ram, npu_ram, flash or hyperram."""

    name: str
    kind: str
    base: int
    size_bytes: int
    byte_width: int
    freq_ratio: float
    latency: str

    @property
    def end(self) -> int:
        return self.base + self.size_bytes

    @property
    def external(self) -> bool:
        return self.kind in (FLASH, HYPERRAM)

    @property
    def label(self) -> str:
        """What reports call it: its name, and its kind where the name does not say it (`kind_of_label`)."""
        plain = not self.external or kind_of_label(self.name) == self.kind
        return self.name if plain else f"{self.name} ({self.kind})"

    @property
    def timing(self) -> PoolTiming:
        return PoolTiming(self.name, self.base, self.size_bytes, self.byte_width, self.freq_ratio)


@dataclass(frozen=True)
class Clocks:
    npu_mhz: float
    cpu_mhz: float
    npu_ram_mhz: float
    noc_mhz: float
    flash_mb_per_s: float
    hyperram_mb_per_s: float


@dataclass(frozen=True)
class Timing:
    """Constants of the hardware model; `stm32n6.toml` gives the evidence of each."""

    epoch: float
    write_beat: float
    read_beat: float
    single_read_beat: float
    interface_beat: float
    noc_beat: float
    cache_beat: float
    cache_discontinuity: float
    frame_turn: float
    frame_turn_words: int
    fill_lines: float
    fill_per_line: float
    fill_constant: float
    controller_word: float
    cpu_before_word: float
    cpu_before_constant: float
    cpu_after_constant: float
    cpu_after_streng: float
    cpu_after_convacc: float
    cpu_after_arith: float
    cpu_read_byte: float
    cpu_write_byte: float
    dma_step: float
    dma_block: float
    dma_burst: float


@dataclass(frozen=True)
class Machine:
    name: str
    units: Mapping[str, int] = field(hash=False)
    engine_ports: Mapping[int, tuple[int, ...]] = field(hash=False)  # bus interface -> stream engines
    memories: tuple[MemoryBank, ...]
    clocks: Clocks
    timing: Timing
    # constants: lowest and highest value
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)
    measured: tuple[str, ...] = ()  # constants that this board measured itself (`--evidence`)

    def memory_at(self, address: int) -> MemoryBank | None:
        address = secure(address)
        for base, end, bank in self._spans:
            if base <= address < end:
                return bank
        return None

    @cached_property
    def _spans(self) -> tuple[tuple[int, int, MemoryBank], ...]:
        return tuple((bank.base, bank.end, bank) for bank in self.memories)

    @cached_property
    def interfaces(self) -> Mapping[str, int]:
        """The interface to the bus that each stream engine hangs on."""
        return {f"STRENG{engine}": port for port, engines in self.engine_ports.items() for engine in engines}

    @property
    def npu_ram(self) -> tuple[MemoryBank, ...]:
        """The NPU's own RAM, without the cache."""
        return tuple(bank for bank in self.memories if bank.kind == NPU_RAM and bank.name != _CACHE)

    def first(self, kind: str) -> MemoryBank:
        return next(bank for bank in self.memories if bank.kind == kind)

    def pool_timings(self) -> tuple[PoolTiming, ...]:
        """What ST's pool files say of these memories, for networks that come without one."""
        return tuple(bank.timing for bank in self.memories)

    def with_clocks(self, **changes: float) -> Machine:
        """The same machine at other clocks; constants that depend on a clock ratio follow. The NPU's RAM follows a
        slower NPU, as in every published clock tree: 900 of 1000, 800 of 800, 400 of 400 MHz."""
        if any(not value > 0 for value in changes.values()):
            raise InputError("a clock must be above zero", where=", ".join(changes))
        changes = {name: int(mhz) if float(mhz).is_integer() else mhz for name, mhz in changes.items()}  # as in files
        old = self.clocks
        new = replace(old, **{"npu_ram_mhz": min(old.npu_ram_mhz, changes.get("npu_mhz", old.npu_ram_mhz)), **changes})
        ram = (new.npu_mhz / new.npu_ram_mhz) / (old.npu_mhz / old.npu_ram_mhz)
        noc = (new.npu_mhz / new.noc_mhz) / (old.npu_mhz / old.noc_mhz)
        bus = (new.cpu_mhz / new.noc_mhz) / (old.cpu_mhz / old.noc_mhz)
        timing = replace(
            self.timing,
            write_beat=self.timing.write_beat * ram,
            read_beat=self.timing.read_beat * ram,
            single_read_beat=self.timing.single_read_beat * ram,
            interface_beat=self.timing.interface_beat * ram,
            noc_beat=self.timing.noc_beat * noc,
            cache_beat=self.timing.cache_beat * noc,
            cpu_read_byte=self.timing.cpu_read_byte * bus,
            cpu_write_byte=self.timing.cpu_write_byte * bus,
            dma_step=self.timing.dma_step * (new.npu_mhz / new.cpu_mhz) / (old.npu_mhz / old.cpu_mhz),
            dma_block=self.timing.dma_block * noc,
            dma_burst=self.timing.dma_burst * noc,
        )
        return replace(self, clocks=new, timing=timing)

    def with_measured(self, constants: Mapping[str, float]) -> Machine:
        """With what a board measured, at the clocks of this machine, in place of these constants."""
        speeds = {name: value for name, value in constants.items() if name in SPEEDS}
        timing: dict[str, Any] = {name: value for name, value in constants.items() if name not in SPEEDS}
        known = tuple(sorted({*self.measured, *constants}))
        return replace(self.with_clocks(**speeds), timing=replace(self.timing, **timing), measured=known)

    def clock_factor(self, constant: str) -> float:
        """How many times a constant is what it is at the clocks of `stm32n6.toml`, before anybody measures it."""
        return 1.0 if constant in SPEEDS else getattr(self.timing, constant) / getattr(stm32n6().timing, constant)

    def constant(self, name: str) -> float:
        """One that a board can measure."""
        return float(getattr(self.clocks if name in SPEEDS else self.timing, name))

    def external_cycles_per_byte(self, bank: MemoryBank) -> float:
        return self.flash_byte_cycles if bank.kind == FLASH else self.hyperram_byte_cycles

    @property
    def flash_byte_cycles(self) -> float:
        """Cycles for a byte of a constant that is read once."""
        return self.clocks.npu_mhz / self.clocks.flash_mb_per_s

    @property
    def hyperram_byte_cycles(self) -> float:
        """Cycles for a byte of an activation outside the chip, each way."""
        return self.clocks.npu_mhz / self.clocks.hyperram_mb_per_s

    def npu_cycles(self, cpu_cycles: float) -> float:
        """How many NPU cycles pass while the CPU works."""
        return cpu_cycles * self.clocks.npu_mhz / self.clocks.cpu_mhz

    def doubt(self, constant: str) -> tuple[float, float]:
        """How far a constant of the timing may be off, downwards and upwards: (-0.03, 0.23)."""
        value = getattr(self.timing, constant)
        low, high = self.ranges.get(constant, (value, value))
        return low / value - 1, high / value - 1

    def milliseconds(self, npu_cycles: float) -> float:
        return milliseconds(npu_cycles, self.clocks.npu_mhz)


def milliseconds(cycles: float, mhz: float) -> float:
    return cycles / (mhz * 1000)


def kind_of_label(label: str) -> str:
    """Which external memory bounds an epoch, by the label of the cycle model; nothing for all else."""
    words = label.lower()
    said = next((kind for kind in (FLASH, HYPERRAM) if words.endswith(f"({kind})")), "")
    return said or (FLASH if FLASH in words else HYPERRAM if "hyper" in words else "")


def secure(address: int) -> int:
    """On-chip memory answers at a secure (0x3...) and a non-secure (0x2...) address; this is the secure one."""
    return address | 0x1000_0000 if address >> 28 == 0x2 else address


def insecure(address: int) -> int:
    """The non-secure address of on-chip memory; others have one address only."""
    return address & ~0x1000_0000 if address >> 28 == 0x3 else address


SPEEDS = ("flash_mb_per_s", "hyperram_mb_per_s")  # of `[clocks]`: what a board can measure of them
MEASURABLE = (*(member.name for member in fields(Timing) if member.name != "frame_turn_words"), *SPEEDS)


def implausible(constant: str, value: float) -> str:
    """What is wrong with a measured constant, at the clocks of `stm32n6.toml`; nothing if it is near to the one that it
    replaces."""
    if constant not in MEASURABLE:
        return f"{constant[:40]!r} is no constant that a board can measure"
    known = stm32n6().constant(constant)
    if not 1 / _FARTHEST <= value / known <= _FARTHEST:
        return f"{constant} = {value:.4g} is further than a factor of {_FARTHEST} from {known:g}"
    return ""


@cache
def stm32n6() -> Machine:
    return _machine(tomllib.loads(resources.files("atonc.machine.hw").joinpath("stm32n6.toml").read_text("utf-8")))


def read_machine(path: Path) -> Machine:
    """A machine from a `.toml` in the form of `stm32n6.toml`, or from ST's `.mdesc`."""
    if path.suffix == ".mdesc":
        return read_mdesc(path)
    try:
        return _machine(read_toml(read_text(path, MAX_BYTES)))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"not a machine description: {error}", where=str(path)) from None


def read_mdesc(path: Path) -> Machine:
    """ST's machine description. It names units and the NPU clock; memories and constants are those of the STM32N6."""
    machine = JsonNode(read_json(path), str(path)).child("machine")
    counts: dict[str, int] = {}
    ports: dict[int, tuple[int, ...]] = {}
    for node in (*machine.children("switches", _MAX_UNITS), *machine.children("accelerators", _MAX_UNITS)):
        kind, count = node.text("type"), int(node.number("num", default=1))
        if not kind or not 0 <= count <= _MAX_UNITS:
            raise InputError(f"a unit needs a type and a num of at most {_MAX_UNITS}", where=node.where)
        counts[kind] = counts.get(kind, 0) + count
        if kind == "STRENG":
            first, port = int(node.number("index")), _memory_port(node)
            ports[port] = ports.get(port, ()) + tuple(range(first, first + count))
    if "STRENG" not in counts:
        raise InputError("names no stream engine", where=str(path), rule="machine.accelerators lists the units")
    base = stm32n6()
    described = replace(base, name=machine.text("name", default=base.name), units=counts, engine_ports=ports)
    return described.with_clocks(npu_mhz=machine.number("frequency", default=base.clocks.npu_mhz))


def _memory_port(node: JsonNode) -> int:
    params = node.children("params", _MAX_UNITS)
    return int(next((p.number("val", "value") for p in params if p.text("name") == "MEM_PORT"), 0))


def _machine(data: Mapping[str, Any]) -> Machine:
    return Machine(
        name=str(data["name"]),
        units={str(kind): int(count) for kind, count in data["units"].items()},
        engine_ports={int(port): tuple(engines) for port, engines in data["engine_ports"].items()},
        memories=tuple(MemoryBank(**bank) for bank in data["memories"]),
        clocks=Clocks(**data["clocks"]),
        timing=Timing(**data["timing"]),
        ranges={str(name): (float(low), float(high)) for name, (low, high) in data.get("ranges", {}).items()},
    )
