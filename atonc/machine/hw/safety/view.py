"""An epoch prepared for the rules: who feeds whom, typed by unit kind, looked up once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, TypeVar

from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Evidence, Rule, Severity
from atonc.machine.hw import links as chains
from atonc.machine.hw.cycles.flow import StreamFlow, StreamWords, element_counts
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.links import LinkKind
from atonc.machine.hw.machine import MemoryBank, secure, stm32n6
from atonc.machine.hw.safety.mode_keys import Key, mode_key
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

if TYPE_CHECKING:
    from atonc.machine.hw.safety.evidence.trust import Trust


class PoolKind(StrEnum):
    FLASH = "flash"
    ON_CHIP = "on-chip"
    HYPERRAM = "hyperRAM"
    USER = "user buffer"


@dataclass(frozen=True)
class CheckedPool:
    name: str
    base: int
    size_bytes: int
    kind: PoolKind
    writable: bool = True

    @property
    def end(self) -> int:
        return secure(self.base) + self.size_bytes

    def holds(self, address: int) -> bool:
        return secure(self.base) <= secure(address) < self.end


@dataclass(frozen=True)
class CheckedBuffer:
    name: str
    address: int
    size_bytes: int
    writers: tuple[str, ...] = ()  # in the same inference: engines, the CPU
    start: int = field(init=False)  # secure addresses, worked out once: a network may keep thousands of buffers alive
    end: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", secure(self.address))
        object.__setattr__(self, "end", self.start + self.size_bytes)


def pool_of_bank(bank: MemoryBank) -> CheckedPool:
    kind = {"flash": PoolKind.FLASH, "hyperram": PoolKind.HYPERRAM}.get(bank.kind, PoolKind.ON_CHIP)
    return CheckedPool(bank.name, bank.base, bank.size_bytes, kind, writable=kind != PoolKind.FLASH)


def pool(name: str, base: int, size_bytes: int, writable: bool = True) -> CheckedPool:
    """A pool of a board or of a network; its kind is that of the memory in which it lies."""
    bank = stm32n6().memory_at(base)
    kind = PoolKind.HYPERRAM if bank is None else pool_of_bank(bank).kind  # unknown: outside the chip
    return CheckedPool(name, base, size_bytes, kind, writable and kind != PoolKind.FLASH)


@cache
def default_pools() -> tuple[CheckedPool, ...]:
    """The memories of the chip and of ST's boards, used when the caller gives none."""
    return tuple(pool_of_bank(bank) for bank in stm32n6().memories)


Span = tuple[int, int, CheckedPool]  # secure addresses: first and one past the last


def _spans(pools: Iterable[CheckedPool]) -> list[Span]:
    return [(secure(pool.base), pool.end, pool) for pool in pools]


@dataclass(frozen=True)
class SafetyContext:
    """`pools` empty: the memories of the chip; `buffers` empty: not checked; no `trust`: published programs."""

    pools: tuple[CheckedPool, ...] = ()
    buffers: tuple[CheckedBuffer, ...] = ()
    trust: Trust | None = None

    def pool_at(self, address: int) -> CheckedPool | None:
        """The smallest pool around an address, so that a bank wins over a span of several banks."""
        place = secure(address)
        return next((pool for start, end, pool in self._by_size if start <= place < end), None)

    def covers(self, first: int, last: int) -> bool:
        """Whether pools cover both addresses and everything between them."""
        start, last = secure(first), secure(last)
        for base, end, _ in self._by_address:
            if start > last:
                break
            if base <= start < end:
                start = end
        return start > last

    @cached_property
    def _by_size(self) -> list[Span]:
        return _spans(sorted(self.pools or default_pools(), key=lambda pool: pool.size_bytes))

    @cached_property
    def _by_address(self) -> list[Span]:
        return _spans(sorted(self.pools or default_pools(), key=lambda pool: secure(pool.base)))

    def buffer_at(self, address: int) -> CheckedBuffer | None:
        """The largest buffer around an address, so that a whole tensor wins over its parts."""
        place = secure(address)
        found = [buffer for buffer in self.buffers if buffer.start <= place < buffer.end]
        return max(found, key=lambda buffer: buffer.size_bytes, default=None)

    def writers_at(self, address: int) -> list[str]:
        """Who writes the buffers around an address, each once."""
        place = secure(address)
        found = (buffer.writers for buffer in self.buffers if buffer.start <= place < buffer.end)
        return sorted({who for writers in found for who in writers})


C = TypeVar("C", bound=UnitConfig)


@cache
def kind_of_name(unit: str) -> str:
    """CONVACC of CONVACC2, also for units that are not configured."""
    return unit.partition(":")[0].rstrip("0123456789")


def number_of_name(unit: str) -> int:
    digits = unit[len(kind_of_name(unit)) :]
    return int(digits) if digits.isascii() and digits.isdigit() else -1


@lru_cache(maxsize=1 << 12)
def _link_kind(source: str, destination: str, port: int) -> LinkKind:
    return LinkKind(kind_of_name(source), kind_of_name(destination), port)


