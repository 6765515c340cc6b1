"""A debugger's hands on the virtual board: registers, memory, breakpoints, single steps, reset.

Looking changes nothing: neither time nor what the firmware computes. Memory is what the CPU sees, through its data
cache, or what all other masters see (`other_masters`); what a debugger writes goes to both, as by a debug port that
cleans the cache behind itself. Registers of devices are read and written as by the CPU, but nobody waits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.board import NPU, PERIPHERALS, PRIVATE_BUS, VirtualBoard, both_addresses
from atonc.machine.emu.board.core import Halt
from atonc.machine.emu.board.semihosting import SEMIHOSTING, answer

SIGINT, SIGTRAP, SIGSEGV = 2, 5, 11
STRETCH = 400_000  # instructions between two looks at what the debugger wants
_STRETCH_CYCLES = 100_000_000
_LONGEST_STUB = 4096  # instructions
_CHUNK = 1 << 16
_MOST_STOPS = 256  # breakpoints and watches together
_WATCHES = {2: ("write",), 3: ("read",), 4: ("read", "write")}  # by number of the packet
BREAKPOINTS = (0, 1)

CORE_REGISTERS = (*(f"r{number}" for number in range(13)), "sp", "lr", "pc", "xpsr")
SYSTEM_REGISTERS = ("msp", "psp", "primask", "basepri", "faultmask", "control")
DOUBLE_REGISTERS = tuple(f"d{number}" for number in range(16))
REGISTERS = (*CORE_REGISTERS, *SYSTEM_REGISTERS, *DOUBLE_REGISTERS, "fpscr", "vpr")


def register_bytes(name: str) -> int:
    return 8 if name in DOUBLE_REGISTERS else 4


@dataclass(frozen=True)
class DebugStop:
    """Why the core stands still, as a signal; `exit_code` when the firmware has ended by semihosting."""

    signal: int
    text: str = ""
    watch: tuple[str, int] | None = None  # kind and address
    exit_code: int | None = None


class BoardDebugger:
    """`make` gives the board as it is after power-on; `say` hears what the firmware prints over semihosting."""

    def __init__(self, make: Callable[[], VirtualBoard], say: Callable[[str], None]) -> None:
        self._make, self.say = make, say
        self.board = make()
        self.other_masters = False
        self._stops: set[tuple[int, int, int]] = set()  # kind, address, size
        self._at_bkpt: int | None = None  # a BKPT that was executed: it is not executed again
        self._untold: int | None = None  # one that a step met: gdb steps behind a watch and shows such a stop to nobody

    # ----------------------------------------------------------------------------------------------------------- memory

    def read(self, address: int, size: int) -> bytes:
        board = self.board
        self._refuse_stubs(address, size)
        if self.other_masters and self._is_memory(address, size):
            return board.memory.read(address, size).tobytes()
        return bytes(self._access(lambda: board.core.uc.mem_read(address, size), address, size) or b"")

    def write(self, address: int, data: bytes) -> None:
        board, size = self.board, len(data)
        self._refuse_stubs(address, size)
        if self._is_memory(address, size) and size:
            board.poke(address, np.frombuffer(data, np.uint8))
            with suppress(board.core.failure):
                board.core.uc.ctl_remove_cache(address, address + size)
        elif size:
            self._access(lambda: board.core.uc.mem_write(address, data), address, size)
            board.core.look_again()  # a device may have raised an interrupt

    def _is_memory(self, address: int, size: int) -> bool:
        """Whether it is there and switched on: what is off answers as it answers the CPU."""
        self.board.core.catch_up()
        off = any(start < address + size and address < end for start, end, _ in self.board.core.memory.absent)
        return self.board.memory.region_at(address) is not None and not off

    def _access(self, action: Callable[[], bytearray | None], address: int, size: int) -> bytearray | None:
        """unicorn's own way to memory and devices, while the clock stands still."""
        board = self.board
        board.core.catch_up()
        board.clock.held = True
        try:
            found = action()
        except board.core.failure:
            raise InputError(f"{size} bytes at {address:#010x}, where nothing is") from None
        finally:
            board.clock.held = False
        error = board.core.raised()
        if error is not None:
            raise InputError(f"{size} bytes at {address:#010x}: {error}")
        return found

    def _refuse_stubs(self, address: int, size: int) -> None:
        """The board's own replacements of instructions stand where the chip has nothing."""
        areas = self.board.core.blocks.areas()
        if not 0 <= address <= address + size <= 1 << 32 or any(a < address + size and address < b for a, b in areas):
            raise InputError(f"{size} bytes at {address:#010x}, where nothing is")

    def memory_map(self) -> list[tuple[int, int]]:
        """Start and size of all that answers, devices too."""
        own = [start for start, _ in self.board.core.blocks.areas()]
        found = [(w.start, w.data.size) for w in self.board.core.memory.windows if w.start not in own]
        devices = (NPU, *PERIPHERALS, PRIVATE_BUS)
        return sorted(found + [(at, place.size_bytes) for place in devices for at in both_addresses(place)])

    # -------------------------------------------------------------------------------------------------------- registers

    def register(self, name: str) -> int:
        core = self.board.core
        if name == "pc":
            return core.pc
        return core.vectors.state.vpr if name == "vpr" else core.register(name)

    def set_register(self, name: str, value: int) -> None:
        core = self.board.core
        if name == "pc":
            core.pc = value & ~1
        elif name == "vpr":
            core.vectors.state.vpr = value
        else:
            core.set_register(name, value)

    # -------------------------------------------------------------------------------------------- breakpoints and reset

    def insert(self, kind: int, address: int, size: int) -> None:
        """Kinds as packets number them: 0 and 1 breakpoints, 2 writes, 3 reads, 4 both."""
        if (kind, address, size) in self._stops:
            return
        if len(self._stops) >= _MOST_STOPS:
            raise InputError(f"more than {_MOST_STOPS} breakpoints")
        self._stops.add((kind, address, size))
        self._plant(kind, address, size)

    def _plant(self, kind: int, address: int, size: int) -> None:
        core = self.board.core
        if kind in _WATCHES:
            core.watch(_WATCHES[kind], address, size)
        elif sum(1 for other in self._stops if other[0] in BREAKPOINTS and other[1] == address) == 1:
            core.break_at(address & ~1)

    def remove(self, kind: int, address: int, size: int) -> None:
        if (kind, address, size) not in self._stops:
            return
        self._stops.discard((kind, address, size))
        core = self.board.core
        if kind in _WATCHES:
            core.unhook("/".join(_WATCHES[kind]), address, size)
        elif not any(other[0] in BREAKPOINTS and other[1] == address for other in self._stops):
            core.unhook("break", address & ~1)

    def remove_all(self) -> None:
        for stop in tuple(self._stops):
            self.remove(*stop)

    def reset(self) -> None:
        """The chip after its reset pin: devices and core begin anew, memories keep their bytes. What the data cache had
        not written back is lost."""
        old, self.board = self.board, self._make()
        self._at_bkpt = self._untold = None
        for region in old.memory.regions:
            for start in range(0, region.data.size, _CHUNK):
                part = region.data[start : start + _CHUNK]
                fresh = self.board.memory.view(region.base + start, part.size)
                if not np.array_equal(part, fresh):
                    self.board.poke(region.base + start, part)
        stops, self._stops = self._stops, set()
        for stop in sorted(stops):
            self.insert(*stop)

    # ---------------------------------------------------------------------------------------------------- step and run

    def step(self) -> DebugStop:
        """One instruction of the firmware, or one IT block; a sleep ends with what wakes the core."""
        stopped = self._run(1) or self.halt(SIGTRAP)
        self._untold = self._at_bkpt
        return stopped

    def go(self) -> DebugStop | None:
        """For a while; None when it may go on. A BKPT that only a step has met stops it too, without time."""
        untold, self._untold = self._untold, None
        return DebugStop(SIGTRAP) if untold is not None and untold == self.register("pc") else self._run(STRETCH)

    def halt(self, signal: int = SIGINT) -> DebugStop:
        """Between two instructions of the firmware, not inside a replacement of one."""
        core = self.board.core
        for _ in range(_LONGEST_STUB):
            if core.blocks.stub_at(core.pc) is None:
                break
            stopped = self._run(1)
            if stopped is not None and stopped.watch is None:
                return stopped
        return DebugStop(signal)

    def _run(self, instructions: int) -> DebugStop | None:
        core = self.board.core
        if self._at_bkpt == core.pc:
            core.pc += 2
        self._at_bkpt = None
        limit = core.instructions + instructions
        while core.instructions < limit:
            try:
                halt = core.run(limit - core.instructions, _STRETCH_CYCLES)
            except AtoncError as error:
                return DebugStop(SIGSEGV, f"{error}\n")
            if halt.reason in ("budget", "time"):
                return None
            stopped = self._stop(halt)
            if stopped is not None:
                return stopped
        return None

    def _stop(self, halt: Halt) -> DebugStop | None:
        core = self.board.core
        if halt.reason == "bkpt" and halt.number == SEMIHOSTING:
            said = answer(core)
            self.say(said.text) if said.text else None
            return None if said.exit_code is None else DebugStop(SIGTRAP, exit_code=said.exit_code)
        if halt.reason == "bkpt":
            core.pc = self._at_bkpt = halt.pc
            return DebugStop(SIGTRAP)
        if halt.reason == "sleep":
            return DebugStop(SIGINT, "the CPU sleeps and nothing is left that could wake it\n")
        if halt.reason == "watch":
            kind = next(kind for kind, address, _ in sorted(self._stops) if kind in _WATCHES and address == halt.number)
            return DebugStop(SIGTRAP, watch=({2: "watch", 3: "rwatch", 4: "awatch"}[kind], halt.number))
        return DebugStop(SIGTRAP)
