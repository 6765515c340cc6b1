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
    NPU cache       an NPU that reads cacheable external memory while CACHEAXI is on and its RAM has no clock never
                    ends. What the cache holds is not modelled.

Reset values that nobody published are chosen: MEMENR has the clocks of AXISRAM1, AXISRAM2, FLEXRAM and the AHB RAMs on,
all sleep clocks are off.

Faults are planted with `StuckBits`, bits that keep their value whatever a firmware writes: so a firmware that sets
everything right behaves like one that forgot a step. `FAULTS` names those of first hours; several are joined by
`faults("npu_clock_off", "axisram3_shutdown")`. Wrong contents of the flash are planted by `board.poke` or
`board.memory.write` before the run, a data cache that nobody cleans by `ChipSetup(deaf_cache=True)` on a board with
`data_cache=True`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import partial

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.peripherals import (
    FIREWALL_BYTES,
    Device,
    NpuCache,
    Peripherals,
    WordRegisters,
    base_of,
)
from atonc.machine.emu.board.rights import IAC_INTERRUPT, IAC_NPU, IllegalAccesses, Rifsc, Risaf
from atonc.machine.emu.board.system import Nvic
from atonc.machine.emu.bus import AddressSpace, Bytes, MemoryRegion, canonical
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import Machine
from atonc.machine.hw.units.stream_engine import StrengConfig

RCC, RAMCFG, RIFSC = base_of("RCC"), base_of("RAMCFG"), base_of("RIFSC")
MEMENR, MEMLPENR = 0x24C, 0x28C
AHB5ENR, AHB5LPENR, AHB5RSTR = 0x260, 0x2A0, 0x220
NPU_BIT, CACHE_BIT, CACHE_RAM_BIT = 31, 30, 10
_RESET_MEMENR = 0x13F0  # AXISRAM1 and 2, FLEXRAM, AHB and backup RAMs, boot ROM: what ST's HAL restores
_SHUTDOWN = 1 << 20
_XSPI_ON, _XSPI_MODE = 1 << 0, 3 << 28
_SIZES = {"RAMCFG": 0x800, "CACHEAXI": 0x400, "XSPI1": 0x400, "XSPI2": 0x400, "XSPI3": 0x400}  # others are 4 KB


# RAMCFG, RIFSC, IAC and the other RISAFs have clock bits too; ST's applications write to RAMCFG and RISAF without them
_CLOCKS = {
    "CACHEAXI": (AHB5ENR, CACHE_BIT),
    "XSPI1": (AHB5ENR, 5), "XSPI2": (AHB5ENR, 12), "XSPI3": (AHB5ENR, 17),
    "RISAF4": (AHB5ENR, NPU_BIT), "RISAF5": (AHB5ENR, NPU_BIT), "RISAF8": (MEMENR, CACHE_RAM_BIT),
}  # fmt: skip


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
        """Both; where they disagree, the later one."""
        words, stuck = {**self.words, **other.words}, (*self.stuck, *other.stuck)
        return ChipSetup(words, stuck, self.silent | other.silent, self.deaf_cache or other.deaf_cache)


def mapped(*controllers: str) -> ChipSetup:
    """What a loader leaves that has mapped these memories: XSPI1 (RAM of the DK), XSPI2 (flash)."""
    clocks = sum(1 << window.clock for window in WINDOWS if window.name in controllers)
    return ChipSetup({RCC + AHB5ENR: clocks} | {base_of(name): _XSPI_ON | _XSPI_MODE for name in controllers})


class ClockGate:
    """Registers that read as zero and ignore writes while `is_open` says no."""

    def __init__(self, device: Device, is_open: Callable[[], bool]) -> None:
        self.device, self.is_open, self.narrow = device, is_open, device.narrow

    def read(self, offset: int) -> int:
        return self.device.read(offset) if self.is_open() else 0

    def write(self, offset: int, value: int) -> None:
        if self.is_open():
            self.device.write(offset, value)


