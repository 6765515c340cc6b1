"""The memories as the processor sees them: arrays at addresses, aliases included, devices not."""

from __future__ import annotations

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import Bytes


@dataclass(frozen=True)
class MemoryWindow:
    start: int
    data: Bytes

    @property
    def end(self) -> int:
        return self.start + self.data.size


class CpuMemory:
    """Written here, memory changes behind unicorn's back: who writes where code may lie has to tell it."""

    def __init__(self) -> None:
        self.windows: list[MemoryWindow] = []
        self._last: MemoryWindow | None = None

    def add(self, start: int, data: Bytes) -> None:
        self.windows.append(MemoryWindow(start, data))

    def find(self, address: int) -> MemoryWindow | None:
        last = self._last
        if last is not None and last.start <= address < last.end:
            return last
        self._last = next((w for w in self.windows if w.start <= address < w.end), None)
        return self._last

    def view(self, address: int, size_bytes: int) -> Bytes:
        window = self.find(address)
        if window is None or address + size_bytes > window.end:
            raise InputError(f"access to {size_bytes} bytes at {address:#010x}, where no memory is")
        offset = address - window.start
        return window.data[offset : offset + size_bytes]

    def code(self, address: int, size_bytes: int) -> bytes:
        """Up to so many bytes, fewer at the end of a memory; none where there is none."""
        window = self.find(address)
        if window is None:
            return b""
        offset = address - window.start
        return window.data[offset : offset + size_bytes].tobytes()
