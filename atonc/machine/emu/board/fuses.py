"""BSEC: fuses that are read, and blown when one asks. The virtual chip comes as the boards do: the fuses of the I/O
voltages (word 124) are blown, else firmware for the DK would blow them and wait for a reset."""

from __future__ import annotations

from atonc.machine.emu.board.devices import WordRegisters

_FUSES, _OTPCR, _WDR, _OTPSR = 0x600, 0xC04, 0xC08, 0xE44
_ADDRESS, _PROGRAM = 0x1FF, 1 << 13
_VOLTAGES, _VOLTAGES_BLOWN = 4 * 124, 1 << 15 | 1 << 16
_READY = 1 << 1  # initialised, never busy


class Fuses(WordRegisters):
    def __init__(self) -> None:
        super().__init__({_VOLTAGES: _VOLTAGES_BLOWN})

    def read(self, offset: int) -> int:
        return _READY if offset == _OTPSR else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset < _FUSES:
            return  # shadows of fuses are for reading
        if offset == _OTPCR and value & _PROGRAM:
            word = 4 * (value & _ADDRESS)
            self.words[word] = self.words.get(word, 0) | self.words.get(_WDR, 0)
        super().write(offset, value)