class EpochView:
    def __init__(self, epoch: Epoch, context: SafetyContext) -> None:
        self.epoch, self.context = epoch, context
        self.units: Mapping[str, UnitConfig] = epoch.units
        self.links = epoch.links
        self._into: dict[tuple[str, int], Link] = {}
        self._from: dict[str, list[Link]] = {}
        self._ports: dict[str, list[int]] = {}
        for link in epoch.links:
            self._into.setdefault((link.destination, link.port), link)
            self._from.setdefault(link.source, []).append(link)
            self._ports.setdefault(link.destination, []).append(link.port)

    def source(self, unit: str, port: int) -> Link | None:
        return self._into.get((unit, port))

    def destinations(self, unit: str) -> list[Link]:
        return self._from.get(unit, [])

    def ports(self, unit: str) -> list[int]:
        """Linked input ports."""
        return self._ports.get(unit, [])

    def kind(self, unit: str) -> str:
        return kind_of_name(unit)

    def link_kind(self, link: Link) -> LinkKind:
        return _link_kind(link.source, link.destination, link.port)

    def _typed(self, config_type: type[C]) -> dict[str, C]:
        return {name: config for name, config in self.units.items() if isinstance(config, config_type)}

    @cached_property
    def engines(self) -> dict[str, StrengConfig]:
        return self._typed(StrengConfig)

    @cached_property
    def readers(self) -> dict[str, StrengConfig]:
        return {name: config for name, config in self.engines.items() if not config.to_memory}

    @cached_property
    def writers(self) -> dict[str, StrengConfig]:
        return {name: config for name, config in self.engines.items() if config.to_memory}

    @cached_property
    def convaccs(self) -> dict[str, ConvaccConfig]:
        return self._typed(ConvaccConfig)

    @cached_property
    def ariths(self) -> dict[str, ArithConfig]:
        return self._typed(ArithConfig)

    @cached_property
    def activs(self) -> dict[str, ActivConfig]:
        return self._typed(ActivConfig)

    @cached_property
    def poolings(self) -> dict[str, PoolConfig]:
        return self._typed(PoolConfig)

    @cached_property
    def processing(self) -> list[str]:
        return [name for name in self.units if name not in self.engines]

    @cached_property
    def flow(self) -> StreamFlow:
        """How many elements travel where."""
        return element_counts(self.epoch)

    def arriving(self, unit: str, port: int) -> StreamWords | None:
        """What comes to a port; None when it is not linked."""
        return None if self.source(unit, port) is None or unit not in self.units else self.flow[unit].input(port)

    @cached_property
    def memory_of(self) -> dict[str, CheckedPool | None]:
        """The pool in which each engine starts."""
        return {name: self.context.pool_at(config.address) for name, config in self.engines.items()}

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """First and one-past-last address that each engine touches."""
        return {name: config.span() for name, config in self.engines.items()}

    @cached_property
    def chains(self) -> dict[tuple[str, ...], str]:
        """Units and canonical text of each chain."""
        return chains.texts(self.epoch)

    @cached_property
    def modes(self) -> dict[str, Key]:
        """What the study of public networks calls the mode of each unit."""
        roles = {engine: self.role(engine) for engine in self.engines}
        return {unit: mode_key(config, roles.get(unit, "")) for unit, config in self.units.items()}

    def role(self, engine: str) -> str:
        """What an engine is for: `to CONVACC:1`, `from ARITH`; empty when it is not linked."""
        if self.engines[engine].to_memory:
            link = self.source(engine, 0)
            return f"from {kind_of_name(link.source)}" if link else ""
        links = self.destinations(engine)
        return f"to {kind_of_name(links[0].destination)}:{links[0].port}" if links else ""


@dataclass(frozen=True)
class SafetyFinding:
    """One place where a rule does not hold; `severity` where it is milder than the rule's own."""

    unit: str
    seen: str
    limit: str = ""
    severity: Severity | None = None


Check = Callable[[EpochView], Iterator[SafetyFinding]]


@dataclass(frozen=True)
class CheckedRule:
    rule: Rule
    check: Check


_RULES: dict[str, CheckedRule] = {}
_FAMILIES = {  # by the first letter of a rule
    "W": "wiring", "B": "balance", "O": "order", "M": "memory", "U": "modes", "V": "values", "A": "accumulators",
    "P": "forms", "H": "hazards", "E": "evidence",
}  # fmt: skip


def proven(count: int, what: str, report: str = "") -> Evidence:
    """Held every time it was tested."""
    return Evidence(count, count, what, report)


def rule(
    id: str,
    sentence: str,
    evidence: Evidence,
    *,
    remedy: str,
    limit: str = "",
    severity: Severity = Severity.VIOLATION,
) -> Callable[[Check], Check]:
    """Registers a check of one epoch."""

    def register(check: Check) -> Check:
        if id in _RULES:
            raise ValueError(f"rule {id} is defined twice")
        family = _FAMILIES[id[0]]
        _RULES[id] = CheckedRule(Rule(id, family, sentence, evidence, remedy, limit, severity), check)
        return check

    return register


def registered() -> tuple[CheckedRule, ...]:
    """Lists the rules in the order of their definition."""
    return tuple(_RULES.values())
