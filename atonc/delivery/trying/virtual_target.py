"""The virtual board as a debug target in this process: no server, no sockets, and the same time in every run."""

from __future__ import annotations

from collections.abc import Callable

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import VirtualBoard
from atonc.machine.emu.board.debugging import SIGSEGV, BoardDebugger

_STRETCHES = 500  # of the debugger, before a core counts as lost
_BREAKPOINT, _THUMB_BYTES = 1, 2


@dataclass(frozen=True)
class VirtualStop:
    kind: str
    pc: int | None


class VirtualTarget:
    """`make` gives a board as it is after power-on."""

    def __init__(self, make: Callable[[], VirtualBoard]) -> None:
        self._debugger = BoardDebugger(make, lambda text: None)
        self._breaks: set[int] = set()
        self._interrupted = False

    @property
    def board(self) -> VirtualBoard:
        return self._debugger.board

    def reset(self) -> None:
        self._interrupted = False
        self._debugger.reset()

    def read(self, address: int, size: int) -> bytes:
        return self._debugger.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        self._debugger.write(address, data)

    def register(self, name: str) -> int:
        return self._debugger.register(name)

    def set_register(self, name: str, value: int) -> None:
        self._debugger.set_register(name, value)

    def break_at(self, address: int) -> None:
        self._breaks.add(address)
        self._debugger.insert(_BREAKPOINT, address, _THUMB_BYTES)

    def go(self) -> None:
        """Over the breakpoint where it stands; the next wait lets it run."""
        here = self.register("pc")
        if here in self._breaks:
            self._debugger.remove(_BREAKPOINT, here, _THUMB_BYTES)
            self._debugger.step()
            self._debugger.insert(_BREAKPOINT, here, _THUMB_BYTES)

    def wait(self, seconds: float) -> VirtualStop | None:
        """By instructions, not by the host's clock."""
        if self._interrupted:
            self._interrupted = False
            return VirtualStop("interrupt", self.register("pc"))
        for _ in range(_STRETCHES):
            stopped = self._debugger.go()
            if stopped is not None:
                return VirtualStop("fault" if stopped.signal == SIGSEGV else "breakpoint", self.register("pc"))
        return None

    def interrupt(self) -> None:
        self._interrupted = True  # it stands still whenever nobody waits

    def close(self) -> None:
        """Nothing is open."""
