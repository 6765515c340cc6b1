"""XSPI: the controllers of flash and external RAM. Both memories are always mapped; indirect commands are done when one
looks, registers of the memory chip keep what was written to them, and status registers read as ready."""

from __future__ import annotations

from atonc.machine.emu.board.devices import WordRegisters

_CR, _SR, _FCR, _DLR, _AR, _DR, _IR = 0x00, 0x20, 0x24, 0x40, 0x48, 0x50, 0x110
_MODE_SHIFT, _INDIRECT_READ = 28, 1
_READY = 1 << 1 | 1 << 2 | 1 << 3  # transfer complete, FIFO threshold, status match; never busy


class Xspi(WordRegisters):
    narrow = True  # the data register takes bytes

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[int] = []  # instruction codes as they were sent
        self._chip: dict[int, bytes] = {}  # registers of the memory chip by address
        self._position = 0

    def read(self, offset: int) -> int:
        if offset == _SR:
            return _READY
        if offset != _DR or self.words.get(_CR, 0) >> _MODE_SHIFT & 3 != _INDIRECT_READ:
            return super().read(offset)
        known = self._chip.get(self.words.get(_AR, 0), b"\0")
        self._position += 1
        return known[min(self._position, len(known)) - 1]

    def write(self, offset: int, value: int) -> None:
        if offset == _DR:
            address = self.words.get(_AR, 0)
            before = self._chip.get(address, b"") if self._position else b""
            self._chip[address] = before + bytes([value & 0xFF])
            self._position += 1
            return
        if offset in (_IR, _AR, _CR):
            self._position = 0
        if offset == _IR:
            self.commands.append(value)
        super().write(offset, value)
