"""PWR: the voltage that was asked for is there when one looks."""

from __future__ import annotations

from atonc.machine.emu.board.devices import WordRegisters

_VOSCR = 0x20
_VOS, _READY, _ACTIVE, _ACTIVE_READY = 1 << 0, 1 << 1, 1 << 16, 1 << 17


class PowerRegisters(WordRegisters):
    def read(self, offset: int) -> int:
        word = super().read(offset)
        if offset != _VOSCR:
            return word
        return word & ~_ACTIVE | _READY | _ACTIVE_READY | (_ACTIVE if word & _VOS else 0)
