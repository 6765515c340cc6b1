"""The board: core, memories, NPU and UART put together; loads a firmware and lets it run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from atonc.emu.board import places
from atonc.emu.board.clock import Clock
from atonc.emu.board.core import Core, Halt
from atonc.emu.board.data_cache import DataCache
from atonc.emu.board.elf import Firmware
from atonc.emu.board.interrupts import Nvic, SystemControl
from atonc.emu.board.npu import Npu
from atonc.emu.board.npu_interrupts import InterruptController
from atonc.emu.board.places import Place
from atonc.emu.board.serial import Serial
from atonc.emu.bus import Bytes, Memory
from atonc.errors import AtoncError, InputError

DEFAULT_BUDGET = 2_000_000_000  # instructions
MAX_SECONDS = 20  # on the board's own clock: a network that waits for ever for the NPU ends here
_ALL_RIGHTS = 7  # read, write, execute
_CONFIGURATION, _DATA_CACHE_ON = 0xED14, 1 << 16  # CCR.DC
_CACHE_STATUS = 0xC04  # SR of the NPU cache: its commands are done when one looks
_CACHE_DONE = 1 << 1 | 1 << 4


@dataclass(frozen=True)
class Stop:
    """Where the firmware stands: at a breakpoint instruction with this number."""

    number: int
    pc: int
    instructions: int


class Board:
    """`memory` is shared by host, CPU and NPU without copies; with `data_cache` the CPU sees it through a cache that
    is as unkind as caches may be."""

    def __init__(self, firmware: Firmware, data_cache: bool = False) -> None:
        self.firmware = firmware
        self.cache = DataCache() if data_cache else None
        self.clock, self.nvic, self.memory, self.serial = Clock(), Nvic(), Memory(), Serial()
        self.system = SystemControl(self.nvic, self.clock)
        self.core = Core(self.clock, self.nvic, self.system)
        interrupts = InterruptController(lambda line, level: self.nvic.set_line(places.NPU_INTERRUPT + line, level))
        self.npu = Npu(self.memory, self.clock, interrupts)
        self._registers: list[Bytes] = []
        self._map_memories()
        self._map_devices()
        self._load()

    # -------------------------------------------------------------------------------------------------------- building

    def _map_memories(self) -> None:
        for place in (*places.MEMORIES, *places.EXTERNAL):
            data = self.memory.add(place.name, place.base, place.size_bytes).data
            cached = self.cache is not None and place.cached
            self._map_bytes(place, self.cache.add(place.base, data) if self.cache and cached else data)
        if self.cache is not None:
            self.system.cache = self.cache
            self.system.words[_CONFIGURATION] = _DATA_CACHE_ON
            self.npu.on_end = self.cache.evict
            self._watch_writes(self.cache)
        for place in places.PLAIN_REGISTERS:
            self._registers.append(np.zeros(place.size_bytes, np.uint8))
            self._map_bytes(place, self._registers[-1])

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

    def _map_bytes(self, place: Place, data: Bytes) -> None:
        for base in _addresses(place):
            self.core.uc.mem_map_ptr(base, data.size, _ALL_RIGHTS, data.ctypes.data)

    def _map_devices(self) -> None:
        npu, serial = self.npu, self.serial
        self._map_device(places.NPU, lambda o, s: npu.read(o), lambda o, s, v: npu.write(o, v))
        self._map_device(places.SERIAL, lambda o, s: serial.read(o), lambda o, s, v: serial.write(o, v))
        self._map_device(places.NPU_CACHE, lambda o, s: _CACHE_DONE if o == _CACHE_STATUS else 0, lambda o, s, v: None)
        clocks = ClockControl()
        self._map_device(places.RESET_AND_CLOCKS, lambda o, s: clocks.read(o), lambda o, s, v: clocks.write(o, v))
        self._map_device(places.PRIVATE_BUS, self.system.read, self.system.write)

    def _map_device(
        self, place: Place, read: Callable[[int, int], int], write: Callable[[int, int, int], None]
    ) -> None:
        def on_read(_: Any, offset: int, size: int, __: Any) -> int:
            value = read(offset, size)
            self.core.attend()
            return value

        def on_write(_: Any, offset: int, size: int, value: int, __: Any) -> None:
            write(offset, size, value)
            self.core.attend()

        for base in _addresses(place):
            self.core.uc.mmio_map(base, place.size_bytes, on_read, None, on_write, None)

    def _load(self) -> None:
        for segment in self.firmware.segments:
            if self.memory.region_at(segment.address) is None:
                raise InputError(
                    f"the image wants {len(segment.data)} bytes at {segment.address:#010x}, where this board has none",
                    where=str(self.firmware.path),
                )
            self.poke(segment.address, np.frombuffer(segment.data, np.uint8))
            if segment.executable:
                self.core.watch_sleep(segment.runs_at, segment.data)
        vectors = self.firmware.vector_table
        self.system.write(0xED08, 4, vectors)
        stack = int(self.memory.read(vectors, 4).view("<u4")[0])
        self.core.start(self.firmware.entry, stack)

    # --------------------------------------------------------------------------------------------------------- running

    def poke(self, address: int, data: Bytes) -> None:
        """Bytes from the host; the processor sees them too."""
        self.memory.write(address, data)
        if self.cache is not None:
            self.cache.in_step(address, data.size)

    def run(self, budget: int = DEFAULT_BUDGET) -> Stop:
        """Until the next breakpoint instruction; a firmware that does not get there is an error that says where."""
        try:
            halt = self.core.run(budget, round(MAX_SECONDS * self.npu.machine.clocks.cpu_mhz * 1e6))
        except AtoncError as error:
            error.where = f"{error.where}{self._place(self.core.pc)}".strip(", ")
            raise
        if halt.reason == "bkpt":
            return Stop(halt.number, halt.pc, self.core.instructions)
        raise self._gave_up(halt, budget)

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

    def _place(self, pc: int) -> str:
        epoch = "" if self.npu.epoch is None else f", epoch {self.npu.epoch}"
        return f", in {self.firmware.function_at(pc)}{epoch}"


class ClockControl:
    """RCC: every register has a place that sets bits and one that clears them; clocks are ready when they are on."""

    _STATUS, _SET, _CLEAR = 0x4, 0x800, 0x1000

    def __init__(self) -> None:
        self.words: dict[int, int] = {}

    def read(self, offset: int) -> int:
        return self.words.get(0 if offset == self._STATUS else offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset < self._SET:
            self.words[offset] = value
        elif offset < self._CLEAR:
            self.words[offset - self._SET] = self.words.get(offset - self._SET, 0) | value
        else:
            self.words[offset - self._CLEAR] = self.words.get(offset - self._CLEAR, 0) & ~value


def _addresses(place: Place) -> tuple[int, ...]:
    return (place.base, place.base & ~places.ALIAS) if place.on_chip else (place.base,)
