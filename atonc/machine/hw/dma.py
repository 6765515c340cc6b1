"""Copies by the chip's DMA (HPDMA1) beside a program of the NPU, and what they cost.

A list of blocks is started in front of one step and awaited in front of another; between the two the flash is shared.
Nobody has measured the DMA beside the NPU. The price takes what its bursts and blocks need of the flash for granted,
lets them have whatever time the NPU leaves, and from then on every second turn; `[ranges]` of `stm32n6.toml` says how
wrong that may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import Machine

CHANNELS, CHANNEL = 16, 12  # the last four have the largest FIFO: ST's examples copy from flash with this one
BEAT_BYTES, BURST_BYTES = 8, 128
MOST_BLOCK_BYTES = 0x1_0000 - BURST_BYTES  # of one link: its size has 16 bits

LINK_BYTES = 16  # as network.c writes them: size, source, target, next link


@dataclass(frozen=True)
class DmaCopy:
    """Bytes at their addresses."""

    source: int
    target: int
    size_bytes: int

    @property
    def blocks(self) -> int:
        return -(-self.size_bytes // MOST_BLOCK_BYTES)

    def meets(self, low: int, high: int, of: int) -> bool:
        """Whether it touches these addresses; `of`: its source or its target."""
        return low < of + self.size_bytes and of < high


@dataclass(frozen=True)
class DmaWork:
    """What the processor does in front of a step: awaits the list that runs, then starts another."""

    waits: bool = False
    starts: tuple[DmaCopy, ...] = ()


@dataclass(frozen=True)
class Occupied:
    """Cycles of a step, and how many of them its engines read memory outside the chip."""

    cycles: float
    external: float = 0.0

    @property
    def idle(self) -> float:
        return max(0.0, self.cycles - self.external)


@dataclass(frozen=True)
class DmaCost:
    """What copies add to a step, and how much of a list's time lies behind the step's work."""

    added: float = 0.0
    hidden: float = 0.0


def list_cycles(transfers: Iterable[DmaCopy], machine: Machine) -> float:
    """The time that a list needs of the flash where nobody else reads it."""
    timing, total = machine.timing, 0.0
    for one in transfers:
        bank = machine.memory_at(one.source)
        per_byte = machine.flash_byte_cycles if bank is None else machine.external_cycles_per_byte(bank)
        bursts = -(-one.size_bytes // BURST_BYTES)
        total += one.size_bytes * per_byte + timing.dma_burst * bursts + timing.dma_block * one.blocks
    return total


def costs(steps: Iterable[tuple[DmaWork | None, Occupied]], machine: Machine) -> Iterator[DmaCost]:
    """Prices what copies add to each step, in their order."""
    left = 0.0
    for work, step in steps:
        waited = 0.0
        if work is not None:
            waited = machine.timing.dma_step + (left if work.waits else 0.0)
            left = (0.0 if work.waits else left) + list_cycles(work.starts, machine)
        beside = shared(left, step)
        left -= beside.hidden + beside.added
        yield DmaCost(waited + beside.added, beside.hidden)


def shared(left: float, step: Occupied) -> DmaCost:
    """What a step and copies that still need this time of the flash do to each other."""
    hidden = min(left, step.idle)
    return DmaCost(min(left - hidden, step.external), hidden)