class StrictChip:
    """What the registers say about memories, clocks and rights, and what the NPU may therefore do.

    `changed` is called when other memories are there than before, `filled` when a bank has lost its contents.
    """

    def __init__(self, setup: ChipSetup, peripherals: Peripherals, nvic: Nvic, machine: Machine) -> None:
        self.setup, self.silent, self._interfaces = setup, setup.silent, machine.interfaces
        self.rcc = peripherals.clocks
        self.ramcfg = WordRegisters({bank.control: _SHUTDOWN for bank in BANKS if bank.ramcfg >= 3})
        self.rifsc, self.cache = Rifsc(), NpuCache()
        self.iac = IllegalAccesses(lambda level: nvic.set_line(IAC_INTERRUPT, level))
        self.risafs = {n: Risaf(n, self.iac.note) for n in (*range(1, 10), *range(11, 16), 21, 22, 23)}
        self.xspi = peripherals.xspi
        self.away: dict[str, str] = {}  # places that are not there now, and why
        self.shut: set[str] = set()
        self.changed: Callable[[], None] = lambda: None
        self.filled: Callable[[RamBank, Bytes], None] = lambda bank, data: None
        self.reset_npu: Callable[[], None] = lambda: None
        self._used: set[RamBank | ExternalWindow] = set()  # by what the NPU runs
        self._cached = False  # and whether its cache takes part
        self.rcc.words[MEMENR] = self.rcc.words.get(MEMENR, _RESET_MEMENR)
        self._plant(setup)
        self._connect(peripherals)

    # -------------------------------------------------------------------------------------------------------- building

    def _registers(self) -> dict[str, WordRegisters]:
        return {
            "RCC": self.rcc, "RAMCFG": self.ramcfg, "RIFSC": self.rifsc, "IAC": self.iac, "CACHEAXI": self.cache,
            **{f"RISAF{number}": risaf for number, risaf in self.risafs.items()}, **self.xspi,
        }  # fmt: skip

    def _plant(self, setup: ChipSetup) -> None:
        for address, word in setup.words.items():
            registers, offset = self._register(address)
            registers.words[offset] = word
        for bits in setup.stuck:
            registers, offset = self._register(bits.address)
            mask, value = registers.stuck.get(offset, (0, 0))
            registers.stuck[offset] = mask | bits.mask, value & ~bits.mask | bits.value & bits.mask
        for registers in self._registers().values():
            registers.hold()

    def _register(self, address: int) -> tuple[WordRegisters, int]:
        for name, registers in self._registers().items():
            if 0 <= address - base_of(name) < FIREWALL_BYTES:
                return registers, address - base_of(name)
        raise InputError(f"no register of a chip's set-up is at {address:#010x}")

    def _connect(self, peripherals: Peripherals) -> None:
        add = peripherals.devices.add
        for name, registers in self._registers().items():
            size = _SIZES.get(name, FIREWALL_BYTES)
            if name in _CLOCKS:
                add(name, ClockGate(registers, partial(self._clocked, *_CLOCKS[name])), size)
            elif name != "RCC":
                add(name, registers, size)
        for watched in (self.rcc, self.ramcfg, *self.xspi.values()):
            watched.changed = self.update

    def _bit(self, register: int, bit: int) -> bool:
        return bool(self.rcc.words.get(register, 0) >> bit & 1)

    def _clocked(self, register: int, bit: int) -> bool:
        """With its clock and, where the reset register is known, out of reset."""
        return self._bit(register, bit) and not (register == AHB5ENR and self._bit(AHB5RSTR, bit))

    # -------------------------------------------------------------------------------------------------- what is there

    @property
    def npu_answers(self) -> bool:
        return self._clocked(AHB5ENR, NPU_BIT)

    def npu_open_at(self, secure: bool) -> bool:
        """Whether its registers answer at their secure or other address; a refused access is noted."""
        if not self.npu_answers:
            return False
        if self.rifsc.npu_is_secure and not secure:
            self.iac.note(IAC_NPU)
            return False
        return True

    def update(self) -> None:
        """A register has changed: which memories are there now."""
        if self._bit(AHB5RSTR, NPU_BIT):
            self.reset_npu()
        for bit, registers in ((CACHE_BIT, self.cache), *((w.clock, self.xspi[w.name]) for w in WINDOWS)):
            if self._bit(AHB5RSTR, bit):
                registers.words.clear()
                registers.hold()
        for bank in BANKS:
            self._power(bank)
        away = {place.name: why for place in (*BANKS, *WINDOWS) if (why := self._why_away(place))}
        if away != self.away:
            self.away = away
            self.changed()

    def _power(self, bank: RamBank) -> None:
        shut = self._is_shut(bank)
        if shut != (bank.name in self.shut):
            (self.shut.add if shut else self.shut.discard)(bank.name)
            self.filled(bank, np.zeros(bank.size_bytes, np.uint8) if shut else arbitrary(bank))

    def _is_shut(self, bank: RamBank) -> bool:
        return bool(bank.ramcfg and self.ramcfg.words.get(bank.control, 0) & _SHUTDOWN)

    def _why_away(self, place: RamBank | ExternalWindow) -> str:
        if isinstance(place, RamBank):
            if self._is_shut(place):
                return f"{place.name} is shut down (RAMCFG_AXISRAM{place.ramcfg}CR bit 20)"
            return "" if self._bit(MEMENR, place.clock) else f"{place.name} has no clock (RCC_MEMENR bit {place.clock})"
        if not self._clocked(AHB5ENR, place.clock):
            return f"{place.name} has no clock or is in reset (RCC_AHB5ENR, AHB5RSTR bit {place.clock})"
        control = self.xspi[place.name].words.get(0, 0)
        ready = control & _XSPI_ON and control & _XSPI_MODE == _XSPI_MODE
        return "" if ready else f"{place.name} is not memory-mapped (CR: EN 1, FMODE 3)"

    # ----------------------------------------------------------------------------------------- what the NPU reaches

    def begin(self) -> None:
        """The NPU starts something: what it uses from here on decides whether it goes on in sleep."""
        self._used, self._cached = set(), False

    def closed(self, master: int, writes: bool, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of an address range that an access of the NPU does not reach."""
        access = self.rifsc.npu(writes)
        found = self.risafs[4 + master].refused(access, start, end)
        for place in (*BANKS, *WINDOWS):
            low, high = max(start, place.base), min(end, place.end)
            if low < high:
                self._used.add(place)
                found += [(low, high)] if place.name in self.away else []
                found += self.risafs[place.risaf].refused(access, low, high) if place.risaf else []
        return found

    def fetch(self, memory: AddressSpace, address: int, size_bytes: int) -> Bytes:
        """What the epoch controller reads."""
        data, start = memory.read(address, size_bytes), canonical(address)
        for low, high in self.closed(0, False, start, start + size_bytes):
            data[low - start : high - start] = 0
        return data

    def run(self, epoch: Epoch, memory: AddressSpace, execute: Callable[[Epoch, AddressSpace], None]) -> None:
        """An epoch whose engines read zeros and write nothing where they may not go."""
        self._require_answers(epoch)
        kept: list[tuple[Bytes, Bytes]] = []
        for name, config in epoch.engines().items():
            region = memory.region_at(config.address)
            if region is None:
                continue
            for low, high in self._closed_to(name, config, region):
                part = region.data[low - region.base : high - region.base]
                if config.to_memory:
                    kept.append((part, part.copy()))
                else:
                    memory.seen[name] = _without(memory.seen.get(name, region), region, low, high)
        try:
            execute(epoch, memory)
        finally:
            memory.seen.clear()
        for part, before in kept:
            part[:] = before

    def _closed_to(self, name: str, config: StrengConfig, region: MemoryRegion) -> list[tuple[int, int]]:
        low, high = config.span()
        shift = canonical(low) - low
        start, end = max(low + shift, region.base), min(high + shift, region.end)
        window = place_of(start)
        if isinstance(window, ExternalWindow) and config.cacheable and self.cache.enabled:
            self._cached = True
            if "CACHEAXIRAM" in self.away:
                raise InputError(f"{name} waits for the NPU cache: {self.away['CACHEAXIRAM']}")
        return self.closed(self._interfaces.get(name, 0), bool(config.to_memory), start, end)

    def _require_answers(self, epoch: Epoch) -> None:
        silent = sorted(self.silent & epoch.units.keys())
        if silent:
            raise InputError(f"{silent[0]} does not answer", where=f"epoch {epoch.number}")

    def stalls_in_sleep(self) -> str:
        """Why the NPU stands still while the core sleeps; nothing if it goes on."""
        if not self._bit(AHB5LPENR, NPU_BIT):
            return f"the NPU has no clock in sleep (RCC_AHB5LPENR bit {NPU_BIT})"
        for place in sorted(self._used, key=lambda one: one.base):
            register, name = (MEMLPENR, "MEM") if isinstance(place, RamBank) else (AHB5LPENR, "AHB5")
            if not self._bit(register, place.clock):
                return f"{place.name} has no clock in sleep (RCC_{name}LPENR bit {place.clock})"
        if self._cached and not self._bit(AHB5LPENR, CACHE_BIT):
            return f"the NPU cache has no clock in sleep (RCC_AHB5LPENR bit {CACHE_BIT})"
        if self._cached and not self._bit(MEMLPENR, CACHE_RAM_BIT):
            return f"the NPU cache's RAM has no clock in sleep (RCC_MEMLPENR bit {CACHE_RAM_BIT})"
        return ""


def arbitrary(bank: RamBank) -> Bytes:
    """What a bank holds when it gets power: never zero as a whole, the same in every run."""
    words = np.arange(bank.size_bytes // 4, dtype=np.uint32) * np.uint32(2654435761) ^ np.uint32(bank.base)
    return words.view(np.uint8)


def _without(seen: MemoryRegion, region: MemoryRegion, low: int, high: int) -> MemoryRegion:
    """A copy with zeros between two addresses."""
    data = region.data.copy() if seen is region else seen.data
    data[low - region.base : high - region.base] = 0
    return MemoryRegion(region.name, region.base, data)


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
        f"{bank.name.lower()}_shutdown": ChipSetup(stuck=(StuckBits(RAMCFG + bank.control, _SHUTDOWN, _SHUTDOWN),))
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
        f"{window.name.lower()}_not_mapped": ChipSetup(stuck=(StuckBits(base_of(window.name), _XSPI_MODE),))
        for window in WINDOWS[:2]
    },
    "npu_slow": ChipSetup(stuck=(StuckBits(RCC + 0xD8, 0xFF << 16, 0xFF << 16),)),  # IC6 divides by 256
    "controller_silent": ChipSetup(silent=frozenset({"EPOCHCTRL0"})),
    **{f"engine{number}_silent": ChipSetup(silent=frozenset({f"STRENG{number}"})) for number in range(10)},
    "data_cache_deaf": ChipSetup(deaf_cache=True),
}


def faults(*names: str) -> ChipSetup:
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise InputError(f"no fault is called {unknown[0]}", remedy=f"one of {', '.join(sorted(FAULTS))}")
    return _joined(FAULTS[name] for name in names)
