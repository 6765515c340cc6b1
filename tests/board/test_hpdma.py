"""HPDMA1 of the virtual board by its registers: a block, a list of blocks, links and blocks that are not there, and
epochs that come too near to what is under way."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.plan.streams import contiguous
from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.board.dma import Hpdma
from atonc.machine.emu.board.system import Clock
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.hw.cycles.hardware import EpochCycles
from atonc.machine.hw.dma import MOST_BLOCK_BYTES, DmaCopy, list_cycles
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import PREFETCH_BYTES
from atonc.machine.hw.machine import stm32n6

FLASH, RAM, LINKS = 0x7000_0000, 0x3420_0000, 0x3400_8000
CHANNEL = 0x50 + 12 * 0x80
SR = 0x10
REGISTERS = {"LBAR": 0x00, "FCR": 0x0C, "CR": 0x14, "TR2": 0x44, "BR1": 0x48, "SAR": 0x4C, "DAR": 0x50, "LLR": 0x7C}
NEXT = 1 << 29 | 1 << 28 | 1 << 27 | 1 << 16
ENDED, DATA_ERROR, LINK_ERROR, IDLE = 1 << 8, 1 << 10, 1 << 11, 1


class Bench:
    def __init__(self) -> None:
        self.memory, self.clock = AddressSpace(), Clock()
        for name, base, size in (("flash", FLASH, 1 << 18), ("ram", RAM, 1 << 18), ("code", LINKS & ~0xFFFF, 1 << 16)):
            self.memory.add(name, base, size)
        self.data = np.random.default_rng(7).integers(0, 256, 1 << 17, np.uint8)
        self.memory.write(FLASH, self.data)
        self.dma = Hpdma(self.clock, self.memory, stm32n6(), lambda: 0.8)

    def set(self, **values: int) -> None:
        for name, value in values.items():
            self.dma.write(CHANNEL + REGISTERS[name], value)

    def list(self, *blocks: tuple[int, int, int]) -> None:
        """Source, target and size of each; started as generated code does."""
        for number, (source, target, size) in enumerate(blocks):
            link = LINKS + 16 * (number + 1) & 0xFFFC | NEXT if number + 1 < len(blocks) else 0
            self.memory.write(LINKS + 16 * number, np.array([size, source, target, link], "<u4").view(np.uint8))
        self.set(CR=2, FCR=0x7F00, LBAR=LINKS & 0xFFFF_0000, TR2=1 << 9 | 3 << 30, BR1=0, LLR=LINKS & 0xFFFC | NEXT)
        self.set(CR=1)

    def run(self) -> int:
        while self.clock.jump():
            pass
        return self.dma.read(CHANNEL + SR)


def reading(address: int) -> Epoch:
    return Epoch(1, {"STRENG0": contiguous(64, offset=address)}, (), ())


def test_a_block_that_software_starts() -> None:
    bench = Bench()
    bench.set(TR2=1 << 9, BR1=100, SAR=FLASH, DAR=RAM, CR=1)
    assert not bench.dma.read(CHANNEL + SR) & ENDED
    assert bench.run() == ENDED | IDLE and np.array_equal(bench.memory.read(RAM, 100), bench.data[:100])


def test_a_list_of_blocks_ends_once() -> None:
    bench = Bench()
    bench.list((FLASH, RAM, MOST_BLOCK_BYTES), (FLASH + MOST_BLOCK_BYTES, RAM + MOST_BLOCK_BYTES, 640))
    seen = []
    while bench.clock.jump():
        seen.append(bool(bench.dma.read(CHANNEL + SR) & ENDED))
    assert seen[-1] and not any(seen[:-1]) and len(seen) > 2
    size = MOST_BLOCK_BYTES + 640
    assert np.array_equal(bench.memory.read(RAM, size), bench.data[:size])
    assert size / 0.5 < bench.clock.now  # 400 MB/s at 800 MHz
    alone = list_cycles([DmaCopy(FLASH, RAM, MOST_BLOCK_BYTES), DmaCopy(FLASH, RAM, 640)], stm32n6())
    assert bench.clock.now == pytest.approx(0.8 * alone, rel=0.01)


@pytest.mark.parametrize(
    ("block", "flag"), [((0x1000_0000, RAM, 64), DATA_ERROR), ((FLASH, 0x1000_0000, 64), DATA_ERROR)]
)
def test_memory_that_is_not_there(block: tuple[int, int, int], flag: int) -> None:
    bench = Bench()
    bench.list(block)
    assert bench.run() == flag | IDLE


def test_a_link_that_is_not_there() -> None:
    bench = Bench()
    bench.set(LBAR=0x1000_0000, TR2=1 << 9 | 3 << 30, LLR=NEXT | 0x40, CR=1)
    assert bench.run() == LINK_ERROR | IDLE


def test_repeated_blocks_are_not_modelled() -> None:
    with pytest.raises(NotModelledError):
        Bench().set(TR2=1 << 9, BR1=1 << 16 | 64, SAR=FLASH, DAR=RAM, CR=1)


def test_epochs_keep_away_until_software_has_seen_the_end() -> None:
    bench = Bench()
    bench.list((FLASH, RAM, 4096), (FLASH + 4096, RAM + 8192, 4096))
    for near in (RAM + 64, RAM + 8192):
        with pytest.raises(InputError, match="while the DMA"):
            bench.dma.check(reading(near))
    bench.dma.check(reading(RAM + 4096))
    bench.dma.check(reading(FLASH))
    while bench.clock.jump():
        pass
    with pytest.raises(InputError, match="reads"):  # it has ended, and nobody knows
        bench.dma.check(reading(RAM + 64))
    assert bench.dma.read(CHANNEL + SR) & ENDED
    bench.dma.check(reading(RAM + 64))


def test_a_reset_ends_what_is_under_way() -> None:
    bench = Bench()
    bench.list((FLASH, RAM, 4096))
    bench.set(CR=2)
    assert not bench.run() & ENDED and not bench.memory.read(RAM, 4096).any()
    bench.dma.check(reading(RAM))


@pytest.mark.parametrize(("end", "near"), [(RAM + 48, False), (RAM + 49, True)])
def test_what_units_drop_of_the_last_word_is_no_race(end: int, near: bool) -> None:
    """A reader whose last word goes beyond its buffer, where a copy begins."""
    bench = Bench()
    bench.list((FLASH, RAM + 48, 4096))
    engine = changed(contiguous(64, offset=RAM), address_limit=end + PREFETCH_BYTES - 1)
    epoch = Epoch(1, {"STRENG0": engine}, (), ())
    if not near:
        bench.dma.check(epoch)
        return
    with pytest.raises(InputError, match="reads"):
        bench.dma.check(epoch)


def test_epochs_and_copies_take_turns_at_the_flash() -> None:
    """An epoch that reads flash all the time: both take twice as long; one that does not hides the copy."""
    for external, added in ((1.0, 1.0), (0.0, 0.0)):
        alone, beside = Bench(), Bench()
        for bench in (alone, beside):
            bench.list((FLASH, RAM, 40_000))
        cycles = 40_000
        found = beside.dma.beside(EpochCycles(cycles, 0, "", {"external": external * cycles}))
        assert found == added * cycles
        assert alone.run() == beside.run() == ENDED | IDLE
        late = beside.clock.now - alone.clock.now
        assert late == pytest.approx(external * cycles * 0.8, rel=0.01)  # CPU at 800 MHz, NPU at 1000 MHz
        assert np.array_equal(beside.memory.read(RAM, 40_000), beside.data[:40_000])
