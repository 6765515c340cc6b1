"""What a strict chip lets the stream engines of an epoch see and write, and what the NPU's cache keeps back."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.emu.board.chip import AHB5ENR, MEMENR, ChipSetup, faults, mapped
from atonc.machine.emu.board.peripherals import Accesses, Peripherals, Terminal
from atonc.machine.emu.board.strict import StrictChip
from atonc.machine.emu.board.system import Clock, Nvic
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.units.stream_engine import StrengConfig

RAM3, RAM4, HYPERRAM = 0x3420_0000, 0x3427_0000, 0x9000_0000
RCC, RIFSC, RISAF4, CACHE = 0x5602_8000, 0x5402_4000, 0x5402_9000, 0x580D_FC00
BYTES = 256
READY = mapped("XSPI1") + ChipSetup(
    {
        RCC + MEMENR: 0x17FF,
        RCC + AHB5ENR: 1 << 31 | 1 << 30 | 1 << 5,
        RIFSC + 0xC14: 0x310,
        RIFSC + 0x1C: 1 << 10,
        **{0x5202_3000 + 0x80 * bank: 0 for bank in range(2, 6)},
    }
)


def engine(address: int, to_memory: int) -> StrengConfig:
    return StrengConfig(
        raw=1,
        size0=8,
        fsize_low=BYTES,
        frames=1,
        frame_limit_enabled=1,
        cacheable=1,
        address=address,
        to_memory=to_memory,
    )


class Surroundings:
    """Engine 0 copies BYTES bytes from one address to another, where engine 5 writes them."""

    def __init__(self, setup: ChipSetup = READY) -> None:
        peripherals = Peripherals(Clock(), Nvic(), Terminal(), Accesses())
        self.chip = StrictChip(setup, peripherals, Nvic(), stm32n6())
        self.chip.update()
        self.device = peripherals.devices
        self.memory = AddressSpace()
        self.memory.add("RAM", 0x3400_0000, 0x40_0000)
        self.memory.add("hyperRAM", HYPERRAM, 0x1_0000)

    def copy(self, source: int, target: int) -> None:
        units = {"STRENG0": engine(source, to_memory=0), "STRENG5": engine(target, to_memory=1)}
        self.chip.run(Epoch(1, units, (), ()), self.memory, self._copied)

    @staticmethod
    def _copied(epoch: Epoch, memory: AddressSpace) -> None:
        """Reads before it writes, as an epoch does."""
        (reader, source), (writer, target) = ((name, config.address) for name, config in epoch.engines().items())
        seen, written = memory.region_for(reader, source), memory.region_for(writer, target)
        assert seen is not None and written is not None
        data = seen.data[source - seen.base :][:BYTES].copy()
        written.data[target - written.base :][:BYTES] = data

    def filled(self, address: int, seed: int) -> Bytes:
        data = np.random.default_rng(seed).integers(1, 256, BYTES).astype(np.uint8)
        self.memory.write(address, data)
        return data


def test_the_config_reaches_as_many_bytes_as_the_test_copies() -> None:
    assert engine(RAM3, to_memory=0).span() == (RAM3, RAM3 + BYTES)


def test_what_is_on_and_open_is_copied() -> None:
    made = Surroundings()
    data = made.filled(RAM3, 1)
    made.copy(RAM3, RAM4)
    assert np.array_equal(made.memory.read(RAM4, BYTES), data) and not made.memory.seen


@pytest.mark.parametrize("fault", ["axisram3_shutdown", "axisram3_clock_off"])
def test_a_bank_that_is_off_reads_as_zero(fault: str) -> None:
    made = Surroundings(READY + faults(fault))
    data = made.filled(RAM3, 1)
    made.copy(RAM3, RAM4)
    assert not made.memory.read(RAM4, BYTES).any()
    assert np.array_equal(made.memory.read(RAM3, BYTES), data)  # the NPU did not change it


def test_a_bank_that_is_off_takes_nothing() -> None:
    made = Surroundings(READY + faults("axisram4_clock_off"))
    made.filled(RAM3, 1)
    before = made.filled(RAM4, 2)
    made.copy(RAM3, RAM4)
    assert np.array_equal(made.memory.read(RAM4, BYTES), before)


def test_rights_end_in_the_middle_of_a_buffer() -> None:
    """The filter of bus interface 0 closes half of what engine 0 reads; that of interface 1 is not asked."""
    made = Surroundings()
    for place, word in zip((0x40, 0x44, 0x48, 0x4C), (0x101, RAM3, RAM3 + BYTES // 2 - 1, 0x00FF_0000), strict=True):
        made.device.write(RISAF4 + place, 4, word)
    data = made.filled(RAM3, 1)
    made.copy(RAM3, RAM4)
    found = made.memory.read(RAM4, BYTES)
    assert not found[: BYTES // 2].any() and np.array_equal(found[BYTES // 2 :], data[BYTES // 2 :])
    assert made.chip.risafs[4].read(0x08) == 2 and made.chip.risafs[5].read(0x08) == 0


# ----------------------------------------------------------------------------------------------------- the NPU's cache


def test_the_cache_gives_what_it_read_first() -> None:
    made = Surroundings()
    made.device.write(CACHE, 4, 1)
    old = made.filled(HYPERRAM, 1)
    made.copy(HYPERRAM, RAM4)
    new = made.filled(HYPERRAM, 2)
    made.copy(HYPERRAM, RAM4)
    assert np.array_equal(made.memory.read(RAM4, BYTES), old)
    made.device.write(CACHE, 4, 1 | 1 << 1)
    made.copy(HYPERRAM, RAM4)
    assert np.array_equal(made.memory.read(RAM4, BYTES), new)


def test_lines_are_invalidated_by_address() -> None:
    made = Surroundings()
    made.device.write(CACHE, 4, 1)
    old = made.filled(HYPERRAM, 1)
    made.copy(HYPERRAM, RAM4)
    new = made.filled(HYPERRAM, 2)
    made.device.write(CACHE + 0x104, 4, HYPERRAM + 64)
    made.device.write(CACHE + 0x108, 4, HYPERRAM + 127)
    for command in (1 << 1, 3 << 1):  # clean, then clean and invalidate
        made.device.write(CACHE + 0x100, 4, command | 1)
        made.copy(HYPERRAM, RAM4)
        found = made.memory.read(RAM4, BYTES)
        middle = new if command == 3 << 1 else old
        assert np.array_equal(found, np.concatenate([old[:64], middle[64:128], old[128:]]))


@pytest.mark.parametrize("way", ["off", "reset", "written by the NPU", "on the chip"])
def test_nothing_is_stale(way: str) -> None:
    made = Surroundings()
    made.device.write(CACHE, 4, 0 if way == "off" else 1)
    source = RAM3 if way == "on the chip" else HYPERRAM
    made.filled(source, 1)
    made.copy(source, RAM4)
    if way == "written by the NPU":
        new = made.filled(RAM3, 2)
        made.copy(RAM3, HYPERRAM)
    else:
        new = made.filled(source, 2)
    if way == "reset":
        made.device.write(RCC + 0x800 + 0x220, 4, 1 << 30)
        made.device.write(RCC + 0x1000 + 0x220, 4, 1 << 30)
        made.device.write(CACHE, 4, 1)
    made.copy(source, RAM4)
    assert np.array_equal(made.memory.read(RAM4, BYTES), new)


def test_a_cache_that_ignores_invalidation() -> None:
    made = Surroundings(READY + faults("npu_cache_deaf"))
    made.device.write(CACHE, 4, 1)
    old = made.filled(HYPERRAM, 1)
    made.copy(HYPERRAM, RAM4)
    made.filled(HYPERRAM, 2)
    made.device.write(CACHE, 4, 1 | 1 << 1)
    made.copy(HYPERRAM, RAM4)
    assert np.array_equal(made.memory.read(RAM4, BYTES), old)


def test_the_npu_waits_for_a_cache_whose_ram_has_no_clock() -> None:
    made = Surroundings(READY + faults("cacheaxiram_clock_off"))
    made.device.write(CACHE, 4, 1)
    with pytest.raises(InputError, match="STRENG0 waits for the NPU cache: CACHEAXIRAM has no clock"):
        made.copy(HYPERRAM, RAM4)
    made.copy(RAM3, RAM4)


@pytest.mark.parametrize(
    ("bits", "cause"),
    [
        ({"AHB5": 1 << 31 | 1 << 30 | 1 << 5, "MEM": 0x7FF}, ""),
        ({"AHB5": 1 << 30 | 1 << 5, "MEM": 0x7FF}, "the NPU has no clock"),
        ({"AHB5": 1 << 31 | 1 << 5, "MEM": 0x7FF}, "the NPU cache has no clock"),
        ({"AHB5": 1 << 31 | 1 << 30, "MEM": 0x7FF}, "XSPI1 has no clock"),
        ({"AHB5": 1 << 31 | 1 << 30 | 1 << 5, "MEM": 0x3FF}, "the NPU cache's RAM has no clock"),
        ({"AHB5": 1 << 31 | 1 << 30 | 1 << 5, "MEM": 0x7FD}, "AXISRAM4 has no clock"),
        ({"AHB5": 1 << 31 | 1 << 30 | 1 << 5, "MEM": 0x7FE}, ""),  # AXISRAM3 has no part in it
    ],
)
def test_clocks_in_sleep_of_what_takes_part(bits: dict[str, int], cause: str) -> None:
    made = Surroundings()
    made.device.write(CACHE, 4, 1)
    made.device.write(RCC + 0x2A0, 4, bits["AHB5"])
    made.device.write(RCC + 0x28C, 4, bits["MEM"])
    made.chip.begin()
    made.copy(HYPERRAM, RAM4)
    said = made.chip.stalls_in_sleep()
    assert said.startswith(f"{cause} in sleep") if cause else said == ""
