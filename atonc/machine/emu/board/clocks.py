"""RCC: clocks are ready when they are on, switches report what was chosen, and frequencies follow from the registers.

Every register has a second address that sets bits and a third that clears them.
"""

from __future__ import annotations

from atonc.machine.emu.board.devices import WordRegisters

HSI_HZ, MSI_HZ, HSE_HZ = 64_000_000, 4_000_000, 48_000_000
_CR, _SR, _CFGR1, _CFGR2, _HSICFGR, _CCIPR13 = 0x00, 0x04, 0x20, 0x24, 0x48, 0x174
_PLL, _PLL_STRIDE, _IC1 = 0x80, 0x10, 0xC4
_SET, _CLEAR, SIZE_BYTES = 0x800, 0x1000, 0x2000
_HSI_ON = 1 << 3
_SWITCHES = 0x0303_0000  # CPUSW and SYSSW; their status lies four bits higher
_BUS, _NPU, _NPU_RAM = 2, 6, 11  # numbers of the dividers behind them
# what a first-stage loader of a NUCLEO leaves: PLL1 2400 MHz, PLL2 600 MHz; CPU 600, bus 400, NPU and its RAMs 800 MHz
AFTER_FIRST_STAGE = {
    _CR: 0x308, _CFGR1: 0x0303_0000, _CFGR2: 1 << 20,
    0x80: 2 << 20 | 75 << 8, 0x88: 0x4900_0000, 0x90: 4 << 20 | 75 << 8, 0x98: 0x5100_0000,
    0xC4: 1 << 28, 0xC8: 5 << 16, 0xD8: 2 << 16, 0xEC: 2 << 16,
}  # fmt: skip


class ClockRegisters(WordRegisters):
    def __init__(self, words: dict[int, int] | None = None) -> None:
        super().__init__({_CR: _HSI_ON} | (words or {}))

    def read(self, offset: int) -> int:
        offset %= _SET
        if offset == _CFGR1:
            word = self.words.get(offset, 0) & ~(_SWITCHES << 4)
            return word | (word & _SWITCHES) << 4
        return self.words.get(_CR if offset == _SR else offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset < _SET:
            self.words[offset] = value
        elif offset < _CLEAR:
            self.words[offset - _SET] = self.words.get(offset - _SET, 0) | value
        else:
            self.words[offset - _CLEAR] = self.words.get(offset - _CLEAR, 0) & ~value

    # ------------------------------------------------------------------------------------------------------ frequencies

    @property
    def configured(self) -> bool:
        """Whether anybody chose other clocks than the oscillator that the chip starts with."""
        return bool(self.words.get(_CFGR1, 0) & _SWITCHES)

    @property
    def cpu_hz(self) -> int:
        return self._switched(self.words.get(_CFGR1, 0) >> 16 & 3, 1)

    @property
    def bus_hz(self) -> int:
        return self._switched(self.words.get(_CFGR1, 0) >> 24 & 3, _BUS)

    @property
    def npu_hz(self) -> int:
        return self._switched(self.words.get(_CFGR1, 0) >> 24 & 3, _NPU)

    @property
    def npu_ram_hz(self) -> int:
        return self._switched(self.words.get(_CFGR1, 0) >> 24 & 3, _NPU_RAM)

    @property
    def usart1_hz(self) -> int:
        """The kernel clock of USART1; sources that nobody was seen to choose count as the bus clock."""
        source = self.words.get(_CCIPR13, 0) & 7
        if source in (2, 3):
            return self._divided(9 if source == 2 else 14)
        if source == 5:
            return MSI_HZ
        return self._hsi() if source == 6 else self.bus_hz >> self._prescaler(20) >> self._prescaler(4)

    def _switched(self, source: int, divider: int) -> int:
        return (self._hsi(), MSI_HZ, HSE_HZ, self._divided(divider))[source]

    def _hsi(self) -> int:
        return HSI_HZ >> (self.words.get(_HSICFGR, 0) >> 7 & 3)

    def _prescaler(self, shift: int) -> int:
        return self.words.get(_CFGR2, 0) >> shift & 7

    def _divided(self, number: int) -> int:
        word = self.words.get(_IC1 + 4 * (number - 1), 0)
        return self._pll(word >> 28 & 3) // ((word >> 16 & 0xFF) + 1)

    def _pll(self, number: int) -> int:
        first, third = (self.words.get(_PLL + number * _PLL_STRIDE + offset, 0) for offset in (0, 8))
        source = (self._hsi(), MSI_HZ, HSE_HZ, 0)[first >> 28 & 3]
        if first >> 27 & 1:
            return source
        divided = (first >> 20 & 0x3F or 1) * (third >> 27 & 7 or 1) * (third >> 24 & 7 or 1)
        return source * (first >> 8 & 0xFFF) // divided
