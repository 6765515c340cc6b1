"""The virtual board as a debug target in this process: no server, no sockets, and the same time in every run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import VirtualBoard

_STRETCH, _STRETCHES = 5_000_000, 40  # instructions at a time, and how often before a core counts as lost
_NOP, _BKPT = b"\x00\xbf", b"\x00\xbe"


@dataclass(frozen=True)
class VirtualStop:
    kind: str
    pc: int | None


class VirtualTarget:
    """`make` gives a board out of its reset. Breakpoints stand where an instruction does nothing, as at the start of a
    checkpoint: a breakpoint instruction takes its place, and time stays what it is without one."""

    def __init__(self, make: Callable[[], VirtualBoard]) -> None:
        self._make = make
        self.board = make()
        self._interrupted = False

    def reset(self) -> None:
        self.board, self._interrupted = self._make(), False

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.board.memory.read(address, size))

    def write(self, address: int, data: bytes) -> None:
        self.board.poke(address, np.frombuffer(data, np.uint8))

    def register(self, name: str) -> int:
        return self.board.core.pc if name == "pc" else self.board.core.register(name)

    def set_register(self, name: str, value: int) -> None:
        if name == "pc":
            self.board.core.pc = value & ~1
        else:
            self.board.core.set_register(name, value)

    def break_at(self, address: int) -> None:
        if self.read(address, 2) != _NOP:
            raise ToolError(f"no breakpoint at {address:#010x}", rule="it takes the place of a NOP")
        self.write(address, _BKPT)

    def go(self) -> None:
        """The next wait lets it run."""

    def wait(self, seconds: float) -> VirtualStop | None:
        """By instructions, not by the host's clock."""
        if self._interrupted:
            self._interrupted = False
            return VirtualStop("interrupt", self.board.core.pc)
        try:
            for _ in range(_STRETCHES):
                halt = self.board.go_on(_STRETCH)
                if halt is not None:
                    return VirtualStop("breakpoint", halt.pc)
        except InputError as error:
            return VirtualStop(f"fault: {error.one_line}", self.board.core.pc)
        return None

    def interrupt(self) -> None:
        self._interrupted = True  # it stands still whenever nobody waits

    def close(self) -> None:
        """Nothing is open."""
