"""TIMx: the counter runs while it is enabled and tells when it has gone round. Nothing is captured or put on pins."""

from __future__ import annotations

from collections.abc import Callable

from atonc.machine.emu.board.clock import Clock
from atonc.machine.emu.board.devices import WordRegisters

_CR1, _DIER, _SR, _EGR, _CNT, _PSC, _ARR = 0x00, 0x0C, 0x10, 0x14, 0x24, 0x28, 0x2C
_ENABLE, _ONE_PULSE, _UPDATE = 1 << 0, 1 << 3, 1 << 0
_RESET_RELOAD = 0xFFFF
_FIRST_NUMBERS, _LATER_NUMBERS = range(2, 8), range(9, 19)
INTERRUPTS = {f"TIM{number}": 114 + number for number in _FIRST_NUMBERS} | {
    f"TIM{number}": 117 + number for number in _LATER_NUMBERS
}


class Timer(WordRegisters):
    def __init__(
        self, clock: Clock, frequencies: Callable[[], tuple[int, int]], set_line: Callable[[bool], None]
    ) -> None:
        super().__init__({_ARR: _RESET_RELOAD})
        self._clock, self._frequencies, self._set_line = clock, frequencies, set_line
        self._start = 0  # when it was zero
        self._turn = 0  # makes updates that were planned before a change void

    def read(self, offset: int) -> int:
        if offset == _CNT and self.words.get(_CR1, 0) & _ENABLE:
            return self._count()
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset == _SR:
            self.words[_SR] = self.words.get(_SR, 0) & value
        elif offset == _CNT:
            self.words[_CNT] = value
            self._restart()
        elif offset == _EGR:
            if value & _UPDATE:
                self.words[_CNT] = 0
                self._update()
                self._restart()
        else:
            running = self.words.get(_CR1, 0) & _ENABLE
            if running and offset in (_CR1, _PSC, _ARR):
                self.words[_CNT] = self._count()
            super().write(offset, value)
            if offset in (_CR1, _PSC, _ARR):
                self._restart()
        self._signal()

    def _cycles(self) -> float:
        """Cycles of the CPU per step of the counter."""
        cpu_hz, timer_hz = self._frequencies()
        return cpu_hz / timer_hz * (self.words.get(_PSC, 0) + 1)

    def _count(self) -> int:
        return int((self._clock.now - self._start) / self._cycles()) % (self.words[_ARR] + 1)

    def _restart(self) -> None:
        self._turn += 1
        if self.words.get(_CR1, 0) & _ENABLE:
            self._start = self._clock.now - round(self.words.get(_CNT, 0) * self._cycles())
            self._plan()

    def _plan(self) -> None:
        turn, period = self._turn, round((self.words[_ARR] + 1) * self._cycles())
        self._clock.schedule(self._start + max(1, period) - self._clock.now, lambda: self._overflow(turn))

    def _overflow(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._start = self._clock.now
        self._update()
        if self.words.get(_CR1, 0) & _ONE_PULSE:
            self.words[_CR1] &= ~_ENABLE
        else:
            self._plan()
        self._signal()

    def _update(self) -> None:
        self.words[_SR] = self.words.get(_SR, 0) | _UPDATE

    def _signal(self) -> None:
        self._set_line(bool(self.words.get(_SR, 0) & self.words.get(_DIER, 0) & _UPDATE))
