"""The chip as it is after reset: memories that are off, clocks that stop, rights that are missing.

`VirtualBoard(firmware, chip=ChipSetup())` enforces what the reference manual says; without `chip` everything is on and
open. Firmware has to switch on what it uses, as on silicon:

    RAM banks       AXISRAM3 to 6 are shut down (RAMCFG) and, like the NPU cache's RAM and VENCRAM, without a clock
                    (RCC MEMENR). The CPU and the NPU read zeros there and writes are lost. A bank that is powered up
                    holds arbitrary bytes, always the same here. On silicon an access may stop the bus instead.
    registers       of the NPU, CACHEAXI, XSPI and the filters at the NPU and its cache read as zero and ignore writes
                    while their clock is off or they are held in reset. On silicon some of them fault.
    sleep           while the core sleeps (WFI, WFE) the NPU stands still unless the sleep clocks (AHB5LPENR, MEMLPENR)
                    of itself and of every memory that its epoch uses are on.
    rights          every access of the NPU is judged by RISAF4 or 5 (its bus interfaces) and the RISAF of the memory:
                    see `rights`.
    external memory is there while its XSPI controller is clocked, enabled and memory-mapped (CR: EN, FMODE 3): XSPI1 at
                    0x90000000, XSPI2 at 0x70000000, XSPI3 at 0x80000000. Else the CPU faults (the run ends and says
                    so) and the NPU reads zeros.
    NPU cache       while CACHEAXI is on, cacheable reads of external memory give what was there at the first of them,
                    until the firmware invalidates; they never end while the cache's RAM has no clock. What the NPU
                    writes reaches memory at once, other than a cache that nobody cleans.

After reset AXISRAM1, AXISRAM2, FLEXRAM and the AHB RAMs have their clocks; that all sleep clocks are off is assumed.

Faults are planted with `StuckBits`, bits that keep their value whatever a firmware writes: so a firmware that sets
everything right behaves like one that forgot a step. `FAULTS` names those of first hours; several are joined by
`faults("npu_clock_off", "axisram3_shutdown")`. Wrong contents of the flash are planted by `board.poke` or
`board.memory.write` before the run, a data cache that nobody cleans by `ChipSetup(deaf_cache=True)` on a board with
`data_cache=True`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from atonc.machine.base import words
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.peripherals import base_of
from atonc.machine.emu.bus import canonical

RCC, RAMCFG, RIFSC, _CACHE = base_of("RCC"), base_of("RAMCFG"), base_of("RIFSC"), base_of("CACHEAXI")
MEMENR, MEMLPENR = 0x24C, 0x28C
AHB5ENR, AHB5LPENR, AHB5RSTR = 0x260, 0x2A0, 0x220
NPU_BIT, CACHE_BIT, CACHE_RAM_BIT = 31, 30, 10
SHUTDOWN = 1 << 20
XSPI_ON, XSPI_MODE = 1 << 0, 3 << 28


@dataclass(frozen=True)
class RamBank:
    name: str
    base: int
    size_bytes: int
    clock: int  # bit of MEMENR and MEMLPENR
    ramcfg: int = 0  # number of its RAMCFG registers; 0: it cannot be shut down
    risaf: int = 0  # its filter; 0: only those of the NPU's and the CPU's way there

    @property
    def end(self) -> int:
        return self.base + self.size_bytes

    @property
    def control(self) -> int:
        """Offset of RAMCFG_AXISRAMxCR."""
        return 0x80 * (self.ramcfg - 1)


BANKS = (
    RamBank("FLEXRAM", 0x3400_0000, 0x6_4000, 9, risaf=7),
    RamBank("AXISRAM1", 0x3406_4000, 0x9_C000, 7, 1, 2),
    RamBank("AXISRAM2", 0x3410_0000, 0x10_0000, 8, 2, 3),
    RamBank("AXISRAM3", 0x3420_0000, 0x7_0000, 0, 3),
    RamBank("AXISRAM4", 0x3427_0000, 0x7_0000, 1, 4),
    RamBank("AXISRAM5", 0x342E_0000, 0x7_0000, 2, 5),
    RamBank("AXISRAM6", 0x3435_0000, 0x7_0000, 3, 6),
    RamBank("CACHEAXIRAM", 0x343C_0000, 0x4_0000, CACHE_RAM_BIT, risaf=8),
    RamBank("VENCRAM", 0x3440_0000, 0x2_0000, 11, risaf=9),
)


@dataclass(frozen=True)
class ExternalWindow:
    name: str  # of the controller
    base: int
    clock: int  # bit of AHB5ENR, AHB5LPENR and AHB5RSTR
    risaf: int

    @property
    def end(self) -> int:
        return self.base + 0x1000_0000


WINDOWS = (
    ExternalWindow("XSPI1", 0x9000_0000, 5, 11),
    ExternalWindow("XSPI2", 0x7000_0000, 12, 12),
    ExternalWindow("XSPI3", 0x8000_0000, 17, 13),
)


def place_of(address: int) -> RamBank | ExternalWindow | None:
    address = canonical(address)
    return next((place for place in (*BANKS, *WINDOWS) if place.base <= address < place.end), None)


@dataclass(frozen=True)
class StuckBits:
    """Bits of a register (its secure address) that keep their value."""

    address: int
    mask: int
    value: int = 0


@dataclass(frozen=True)
class ChipSetup:
    """What a chip is before its firmware starts: registers by address that an earlier stage has set, and faults."""

    words: Mapping[int, int] = field(default_factory=dict)
    stuck: tuple[StuckBits, ...] = ()
    silent: frozenset[str] = frozenset()  # units of the NPU that do not answer
    deaf_cache: bool = False  # maintenance of the CPU's data cache does nothing

    def __add__(self, other: ChipSetup) -> ChipSetup:
        """Both: all bits that one of them sets; where stuck bits disagree, the later ones."""
        words = {place: self.words.get(place, 0) | other.words.get(place, 0) for place in {*self.words, *other.words}}
        stuck = (*self.stuck, *other.stuck)
        return ChipSetup(words, stuck, self.silent | other.silent, self.deaf_cache or other.deaf_cache)


def mapped(*controllers: str) -> ChipSetup:
    """What a loader leaves that has mapped these memories: XSPI1 (RAM of the DK), XSPI2 (flash)."""
    clocks = sum(1 << window.clock for window in WINDOWS if window.name in controllers)
    return ChipSetup({RCC + AHB5ENR: clocks} | {base_of(name): XSPI_ON | XSPI_MODE for name in controllers})


# ------------------------------------------------------------------------------------------------------ planted faults


def _rcc_off(register: int, bit: int) -> ChipSetup:
    return ChipSetup(stuck=(StuckBits(RCC + register, 1 << bit),))


def _region(risaf: int, config: int, compartments: int) -> ChipSetup:
    """A region over everything, which firmware that sets its regions one after the other cannot take away."""
    first = base_of(f"RISAF{risaf}") + 0x40
    words = {first + 4 * k: word for k, word in enumerate((config, 0, 0xFFFF_F000, compartments))}
    words |= {first + 0x40 * k: 0 for k in range(1, 15)}
    return ChipSetup(stuck=tuple(StuckBits(address, 0xFFFF_FFFF, word) for address, word in words.items()))


def _joined(setups: Iterable[ChipSetup]) -> ChipSetup:
    joined = ChipSetup()
    for setup in setups:
        joined += setup
    return joined


_SECURE = 1 << 8 | 1  # enabled
_READ, _WRITE = 0xFF, 0xFF << 16
_CLOSED = {"read": _WRITE, "write": _READ, "compartment": ~(1 << 1 | 1 << 17) & (_READ | _WRITE)}
_NPU_RISAFS, _CPU_RAM_RISAFS, _FLASH_RISAF, _HYPERRAM_RISAF = (4, 5), (2, 3, 7), (12,), (11,)


def _rights_faults() -> dict[str, ChipSetup]:
    filters = {"npu": _NPU_RISAFS, "cpu_ram": _CPU_RAM_RISAFS, "flash": _FLASH_RISAF, "hyperram": _HYPERRAM_RISAF}
    return {
        f"{name}_{kind}_refused": _joined(_region(number, _SECURE, allowed) for number in numbers)
        for name, numbers in filters.items()
        for kind, allowed in _CLOSED.items()
    }


FAULTS: Mapping[str, ChipSetup] = {
    **{
        f"{bank.name.lower()}_shutdown": ChipSetup(stuck=(StuckBits(RAMCFG + bank.control, SHUTDOWN, SHUTDOWN),))
        for bank in BANKS
        if bank.ramcfg >= 2
    },
    **{f"{bank.name.lower()}_clock_off": _rcc_off(MEMENR, bank.clock) for bank in BANKS[2:]},
    **{f"{bank.name.lower()}_sleep_clock_off": _rcc_off(MEMLPENR, bank.clock) for bank in BANKS[:8]},
    "npu_clock_off": _rcc_off(AHB5ENR, NPU_BIT),
    "npu_in_reset": ChipSetup(stuck=(StuckBits(RCC + AHB5RSTR, 1 << NPU_BIT, 1 << NPU_BIT),)),
    "npu_sleep_clock_off": _rcc_off(AHB5LPENR, NPU_BIT),
    "cache_clock_off": _rcc_off(AHB5ENR, CACHE_BIT),
    "cache_sleep_clock_off": _rcc_off(AHB5LPENR, CACHE_BIT),
    "rimc_not_set": ChipSetup(stuck=(StuckBits(RIFSC + 0xC14, 0xFFFF_FFFF),)),
    "npu_not_secure": ChipSetup(stuck=(StuckBits(RIFSC + 0x10 + 4 * 3, 1 << 10),)),
    **_rights_faults(),
    **{f"{window.name.lower()}_clock_off": _rcc_off(AHB5ENR, window.clock) for window in WINDOWS[:2]},
    **{f"{window.name.lower()}_sleep_clock_off": _rcc_off(AHB5LPENR, window.clock) for window in WINDOWS[:2]},
    **{
        f"{window.name.lower()}_not_mapped": ChipSetup(stuck=(StuckBits(base_of(window.name), XSPI_MODE),))
        for window in WINDOWS[:2]
    },
    "npu_slow": ChipSetup(stuck=(StuckBits(RCC + 0xD8, 0xFF << 16, 0xFF << 16),)),  # IC6 divides by 256
    "controller_silent": ChipSetup(silent=frozenset({"EPOCHCTRL0"})),
    **{f"engine{number}_silent": ChipSetup(silent=frozenset({f"STRENG{number}"})) for number in range(10)},
    "data_cache_deaf": ChipSetup(deaf_cache=True),
    "npu_cache_deaf": ChipSetup(stuck=(StuckBits(_CACHE, 1 << 1), StuckBits(_CACHE + 0x100, 1 << 0))),  # CR1, CR2
}


def faults(*names: str) -> ChipSetup:
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise InputError(f"no fault is called {unknown[0]}", remedy=words.instead(unknown[0], FAULTS))
    return _joined(FAULTS[name] for name in names)
