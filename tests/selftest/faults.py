"""What can be wrong in a first hour, each with what the self-test must say: all of it, in that order, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.emu.board.board import VirtualBoard
from atonc.machine.emu.board.chip import ChipSetup, StuckBits, faults
from atonc.machine.emu.board.peripherals import base_of
from atonc.machine.emu.board.system import INVALIDATE, CachedMemory
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw.epoch import Epoch
from tests.selftest.bench import WEIGHTS, Planted

RCC = base_of("RCC")
CLEAN_NOTHING, CLEAN_SIZE_AS_END, CLEAN_FIRST_LINE, INVALIDATE_NOTHING = 1, 2, 4, 8
WITH_CACHE_RAM, WITH_DTCM, NPU_STARTED, NEVER_SLEEPS, OTHER_ADDRESS = 16, 32, 64, 128, 256


@dataclass(frozen=True)
class Fault:
    name: str
    planted: Planted
    says: tuple[str, ...]  # names of findings, with `:detail` where it tells which
    of_network: bool = False  # a chip that computes networks wrongly and everything else right

    def __str__(self) -> str:
        return self.name


def _chip(name: str, *says: str) -> Fault:
    """Faults that the chip knows by name, several joined by +."""
    return Fault(name, Planted(faults(*name.split("+"))), says)


def _stuck(name: str, address: int, mask: int, value: int, *says: str) -> Fault:
    return Fault(name, Planted(ChipSetup(stuck=(StuckBits(address, mask, value),))), says)


def _firmware(name: str, bits: int, *says: str) -> Fault:
    return Fault(name, Planted(firmware=bits), says)


def _board(name: str, change: Callable[[VirtualBoard], None], *says: str, of_network: bool = False) -> Fault:
    return Fault(name, Planted(board=change), says, of_network)


def _region(risaf: int, config: int, compartments: int, first: int = 0, last: int = 0xFFFF_FFFF) -> ChipSetup:
    """A region of a filter, instead of all others."""
    base = base_of(f"RISAF{risaf}")
    words = (config, first, last, compartments)
    own = tuple(StuckBits(base + 0x40 + 4 * k, 0xFFFF_FFFF, word) for k, word in enumerate(words))
    return ChipSetup(stuck=(*own, *_no_regions(risaf)[1:]))


def _no_regions(risaf: int) -> tuple[StuckBits, ...]:
    return tuple(StuckBits(base_of(f"RISAF{risaf}") + 0x40 * (k + 1), 0xFFFF_FFFF) for k in range(11))


# ---------------------------------------------------------------------------------------------------- on the board


def _weights(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[VirtualBoard], None]:
    def planted(board: VirtualBoard) -> None:
        data = board.memory.view(WEIGHTS, 0x2000)
        data[:] = change(data.copy())

    return planted


def _moved(data: np.ndarray) -> np.ndarray:
    """0x400 bytes behind where they should be: an image with a header in front."""
    return np.concatenate([np.full(0x400, 0xFF, np.uint8), data])[: data.size]


def _one_bit(data: np.ndarray) -> np.ndarray:
    data[5000] ^= 1
    return data


def _half(data: np.ndarray) -> np.ndarray:
    data[4096:] = 0xFF
    return data


def _other_network(data: np.ndarray) -> np.ndarray:
    return np.concatenate([data[:7000][::-1], data[7000:]])


def _epochs_of(kind: str, change: Callable[[Epoch, AddressSpace], None]) -> Callable[[VirtualBoard], None]:
    """Another chip for epochs that have such a unit; "" stands for those that only copy."""

    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        kinds = {name.rstrip("0123456789") for name in epoch.units} - {"STRENG", "STRSWITCH", "CLKCTRL"}
        if kind in kinds or (not kind and not kinds):
            change(epoch, memory)
        else:
            run_epoch(epoch, memory)

    def planted(board: VirtualBoard) -> None:
        board.npu.execute = execute

    return planted


def _wrong_byte(epoch: Epoch, memory: AddressSpace) -> None:
    run_epoch(epoch, memory)
    for writer in epoch.writers().values():
        memory.view(writer.address, 1)[0] ^= 0x40


def _never_ends(epoch: Epoch, memory: AddressSpace) -> None:
    raise InputError("an engine that waits for ever")


def _controller_hangs(board: VirtualBoard) -> None:
    board.npu._start_program = lambda unit: None  # type: ignore[method-assign]


def _controller_reads_zeros(board: VirtualBoard) -> None:
    assert board.chip is not None
    board.chip.fetch = lambda memory, address, size: np.zeros(size, np.uint8)  # type: ignore[method-assign]


def _dead_ram(board: VirtualBoard) -> None:
    """VENCRAM that keeps nothing although all registers are right: what leaves the cache is lost."""
    cache = board.cache
    assert cache is not None
    apply = cache._apply

    def lossy(operation: int, part: CachedMemory, start: int, size: int) -> None:
        apply(INVALIDATE if part.base == 0x3440_0000 else operation, part, start, size)

    cache._apply = lossy  # type: ignore[method-assign]


def _subregion(board: VirtualBoard) -> None:
    """Something that the registers of base regions do not explain: the NPU's writes to AXISRAM2 are refused."""
    assert board.chip is not None
    status = board.chip.risafs[3].words

    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        kept = memory.read(0x3410_0000, 0x10_0000)
        run_epoch(epoch, memory)
        if not np.array_equal(kept, memory.read(0x3410_0000, 0x10_0000)):
            memory.write(0x3410_0000, kept)
            status[0x08], status[0x24] = 2, 0x3410_0000

    board.npu.execute = execute


