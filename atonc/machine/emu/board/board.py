"""The board: core, memories, NPU and UART put together; reads a firmware image, loads it and lets it run."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import blocks, dma
from atonc.machine.emu.board.chip import BANKS, WINDOWS, ChipSetup, RamBank, place_of
from atonc.machine.emu.board.core import Core, Halt
from atonc.machine.emu.board.npu import InterruptController, Npu
from atonc.machine.emu.board.peripherals import Accesses, Peripherals, Terminal
from atonc.machine.emu.board.strict import StrictChip, arbitrary
from atonc.machine.emu.board.system import Clock, DataCache, Nvic, SystemControl
from atonc.machine.emu.bus import AddressSpace, Bytes, canonical
from atonc.machine.hw import regs
from atonc.machine.hw.elf import Elf, SectionKind, SymbolKind, read_elf
from atonc.machine.hw.machine import HYPERRAM, Machine, stm32n6

# Where things are on the STM32N6. On-chip memories and peripherals have a secure address (bit 28 set) and a non-secure
# alias; both reach the same bytes.
ALIAS = 0x1000_0000


@dataclass(frozen=True)
class BoardPlace:
    name: str
    base: int  # the secure address where there are two
    size_bytes: int
    cached: bool = False  # by the processor's data cache; what it never writes is left out

    @property
    def on_chip(self) -> bool:
        return self.base >> 28 in (0x1, 0x3, 0x5)


MEMORIES = (
    BoardPlace("ITCM", 0x1000_0000, 0x4_0000),
    BoardPlace("DTCM", 0x3000_0000, 0x4_0000),
    BoardPlace("AXISRAM", 0x3400_0000, 0x40_0000, cached=True),  # AXISRAM1 to 6 and the NPU cache's RAM, side by side
    BoardPlace("VENCRAM", 0x3440_0000, 0x2_0000, cached=True),
    BoardPlace("AHBSRAM", 0x3800_0000, 0x8000),
    BoardPlace("BKPSRAM", 0x3C00_0000, 0x2000),
)
_PAGE = 0x1000  # memories are mapped in such steps


def external(machine: Machine) -> tuple[BoardPlace, ...]:
    """Flash and RAM outside the chip, as the board has them."""
    banks = [bank for bank in machine.memories if bank.external]
    return tuple(BoardPlace(b.name, b.base, -(-b.size_bytes // _PAGE) * _PAGE, b.kind == HYPERRAM) for b in banks)


NPU = BoardPlace("NPU", regs.ATON_BASE_SECURE, 0x2_0000)
# all other peripherals: `Devices` knows them one by one
PERIPHERALS = (
    BoardPlace("peripherals", 0x5000_0000, 0x80E_0000),
    BoardPlace("peripherals behind the NPU", 0x5810_0000, 0x10_0000),
)

PRIVATE_BUS = BoardPlace("core", 0xE000_0000, 0x10_0000)  # NVIC, system control, SysTick, DWT

NPU_INTERRUPT = 53  # lines 0 to 3 of the NPU are 53 to 56

_MAX_FILE = 256 << 20
_MAX_SEGMENTS = 256
_LEAST_VECTORS = 64  # bytes: the sixteen of the core


@dataclass(frozen=True)
class LoadedSegment:
    address: int  # where it is loaded
    runs_at: int  # where start-up code copies it to, if it does
    executable: bool
    data: bytes


@dataclass(frozen=True)
class Firmware:
    path: Path
    entry: int
    vector_table: int
    segments: tuple[LoadedSegment, ...]
    symbols: dict[str, int]
    sizes: dict[str, int] = field(repr=False)
    _functions: tuple[tuple[int, str], ...] = field(repr=False)

    def function_at(self, address: int) -> str:
        """The name of the function that the address lies in, for messages."""
        position = bisect_right(self._functions, (address, "\uffff")) - 1
        return self._functions[position][1] if position >= 0 else "?"

    def has_code_at(self, address: int) -> bool:
        places = [(at, len(one.data)) for one in self.segments if one.executable for at in (one.address, one.runs_at)]
        return any(at <= address < at + size for at, size in places)


def read_firmware(path: Path) -> Firmware:
    """An ELF file for a 32-bit Arm core; hostile files are refused by one error."""
    if not path.is_file():
        raise InputError("no such firmware image", where=str(path))
    if path.stat().st_size > _MAX_FILE:
        raise InputError("too large for a firmware image", where=str(path))
    elf = read_elf(path.read_bytes(), str(path))
    if len(elf.segments) > _MAX_SEGMENTS:
        raise InputError(f"{len(elf.segments)} segments are too many", where=str(path))
    loaded = [part for part in elf.segments if part.size_bytes]
    segments = tuple(LoadedSegment(one.loaded_at, one.runs_at, one.executable, elf.contents(one)) for one in loaded)
    if not segments:
        raise InputError("nothing to load in it", where=str(path))
    listed = elf.symbols()
    symbols = {symbol.name: symbol.value for symbol in listed if symbol.name}
    sizes = {symbol.name: symbol.size_bytes for symbol in listed if symbol.name}
    functions = sorted((one.value & ~1, one.name) for one in listed if one.kind == SymbolKind.FUNCTION)
    start = _vector_table(elf, segments, symbols)
    return Firmware(path, elf.entry, start, segments, symbols, sizes, tuple(functions))


def _vector_table(elf: Elf, segments: tuple[LoadedSegment, ...], symbols: dict[str, int]) -> int:
    """By the names that compilers give it; else the first section that begins with a stack and an address of code."""
    named = [elf.section(name) for name in (".isr_vector", ".intvec", ".vectors")]
    found = [section.address for section in named if section is not None]
    found += [symbols[name] for name in ("g_pfnVectors", "__vector_table", "__Vectors") if name in symbols]
    if found:
        return found[0]
    for section in elf.sections:
        first = elf.contents(section)[:_LEAST_VECTORS]
        if section.in_memory and section.kind == SectionKind.CONTENTS and len(first) == _LEAST_VECTORS:
            stack, reset = struct.unpack_from("<II", first)
            code = any(s.runs_at <= reset & ~1 < s.runs_at + len(s.data) for s in segments if s.executable)
            if stack % 4 == 0 and stack >> 28 in (2, 3) and reset & 1 and code:
                return section.address
    return segments[0].address


DEFAULT_BUDGET = 2_000_000_000  # instructions
MAX_SECONDS = 20  # on the board's own clock: a network that waits for ever for the NPU ends here
_STRETCH_CYCLES = 100_000_000  # a firmware that waits for its host executes next to nothing: it is left by the clock
_ALL_RIGHTS = 7  # read, write, execute
_CONFIGURATION, _DATA_CACHE_ON = 0xED14, 1 << 16  # CCR.DC


@dataclass(frozen=True)
class Stop:
    """Where the firmware stands: at a breakpoint instruction with this number."""

    number: int
    pc: int
    instructions: int


class VirtualBoard:
    """`memory` is shared by host, CPU and NPU without copies; with `data_cache` the CPU sees it through a cache that
    is as unkind as caches may be. `clocks`: registers of RCC before the start; {} is a chip after reset, None a board
    at its usual speed whatever its firmware does not set. With `chip`, firmware has to switch on what it uses (`chip`):
    memories, clocks, rights; without, everything is on."""

    def __init__(
        self,
        firmware: Firmware,
        data_cache: bool = False,
        clocks: dict[int, int] | None = None,
        machine: Machine | None = None,
        chip: ChipSetup | None = None,
    ) -> None:
        self.firmware, self.machine = firmware, machine or stm32n6()
        self.cache = DataCache() if data_cache else None
        self.clock, self.nvic, self.memory, self.serial = Clock(), Nvic(), AddressSpace(), Terminal()
        self.accesses = Accesses()
        self.peripherals = Peripherals(self.clock, self.nvic, self.serial, self.accesses, clocks)
        self.system = SystemControl(self.nvic, self.clock)
        self.core = Core(self.clock, self.nvic, self.system)
        interrupts = InterruptController(lambda line, level: self.nvic.set_line(NPU_INTERRUPT + line, level))
        self.npu = Npu(self.memory, self.clock, interrupts, self.machine)
        self._clocks_given = clocks is not None
        self.npu.ratio = self._clock_ratio
        self._stub_areas: list[Bytes] = []
        self.chip = None if chip is None else StrictChip(chip, self.peripherals, self.nvic, self.machine)
        self._away: set[str] = set()  # memories of a strict chip that the CPU does not reach now
        self._map_memories()
        moves = dma.Hpdma(self.clock, self.memory, self.machine, self._clock_ratio)
        self.peripherals.devices.add("HPDMA1", moves, dma.BYTES)
        self.npu.require, self.npu.beside = moves.check, moves.beside
        if self.chip is not None:
            self._obey(self.chip)
        self._map_devices()
        self._load()

    # -------------------------------------------------------------------------------------------------------- building

    def _map_memories(self) -> None:
        for place in (*MEMORIES, *external(self.machine)):
            data = self.memory.add(place.name, place.base, place.size_bytes).data
            cached = self.cache is not None and place.cached
            self._map_bytes(place, self.cache.add(place.base, data) if self.cache and cached else data)
        if self.cache is not None:
            self.system.cache = None if self.chip is not None and self.chip.setup.deaf_cache else self.cache
            self.system.words[_CONFIGURATION] = _DATA_CACHE_ON
            self.npu.on_end = self.cache.evict
            self._watch_writes(self.cache)
            self.core.on_store = self.cache.wrote
        self._map_stub_areas()

    def _map_stub_areas(self) -> None:
        """Where the processor finds its replacements of instructions: some of these places are memory anyway."""
        for address in sorted({blocks.area_of(window.start) for window in self.core.memory.windows}):
            if self.core.memory.find(address) is None:
                self._stub_areas.append(np.zeros(blocks.AREA_BYTES, np.uint8))
                self._map_at(address, self._stub_areas[-1])
                self.core.blocks.own_areas.add(address)

    def _watch_writes(self, cache: DataCache) -> None:
        """Every store but those to the firmware's own data and stack, which the NPU never writes: they are many."""
        symbols = self.firmware.symbols
        own = symbols.get("_data_start", 0), symbols.get("_estack", 0)
        for part in cache.parts:
            for base in {part.base, part.base & ~ALIAS} if part.base >> 28 == 3 else {part.base}:
                shift = base - part.base
                below, above = min(own[0], part.end), max(own[1], part.base)
                inside = part.base <= own[0] < own[1] <= part.end
                ranges = ((part.base, below), (above, part.end)) if inside else ((part.base, part.end),)
                for start, end in ranges:
                    self.core.watch_writes(start + shift, end + shift, cache.wrote)

    def _map_bytes(self, place: BoardPlace, data: Bytes) -> None:
        for base in both_addresses(place):
            self._map_at(base, data)

    def _map_at(self, base: int, data: Bytes) -> None:
        for start, part in self._parts(base, data):
            self.core.uc.mem_map_ptr(start, part.size, _ALL_RIGHTS, part.ctypes.data)
        self.core.memory.add(base, data)

    def _parts(self, base: int, data: Bytes) -> list[tuple[int, Bytes]]:
        """On a strict chip, RAM banks come and go one by one."""
        start = canonical(base)
        banks = [bank for bank in BANKS if start <= bank.base < start + data.size] if self.chip is not None else []
        cuts = [(bank.base - start, bank.end - start) for bank in banks]
        return [(base + low, data[low:high]) for low, high in cuts] or [(base, data)]

    # ---------------------------------------------------------------------------------------------------- a strict chip

    def _obey(self, chip: StrictChip) -> None:
        chip.changed = lambda: self.core.between(self._remap)
        chip.filled = self._fill
        chip.reset_npu = self.npu.reset
        self.npu.chip = chip
        self.core.on_sleep = self.npu.core_sleeps
        self.core.why_absent = self._why_absent
        for bank in BANKS:
            self._fill(bank, arbitrary(bank))
        chip.update()

    def _fill(self, bank: RamBank, data: Bytes) -> None:
        self.memory.write(bank.base, data)
        if self.cache is not None:
            self.cache.in_step(bank.base, data.size)

    def _why_absent(self, address: int) -> str:
        place = place_of(address)
        return self.chip.away.get(place.name, "") if self.chip is not None and place is not None else ""

    def _remap(self) -> None:
        """The CPU reaches what is there now: RAM that is off reads as zero, external memory that is not mapped
        faults."""
        away = self.chip.away if self.chip is not None else {}
        for place in (*BANKS, *WINDOWS):
            if (place.name in away) != (place.name in self._away):
                for start, data in self._mapped_at(place.base, place.end):
                    self._show(start, data, place.name not in away, isinstance(place, RamBank))
        self._away = set(away)
        banks = [(bank.base, bank.end, "") for bank in BANKS if bank.name in away]
        aliases = [(start & ~ALIAS, end & ~ALIAS, "") for start, end, _ in banks]
        faulting = [(window.base, window.end, away[window.name]) for window in WINDOWS if window.name in away]
        self.core.memory.absent = banks + aliases + faulting

    def _mapped_at(self, start: int, end: int) -> list[tuple[int, Bytes]]:
        found = []
        for window in self.core.memory.windows:
            shift = canonical(window.start) - window.start
            low, high = max(start - shift, window.start), min(end - shift, window.end)
            if low < high:
                found.append((low, window.data[low - window.start : high - window.start]))
        return found

    def _show(self, start: int, data: Bytes, there: bool, is_ram: bool) -> None:
        uc = self.core.uc
        if there:
            if is_ram:
                uc.mem_unmap(start, data.size)
            uc.mem_map_ptr(start, data.size, _ALL_RIGHTS, data.ctypes.data)
            return
        uc.mem_unmap(start, data.size)
        if is_ram:
            uc.mmio_map(start, data.size, lambda *_: 0, None, lambda *_: None, None)

    def _map_devices(self) -> None:
        system, devices = self.system, self.peripherals.devices
        for address in both_addresses(NPU):
            self._map_npu(address)
        self._map_device(PRIVATE_BUS.base, PRIVATE_BUS.size_bytes, system.read, system.write)
        for place in PERIPHERALS:
            for address in both_addresses(place):
                self._map_device(address, place.size_bytes, devices.read, devices.write, base=place.base)

    def _map_npu(self, address: int) -> None:
        npu, chip, secure = self.npu, self.chip, address == NPU.base

        def read(offset: int, _: int) -> int:
            return npu.read(offset) if chip is None or chip.npu_open_at(secure) else 0

        def write(offset: int, _: int, value: int) -> None:
            if chip is None or chip.npu_open_at(secure):
                npu.write(offset, value)

        self._map_device(address, NPU.size_bytes, read, write)

    def _map_device(
        self,
        address: int,
        size_bytes: int,
        read: Callable[[int, int], int],
        write: Callable[[int, int, int], None],
        base: int = 0,
    ) -> None:
        """The functions are given `base` plus the offset from the address."""

        def on_read(_: Any, offset: int, size: int, __: Any) -> int:
            value = read(base + offset, size)
            self.core.attend()
            return value

        def on_write(_: Any, offset: int, size: int, value: int, __: Any) -> None:
            write(base + offset, size, value)
            self.core.attend()

        self.core.uc.mmio_map(address, size_bytes, on_read, None, on_write, None)

    def _clock_ratio(self) -> float:
        """CPU cycles per cycle of the NPU: as the firmware has set the clocks, else as it found them or boards have
        them."""
        rcc = self.peripherals.clocks
        fixed = self.npu.machine.clocks
        known = self._clocks_given or rcc.configured
        return rcc.cpu_hz / rcc.npu_hz if known and rcc.npu_hz else fixed.cpu_mhz / fixed.npu_mhz

    def _load(self) -> None:
        for segment in self.firmware.segments:
            if self.memory.region_at(segment.address) is None:
                raise InputError(
                    f"the image wants {len(segment.data)} bytes at {segment.address:#010x}, where this board has none",
                    where=str(self.firmware.path),
                )
            why = self._why_absent(segment.address)
            if why and segment.address >> 28 in (2, 3):
                raise InputError(
                    f"the image wants {len(segment.data)} bytes at {segment.address:#010x}: {why}",
                    where=str(self.firmware.path),
                    rule="a loader writes only to memories that are on after reset",
                )
            self.poke(segment.address, np.frombuffer(segment.data, np.uint8))
        vectors = self.firmware.vector_table
        self.system.write(0xED08, 4, vectors)
        stack, reset = (int(word) for word in self.memory.read(vectors, 8).view("<u4"))
        self.core.start(reset, stack)

    # --------------------------------------------------------------------------------------------------------- running

    def poke(self, address: int, data: Bytes) -> None:
        """Bytes from the host; the processor sees them too."""
        self.memory.write(address, data)
        if self.cache is not None:
            self.cache.in_step(address, data.size)

    def run(self, budget: int = DEFAULT_BUDGET) -> Stop:
        """Until the next breakpoint instruction; a firmware that does not get there is an error that says where."""
        halt = self._execute(budget, round(MAX_SECONDS * self.npu.machine.clocks.cpu_mhz * 1e6))
        if halt.reason == "bkpt":
            return Stop(halt.number, halt.pc, self.core.instructions)
        raise self._gave_up(halt, budget)

    def go_on(self, instructions: int) -> Halt | None:
        """So many instructions or a fraction of a second on the board's clock more, for firmware that serves a host and
        never ends; None when it may go on."""
        halt = self._execute(instructions, _STRETCH_CYCLES)
        if halt.reason == "sleep":
            raise self._gave_up(halt, instructions)
        return None if halt.reason in ("budget", "time") else halt

    def _execute(self, budget: int, cycles: int) -> Halt:
        try:
            return self.core.run(budget, cycles)
        except AtoncError as error:
            error.where = f"{error.where}{self._place(self.core.pc)}".strip(", ")
            raise

    def _gave_up(self, halt: Halt, budget: int) -> InputError:
        what = {
            "budget": f"no end after {budget} instructions",
            "time": f"no end after {MAX_SECONDS} s on the board's clock",
            "sleep": "the CPU sleeps and nothing is left that could wake it",
        }[halt.reason]
        cause = f"; the NPU hangs: {self.npu.fault}" if self.npu.fault is not None else ""
        cause += f"; the NPU stands still: {self.npu.stalled}" if self.npu.stalled else ""
        return InputError(
            f"{what}{cause}",
            where=f"pc {halt.pc:#010x}{self._place(halt.pc)}",
            rule="a firmware on the virtual board ends at a breakpoint instruction",
            remedy="look at the last lines of its UART; the epoch and function above are where it stands",
        )

    # -------------------------------------------------------------------------------------------------- where it stands

    def where(self) -> str:
        return f"pc {self.core.pc:#010x}{self._place(self.core.pc)}"

    def picture(self) -> list[str]:
        """The processor's registers, who called, and what was last read and written on the devices."""
        core = self.core
        names = (*(f"R{number}" for number in range(13)), "SP", "LR", "XPSR")
        values = [f"{name} {core.register(name):08x}" for name in names]
        active = f", in exception {self.nvic.active[-1]}" if self.nvic.active else ""
        back = core.register("LR")  # no address at reset and in a handler
        caller = f"called from {self.firmware.function_at(back & ~1)} (lr {back:#010x})"
        caller = caller if self.firmware.has_code_at(back) else f"lr {back:#010x}"
        stub = core.blocks.stub_at(core.pc)
        return [
            f"{self.where()}{active}, {caller}" + (f", replacing the instruction at {stub.site:#010x}" if stub else ""),
            *("  ".join(values[k : k + 8]) for k in (0, 8)),
            f"{core.instructions:,} instructions, {self.clock.now:,} cycles, {self.npu.epochs} epochs",
            *([f"the NPU hangs: {self.npu.fault}"] if self.npu.fault is not None else []),
            *([f"the NPU stands still: {self.npu.stalled}"] if self.npu.stalled else []),
            "last accesses to devices, the newest below:",
            *(f"  {line}" for line in self.accesses.recent_lines()[-12:]),
        ]

    def _place(self, pc: int) -> str:
        stub = self.core.blocks.stub_at(pc)
        epoch = "" if self.npu.epoch is None else f", epoch {self.npu.epoch}"
        return f", in {self.firmware.function_at(stub.site if stub else pc)}{epoch}"


def both_addresses(place: BoardPlace) -> tuple[int, ...]:
    return (place.base, place.base & ~ALIAS) if place.on_chip else (place.base,)
