"""What a checker may know beside the epochs: the memories and, if at hand, the buffers in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import MemoryBank, secure, stm32n6

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