def _slow_npu(board: VirtualBoard) -> None:
    board.npu.ratio = lambda: 8.0


def _busy(board: VirtualBoard) -> None:
    board.npu.running.add("STRENG3")


def _strange_arith(board: VirtualBoard) -> None:
    board.npu.versions["ARITH"] = 0x201A


# ------------------------------------------------------------------------------------------------------------- rows

_ALL, _OPEN = 0xFFFF_FFFF, 0x00FF_00FF
_SECURE, _OTHERS = 1 << 8 | 1, 1
_OLD_REFUSAL = ChipSetup(stuck=(StuckBits(base_of("RISAF3") + 8, 2, 2),))

FAULTS = (
    # clocks and power
    _chip("npu_clock_off", "NPU_CLOCK"),
    _chip("npu_in_reset", "NPU_RESET"),
    *(_chip(f"axisram{n}_clock_off", f"RAM_CLOCK:{n}") for n in (3, 6)),
    _chip("vencram_clock_off", "RAM_CLOCK:8"),
    *(_chip(f"axisram{n}_shutdown", f"RAM_SHUTDOWN:{n}") for n in (3, 4, 5, 6)),
    _stuck("axisram4_in_reset", RCC + 0x20C, 1 << 1, 1 << 1, "RAM_RESET:4"),
    _chip("cache_clock_off", "CACHE_CLOCK"),
    _stuck("cache_in_reset", RCC + 0x220, 1 << 30, 1 << 30, "CACHE_RESET"),
    _stuck("cache_off", base_of("CACHEAXI"), 1, 0, "CACHE_OFF"),
    _chip("cacheaxiram_clock_off", "RAM_CLOCK:7"),
    _firmware("cache_ram_as_memory", WITH_CACHE_RAM, "CACHE_RAM"),
    # clocks in sleep
    _chip("npu_sleep_clock_off", "NPU_SLEEP"),
    _chip("axisram5_sleep_clock_off", "RAM_SLEEP:5"),
    _chip("cache_sleep_clock_off", "CACHE_SLEEP"),
    _chip("xspi2_sleep_clock_off", "XSPI_SLEEP:10"),
    # external memories
    _chip("xspi2_clock_off", "XSPI_CLOCK:10"),
    _chip("xspi1_clock_off", "XSPI_CLOCK:9"),
    _stuck("xspi2_in_reset", RCC + 0x220, 1 << 12, 1 << 12, "XSPI_RESET:10"),
    _stuck("xspi1_disabled", base_of("XSPI1"), 1, 0, "XSPI_OFF:9"),
    _chip("xspi2_not_mapped", "XSPI_MODE:10"),
    _board("flash_erased", _weights(lambda data: np.full_like(data, 0xFF)), "FLASH_EMPTY:0"),
    _board("flash_half_written", _weights(_half), "FLASH_EMPTY:1"),
    _board("flash_shifted", _weights(_moved), "FLASH_SHIFTED"),
    _board("flash_one_bit", _weights(_one_bit), "WEIGHTS_CRC:1"),
    _board("flash_of_another_network", _weights(_other_network), "WEIGHTS_CRC:0"),
    # rights
    _chip("rimc_not_set+npu_not_secure", *(f"NPU_MASTER:{filter}" for filter in (2, 3, 9, 11, 12))),
    _chip("npu_not_secure", "NPU_SLAVE"),
    Fault("npu_other_security", Planted(_region(4, _OTHERS, _OPEN)), ("RISAF_SECURITY:4",)),
    Fault(
        "npu_not_privileged",
        Planted(ChipSetup(stuck=(StuckBits(0x5402_4C14, 1 << 9, 0),)) + _region(5, _SECURE | 0xFF << 16, _OPEN)),
        ("RISAF_PRIVILEGE:5", *(f"NPU_MASTER:{filter}" for filter in (2, 3, 9, 11, 12))),
    ),
    _chip("npu_read_refused", "RISAF_READ:4", "RISAF_READ:5"),
    _chip("npu_write_refused", "RISAF_WRITE:4", "RISAF_WRITE:5"),
    _chip("flash_compartment_refused", "RISAF_READ:12"),
    Fault("npu_part_of_a_bank", Planted(_region(4, _SECURE, 0xFF, 0x2435_0000, 0x2435_FFFF)), ("RISAF_WRITE:4",)),
    Fault("cpu_refused", Planted(_region(6, _SECURE, 0xFD00FD)), ("RISAF_CPU:6",)),
    _board("refused_by_a_subregion", _subregion, "ENGINE_BYTES:2", "ILLEGAL_ACCESS:3"),
    # caches of the CPU
    _firmware("clean_does_nothing", CLEAN_NOTHING, "CACHE_CLEAN"),
    _firmware("clean_takes_size_as_end", CLEAN_SIZE_AS_END, "CACHE_CLEAN"),
    _firmware("clean_of_one_line", CLEAN_FIRST_LINE, "CACHE_CLEAN"),
    _firmware("invalidate_does_nothing", INVALIDATE_NOTHING, "CACHE_INVALIDATE"),
    # the NPU itself
    _board("npu_of_another_chip", _strange_arith, "NPU_VERSION:23"),
    _chip("controller_silent", "NPU_VERSION:30"),
    _chip("engine5_silent", *(f"ENGINE_BYTES:{bank}" for bank in (1, 2, 3, 4, 5, 6, 8, 9))),
    _firmware("runtime_at_the_other_address", OTHER_ADDRESS, "NPU_ADDRESS"),
    Fault("npu_busy", Planted(firmware=NPU_STARTED, board=_busy), ("NPU_BUSY:8",)),
    _board("engines_hang", _epochs_of("", _never_ends), "ENGINE_HANGS:1"),
    _board("engines_copy_wrong", _epochs_of("", _wrong_byte), *(f"ENGINE_BYTES:{k}" for k in (1, 2, 3, 4, 5, 6, 8, 9))),
    _board("ram_keeps_nothing", _dead_ram, "RAM_CPU:8"),
    _board("controller_hangs", _controller_hangs, "CONTROLLER_HANGS"),
    _board("controller_reads_zeros", _controller_reads_zeros, "CONTROLLER_ERROR"),
    _board("sums_wrong", _epochs_of("ARITH", _wrong_byte), "PROBE_BYTES:0"),
    _board("npu_slower_than_its_registers_say", _slow_npu, "PROBE_TIME"),
    # clocks
    _chip("npu_slow", "NPU_RATE"),
    _stuck("cpu_slow", RCC + 0xC4, 0xFF << 16, 3 << 16, "CPU_RATE"),
    _stuck("npu_ram_slow", RCC + 0xEC, 0xFF << 16, 1 << 16, "NPU_RAM_RATE"),
    _firmware("buffer_in_dtcm", WITH_DTCM, "MAP:6"),
    # a network that is computed wrongly where everything else is right
    _board("convolutions_wrong", _epochs_of("CONVACC", _wrong_byte), "NETWORK_OUTPUT:0", of_network=True),
    _board("convolutions_hang", _epochs_of("CONVACC", _never_ends), "NETWORK_RUN", of_network=True),
    # pairs
    _chip("npu_clock_off+axisram3_shutdown", "NPU_CLOCK", "RAM_SHUTDOWN:3"),
    _chip("axisram3_shutdown+axisram3_clock_off", "RAM_CLOCK:3", "RAM_SHUTDOWN:3"),
    _chip("axisram6_shutdown+npu_sleep_clock_off", "NPU_SLEEP", "RAM_SHUTDOWN:6"),
    _chip("xspi2_not_mapped+axisram4_shutdown", "RAM_SHUTDOWN:4", "XSPI_MODE:10"),
    _chip("npu_not_secure+axisram5_shutdown", "RAM_SHUTDOWN:5", "NPU_SLAVE"),
    _chip("npu_write_refused+flash_read_refused", "RISAF_WRITE:4", "RISAF_WRITE:5", "RISAF_READ:12"),
    _firmware("both_cache_functions", CLEAN_NOTHING | INVALIDATE_NOTHING, "CACHE_CLEAN", "CACHE_INVALIDATE"),
    Fault("npu_slow_and_clean", Planted(faults("npu_slow"), CLEAN_NOTHING), ("NPU_RATE", "CACHE_CLEAN")),
    Fault("flash_and_old_refusal", Planted(_OLD_REFUSAL, 0, _weights(_one_bit)), ("WEIGHTS_CRC:1", "ILLEGAL_ACCESS:3")),
    Fault(
        "flash_erased_and_sleep",
        Planted(faults("xspi2_sleep_clock_off"), 0, _weights(lambda data: np.full_like(data, 0xFF))),
        ("XSPI_SLEEP:10",),  # the network's own test, which has the checksums, comes after the one of all memories
    ),
)

SOUND = (
    Fault("sound", Planted(), ()),
    Fault("sound_after_an_old_refusal", Planted(_OLD_REFUSAL), ()),
    Fault("sound_without_regions", Planted(ChipSetup(stuck=(*_no_regions(4), *_no_regions(5)))), ()),
    Fault("sound_without_sleep", Planted(faults("npu_sleep_clock_off", "axisram4_sleep_clock_off"), NEVER_SLEEPS), ()),
)
