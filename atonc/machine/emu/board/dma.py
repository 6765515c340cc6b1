"""HPDMA1: a channel that software starts copies its block from one address to another.

How fast the chip's DMA is has not been measured. Here it moves what the slower of the two memories gives, whatever the
NPU does meanwhile; linked lists, requests of peripherals and rights (RIF) are not modelled."""

from __future__ import annotations

from collections.abc import Callable

from atonc.machine.base.errors import InputError
from atonc.machine.emu.board.peripherals import WordRegisters
from atonc.machine.emu.board.system import Clock
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.hw.machine import Machine

BYTES = 0x1000
_FIRST, _STRIDE, _CHANNELS = 0x50, 0x80, 16
_FCR, _SR, _CR, _TR2, _BR1, _SAR, _DAR = 0x0C, 0x10, 0x14, 0x44, 0x48, 0x4C, 0x50
_ON, _BY_SOFTWARE, _SIZE = 1, 1 << 9, 0xFFFF
_IDLE, _ENDED, _DATA_ERROR = 1, 1 << 8, 1 << 10
_BUS_BYTES = 8


class Hpdma(WordRegisters):
    def __init__(self, clock: Clock, memory: AddressSpace, machine: Machine, cpu_hz: Callable[[], int]) -> None:
        super().__init__()
        self._clock, self._memory, self._machine, self._cpu_hz = clock, memory, machine, cpu_hz

    def read(self, offset: int) -> int:
        channel = self._channel(offset)
        found = super().read(offset)
        idle = channel is not None and offset == channel + _SR and not self.words.get(channel + _CR, 0) & _ON
        return found | _IDLE if idle else found

    def write(self, offset: int, value: int) -> None:
        channel = self._channel(offset)
        if channel is not None and offset == channel + _FCR:
            self.words[channel + _SR] = self.words.get(channel + _SR, 0) & ~value
            return
        super().write(offset, value)
        if channel is not None and offset == channel + _CR and value & _ON:
            self._start(channel)

    def _channel(self, offset: int) -> int | None:
        number, _ = divmod(offset - _FIRST, _STRIDE)
        return _FIRST + number * _STRIDE if 0 <= number < _CHANNELS else None

    def _start(self, channel: int) -> None:
        if not self.words.get(channel + _TR2, 0) & _BY_SOFTWARE:
            return  # it waits for a request that nobody makes
        source, target = (self.words.get(channel + register, 0) for register in (_SAR, _DAR))
        size = self.words.get(channel + _BR1, 0) & _SIZE
        seconds = size / (1e6 * min(self._mb_per_s(source), self._mb_per_s(target)))
        self._clock.schedule(round(seconds * self._cpu_hz()), lambda: self._end(channel, source, target, size))

    def _mb_per_s(self, address: int) -> float:
        bank = self._machine.memory_at(address)
        if bank is not None and bank.external:
            return self._machine.clocks.npu_mhz / self._machine.external_cycles_per_byte(bank)
        return self._machine.clocks.noc_mhz * _BUS_BYTES

    def _end(self, channel: int, source: int, target: int, size: int) -> None:
        if not self.words.get(channel + _CR, 0) & _ON:
            return  # it was reset meanwhile
        try:
            self._memory.write(target, self._memory.read(source, size))
            flag = _ENDED
        except InputError:
            flag = _DATA_ERROR
        self.words[channel + _SR] = self.words.get(channel + _SR, 0) | flag
        self.words[channel + _CR] &= ~_ON
