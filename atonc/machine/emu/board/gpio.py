"""GPIO: outputs read back what drives them, inputs read as low."""

from __future__ import annotations

from atonc.machine.emu.board.devices import WordRegisters

_MODER, _IDR, _ODR, _BSRR, _BRR = 0x00, 0x10, 0x14, 0x18, 0x28
_OUTPUT = 1
PORTS = "ABCDEFGHNOPQ"


class Gpio(WordRegisters):
    def read(self, offset: int) -> int:
        if offset == _IDR:
            return self.words.get(_ODR, 0) & self._outputs()
        return 0 if offset in (_BSRR, _BRR) else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset in (_BSRR, _BRR):
            low = value >> 16 if offset == _BSRR else value
            high = value if offset == _BSRR else 0
            self.words[_ODR] = (self.words.get(_ODR, 0) & ~low | high) & 0xFFFF
        else:
            super().write(offset, value)

    def _outputs(self) -> int:
        modes = self.words.get(_MODER, 0)
        return sum(1 << pin for pin in range(16) if modes >> 2 * pin & 3 == _OUTPUT)
