"""What a strict chip makes of its registers: memories that are there or not, registers that answer or not, and what the
NPU may reach. `chip` says what is enforced and how faults are planted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import InputError
from atonc.machine.emu.board.chip import (
    AHB5ENR,
    AHB5LPENR,
    AHB5RSTR,
    BANKS,
    CACHE_BIT,
    CACHE_RAM_BIT,
    MEMENR,
    MEMLPENR,
    NPU_BIT,
    SHUTDOWN,
    WINDOWS,
    XSPI_MODE,
    XSPI_ON,
    ChipSetup,
    ExternalWindow,
    RamBank,
    place_of,
)
from atonc.machine.emu.board.peripherals import FIREWALL_BYTES, Device, NpuCache, Peripherals, WordRegisters, base_of
from atonc.machine.emu.board.rights import IAC_INTERRUPT, IAC_NPU, IllegalAccesses, Rifsc, Risaf
from atonc.machine.emu.board.system import Nvic
from atonc.machine.emu.bus import AddressSpace, Bytes, MemoryRegion, canonical
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import Machine
from atonc.machine.hw.units.stream_engine import StrengConfig

_RESET_MEMENR = 0x13F0  # AXISRAM1 and 2, FLEXRAM, AHB and backup RAMs, boot ROM: what ST's validation restores
_SIZES = {"RAMCFG": 0x800, "CACHEAXI": 0x400, "XSPI1": 0x400, "XSPI2": 0x400, "XSPI3": 0x400}  # others are 4 KB
# RAMCFG, RIFSC, IAC and the other RISAFs have clock bits too; ST's applications write to RAMCFG and RISAF without them
_CLOCKS = {
    "CACHEAXI": (AHB5ENR, CACHE_BIT),
    "XSPI1": (AHB5ENR, 5), "XSPI2": (AHB5ENR, 12), "XSPI3": (AHB5ENR, 17),
    "RISAF4": (AHB5ENR, NPU_BIT), "RISAF5": (AHB5ENR, NPU_BIT), "RISAF8": (MEMENR, CACHE_RAM_BIT),
}  # fmt: skip


class ClockGate:
    """Registers that read as zero and ignore writes while `is_open` says no."""

    def __init__(self, device: Device, is_open: Callable[[], bool]) -> None:
        self.device, self.is_open, self.narrow = device, is_open, device.narrow

    def read(self, offset: int) -> int:
        return self.device.read(offset) if self.is_open() else 0

    def write(self, offset: int, value: int) -> None:
        if self.is_open():
            self.device.write(offset, value)


_CR1, _CR2, _FIRST, _LAST = 0x00, 0x100, 0x104, 0x108
_INVALIDATE_ALL, _BY_ADDRESS, _CACHE_LINE = 1 << 1, 1 << 0 | 1 << 2, 64


class StaleNpuCache(NpuCache):
    """CACHEAXI with what it holds: a line stays as it was when the NPU first read it, until it is invalidated."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[int, tuple[Bytes, NDArray[np.bool_]]] = {}  # by base of the memory: bytes, lines that count

    def write(self, offset: int, value: int) -> None:
        mask, bits = self.stuck.get(offset, (0, 0))
        wanted = value & ~mask | bits
        if offset == _CR1 and (wanted & _INVALIDATE_ALL or not wanted & 1):
            self._held.clear()
        elif offset == _CR2 and wanted & _BY_ADDRESS == _BY_ADDRESS:
            self._invalidate(self.words.get(_FIRST, 0), self.words.get(_LAST, 0))
        super().write(offset, value)

    def reset(self) -> None:
        super().reset()
        self._held.clear()

    def _invalidate(self, first: int, last: int) -> None:
        for base, (_, valid) in self._held.items():
            valid[max(0, (first - base) // _CACHE_LINE) : max(0, (last - base) // _CACHE_LINE + 1)] = False

    def seen(self, region: MemoryRegion, start: int, end: int) -> MemoryRegion:
        """The memory as a read through the cache finds it; the memory itself where nothing is stale."""
        bytes_held, valid = self._lines(region)
        lines = slice((start - region.base) // _CACHE_LINE, (end - 1 - region.base) // _CACHE_LINE + 1)
        now, held = (data.reshape(-1, _CACHE_LINE)[lines] for data in (region.data, bytes_held))
        held[~valid[lines]] = now[~valid[lines]]
        valid[lines] = True
        if np.array_equal(now, held):
            return region
        data = region.data.copy()
        data.reshape(-1, _CACHE_LINE)[lines] = held
        return MemoryRegion(region.name, region.base, data)

    def wrote(self, region: MemoryRegion, start: int, end: int) -> None:
        """By the NPU, through the cache."""
        held, _ = self._lines(region)
        held[start - region.base : end - region.base] = region.data[start - region.base : end - region.base]

    def _lines(self, region: MemoryRegion) -> tuple[Bytes, NDArray[np.bool_]]:
        if region.base not in self._held:
            valid = np.zeros(region.data.size // _CACHE_LINE, np.bool_)
            self._held[region.base] = np.zeros_like(region.data), valid
        return self._held[region.base]


class StrictChip:
    """What the registers say about memories, clocks and rights, and what the NPU may therefore do.

    `changed` is called when other memories are there than before, `filled` when a bank has lost its contents.
    """

    def __init__(self, setup: ChipSetup, peripherals: Peripherals, nvic: Nvic, machine: Machine) -> None:
        self.setup, self.silent, self._interfaces = setup, setup.silent, machine.interfaces
        self.rcc = peripherals.clocks
        self.ramcfg = WordRegisters({bank.control: SHUTDOWN for bank in BANKS if bank.ramcfg >= 3})
        self.rifsc, self.cache = Rifsc(), StaleNpuCache()
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
                registers.reset()
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
        return bool(bank.ramcfg and self.ramcfg.words.get(bank.control, 0) & SHUTDOWN)

    def _why_away(self, place: RamBank | ExternalWindow) -> str:
        if isinstance(place, RamBank):
            if self._is_shut(place):
                return f"{place.name} is shut down (RAMCFG_AXISRAM{place.ramcfg}CR bit 20)"
            return "" if self._bit(MEMENR, place.clock) else f"{place.name} has no clock (RCC_MEMENR bit {place.clock})"
        if not self._clocked(AHB5ENR, place.clock):
            return f"{place.name} has no clock or is in reset (RCC_AHB5ENR, AHB5RSTR bit {place.clock})"
        control = self.xspi[place.name].words.get(0, 0)
        ready = control & XSPI_ON and control & XSPI_MODE == XSPI_MODE
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
        lost: list[tuple[Bytes, Bytes]] = []  # parts that are written to, and what they hold before
        cached: list[tuple[MemoryRegion, int, int]] = []  # what the NPU writes through its cache
        for name, config in epoch.engines().items():
            region = memory.region_at(config.address)
            if region is None:
                continue
            start, end = _reach(config, region)
            through_cache = self._takes_cache(name, config, start)
            closed = self.closed(self._interfaces.get(name, 0), bool(config.to_memory), start, end)
            if config.to_memory:
                parts = [region.data[low - region.base : high - region.base] for low, high in closed]
                lost += [(part, part.copy()) for part in parts]
                cached += [(region, start, end)] if through_cache else []
            else:
                seen = self.cache.seen(region, start, end) if through_cache else region
                seen = _without(seen, region, closed)
                memory.seen |= {} if seen is region else {name: seen}
        try:
            execute(epoch, memory)
        finally:
            memory.seen.clear()
        for part, before in lost:
            part[:] = before
        for region, start, end in cached:
            self.cache.wrote(region, start, end)

    def _takes_cache(self, name: str, config: StrengConfig, address: int) -> bool:
        if not (config.cacheable and self.cache.enabled and isinstance(place_of(address), ExternalWindow)):
            return False
        self._cached = True
        if "CACHEAXIRAM" in self.away:
            raise InputError(f"{name} waits for the NPU cache: {self.away['CACHEAXIRAM']}")
        return True

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


def _reach(config: StrengConfig, region: MemoryRegion) -> tuple[int, int]:
    low, high = config.span()
    shift = canonical(low) - low
    return max(low + shift, region.base), min(high + shift, region.end)


def _without(seen: MemoryRegion, region: MemoryRegion, closed: list[tuple[int, int]]) -> MemoryRegion:
    """What is left to see: zeros in what is closed. The memory itself stays as it is."""
    if not closed:
        return seen
    data = region.data.copy() if seen is region else seen.data
    for low, high in closed:
        data[low - region.base : high - region.base] = 0
    return MemoryRegion(region.name, region.base, data)
