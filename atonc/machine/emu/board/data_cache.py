"""The processor's data cache, as unkind as a cache may be: what is not cleaned never reaches memory in time, what is
not invalidated is never read again, and dirty lines are written back at the worst moment.

CPU and NPU each have their own bytes; maintenance by address (or of everything) is what copies lines between them. So
a firmware that forgets a call computes something else here, as it may on a board.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import Bytes, canonical

LINE = 32
_CHUNK = 1 << 16
INVALIDATE, CLEAN, CLEAN_INVALIDATE = 0xEF5C, 0xEF68, 0xEF70  # by address, offsets in the system control space
_ALL = {0xEF60: INVALIDATE, 0xEF6C: CLEAN, 0xEF74: CLEAN_INVALIDATE}  # by set and way


@dataclass(frozen=True)
class CachedMemory:
    base: int
    memory: Bytes  # what other masters see
    cpu: Bytes  # what the processor sees
    clean: Bytes  # what it saw when the line was last in step
    written: set[int] = field(default_factory=set)  # lines that it wrote, whatever the value

    @property
    def end(self) -> int:
        return self.base + self.memory.size


class DataCache:
    """Every line is always in it."""

    def __init__(self) -> None:
        self.parts: list[CachedMemory] = []
        self.operations = 0

    def add(self, base: int, memory: Bytes) -> Bytes:
        """The processor's own bytes of a memory that holds zeros (copies would occupy all of it)."""
        part = CachedMemory(base, memory, np.zeros_like(memory), np.zeros_like(memory))
        self.parts.append(part)
        return part.cpu

    def command(self, offset: int, value: int) -> None:
        """A write to a maintenance register."""
        if offset in _ALL:
            for part in self.parts:
                self._apply(_ALL[offset], part, 0, part.memory.size)
        elif offset in (INVALIDATE, CLEAN, CLEAN_INVALIDATE):
            self.operations += 1
            address = canonical(value) & ~(LINE - 1)
            for part in self.parts:
                if part.base <= address < part.end:
                    self._apply(offset, part, address - part.base, LINE)

    def wrote(self, address: int, size_bytes: int) -> None:
        """The processor has written; where nobody says so, a line is dirty when its bytes have changed."""
        address = canonical(address)
        for part in self.parts:
            if part.base <= address < part.end:
                first, last = ((address - part.base + offset) // LINE for offset in (0, size_bytes - 1))
                part.written.add(first)
                part.written.add(last)

    def in_step(self, address: int, size_bytes: int) -> None:
        """The host has put bytes into memory: an application would have told the cache. Its neighbours stay."""
        address = canonical(address)
        for part in self.parts:
            if part.base <= address < part.end:
                self._fetch(part, address - part.base, size_bytes)

    def evict(self) -> None:
        """Writes back what is dirty, as a cache may do at any time: after the NPU has written, for instance."""
        for part in self.parts:
            for start in range(0, part.memory.size, _CHUNK):
                size = min(_CHUNK, part.memory.size - start)
                cpu, clean = (side[start : start + size].view("<u8") for side in (part.cpu, part.clean))
                same = np.array_equal(cpu, clean)
                if not same or any(start <= line * LINE < start + size for line in part.written):
                    self._write_back(part, start, size)

    def _apply(self, operation: int, part: CachedMemory, start: int, size: int) -> None:
        if operation != INVALIDATE:
            self._write_back(part, start, size)
        if operation != CLEAN:
            self._fetch(part, start, size)
            part.written.difference_update(range(start // LINE, (start + size) // LINE))

    @staticmethod
    def _write_back(part: CachedMemory, start: int, size: int) -> None:
        """Whole lines: bytes that others changed in a dirty line are lost."""
        first, count = start // LINE, size // LINE
        cut = slice(start, start + size)
        cpu, clean, memory = (side[cut].reshape(-1, LINE) for side in (part.cpu, part.clean, part.memory))
        dirty = (cpu.view("<u8") != clean.view("<u8")).any(axis=1)
        dirty[[line - first for line in part.written if first <= line < first + count]] = True
        memory[dirty] = clean[dirty] = cpu[dirty]
        part.written.difference_update(range(first, first + count))

    @staticmethod
    def _fetch(part: CachedMemory, start: int, size: int) -> None:
        cut = slice(start, start + size)
        part.cpu[cut] = part.clean[cut] = part.memory[cut]
