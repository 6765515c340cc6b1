"""The board: core, memories, NPU and UART put together; loads a firmware and lets it run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import blocks, places
from atonc.machine.emu.board.accesses import Accesses
from atonc.machine.emu.board.clock import Clock
from atonc.machine.emu.board.core import Core, Halt
from atonc.machine.emu.board.data_cache import DataCache
from atonc.machine.emu.board.elf import Firmware
from atonc.machine.emu.board.interrupts import Nvic, SystemControl
from atonc.machine.emu.board.npu import Npu
from atonc.machine.emu.board.npu_interrupts import InterruptController
from atonc.machine.emu.board.peripherals import Peripherals
from atonc.machine.emu.board.places import BoardPlace
from atonc.machine.emu.board.terminal import Terminal
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.hw.machine import Machine, stm32n6

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
    at its usual speed whatever its firmware does not set."""

    def __init__(
        self,
        firmware: Firmware,
        data_cache: bool = False,
        clocks: dict[int, int] | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.firmware, self.machine = firmware, machine or stm32n6()
        self.cache = DataCache() if data_cache else None
        self.clock, self.nvic, self.memory, self.serial = Clock(), Nvic(), AddressSpace(), Terminal()
        self.accesses = Accesses()
        self.peripherals = Peripherals(self.clock, self.nvic, self.serial, self.accesses, clocks)
        self.system = SystemControl(self.nvic, self.clock)
        self.core = Core(self.clock, self.nvic, self.system)
        interrupts = InterruptController(lambda line, level: self.nvic.set_line(places.NPU_INTERRUPT + line, level))
        self.npu = Npu(self.memory, self.clock, interrupts, self.machine)
        self._clocks_given = clocks is not None
        self.npu.ratio = self._clock_ratio
        self._stub_areas: list[Bytes] = []
        self._map_memories()
        self._map_devices()
        self._load()

    # -------------------------------------------------------------------------------------------------------- building

    def _map_memories(self) -> None:
        for place in (*places.MEMORIES, *places.external(self.machine)):
            data = self.memory.add(place.name, place.base, place.size_bytes).data
            cached = self.cache is not None and place.cached
            self._map_bytes(place, self.cache.add(place.base, data) if self.cache and cached else data)
        if self.cache is not None:
            self.system.cache = self.cache
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
            for base in {part.base, part.base & ~places.ALIAS} if part.base >> 28 == 3 else {part.base}:
                shift = base - part.base
                below, above = min(own[0], part.end), max(own[1], part.base)
                inside = part.base <= own[0] < own[1] <= part.end
                ranges = ((part.base, below), (above, part.end)) if inside else ((part.base, part.end),)
                for start, end in ranges:
                    self.core.watch_writes(start + shift, end + shift, cache.wrote)

    def _map_bytes(self, place: BoardPlace, data: Bytes) -> None:
        for base in _addresses(place):
            self._map_at(base, data)

    def _map_at(self, base: int, data: Bytes) -> None:
        self.core.uc.mem_map_ptr(base, data.size, _ALL_RIGHTS, data.ctypes.data)
        self.core.memory.add(base, data)

    def _map_devices(self) -> None:
        npu, system, devices = self.npu, self.system, self.peripherals.devices
        self._map_device(places.NPU, lambda o, s: npu.read(o), lambda o, s, v: npu.write(o, v))
        self._map_device(places.PRIVATE_BUS, system.read, system.write)
        for place in places.PERIPHERALS:
            self._map_device(place, devices.read, devices.write, base=place.base)

    def _map_device(
        self,
        place: BoardPlace,
        read: Callable[[int, int], int],
        write: Callable[[int, int, int], None],
        base: int = 0,
    ) -> None:
        """The functions are given `base` plus the offset in the place."""

        def on_read(_: Any, offset: int, size: int, __: Any) -> int:
            value = read(base + offset, size)
            self.core.attend()
            return value

        def on_write(_: Any, offset: int, size: int, value: int, __: Any) -> None:
            write(base + offset, size, value)
            self.core.attend()

        for address in _addresses(place):
            self.core.uc.mmio_map(address, place.size_bytes, on_read, None, on_write, None)

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
            "sleep": "the processor sleeps and nothing is left that could wake it",
        }[halt.reason]
        cause = f"; the NPU hangs: {self.npu.fault}" if self.npu.fault is not None else ""
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
        caller = self.firmware.function_at(core.register("LR") & ~1)
        stub = core.blocks.stub_at(core.pc)
        return [
            f"{self.where()}{active}, called from {caller} (lr {core.register('LR'):#010x})"
            + (f", replacing the instruction at {stub.site:#010x}" if stub else ""),
            *("  ".join(values[k : k + 8]) for k in (0, 8)),
            f"{core.instructions:,} instructions, {self.clock.now:,} cycles, {self.npu.epochs} epochs",
            *([f"the NPU hangs: {self.npu.fault}"] if self.npu.fault is not None else []),
            "last accesses to devices, the newest below:",
            *(f"  {line}" for line in self.accesses.recent_lines()[-12:]),
        ]

    def _place(self, pc: int) -> str:
        stub = self.core.blocks.stub_at(pc)
        epoch = "" if self.npu.epoch is None else f", epoch {self.npu.epoch}"
        return f", in {self.firmware.function_at(stub.site if stub else pc)}{epoch}"


def _addresses(place: BoardPlace) -> tuple[int, ...]:
    return (place.base, place.base & ~places.ALIAS) if place.on_chip else (place.base,)
