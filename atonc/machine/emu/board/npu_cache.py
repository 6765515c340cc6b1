"""CACHEAXI, the NPU's cache: its commands are done when one looks. What it would keep back from memory it does not."""

from __future__ import annotations

from atonc.machine.emu.board.devices import WordRegisters

_CR1, _SR, _CR2 = 0x00, 0x04, 0x100
_DONE = 1 << 1 | 1 << 4  # of an invalidation of everything, of a command for a range
_INVALIDATE, _START = 1 << 1, 1 << 0


class NpuCache(WordRegisters):
    def read(self, offset: int) -> int:
        return _DONE if offset == _SR else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        commands = {_CR1: _INVALIDATE, _CR2: _START}
        super().write(offset, value & ~commands.get(offset, 0))
