"""USART: bytes go out and come in at the speed that was set, one at a time.

Whoever looks at an empty receiver again and again waits for the other side of the wire: so long as nothing comes, time
goes on in steps to the next event, about as fast as the host's own. What comes, comes at the end of such a step too:
however long the host took, it is a number of whole steps, and what the firmware does then always takes as long.
Bytes wait until they are read; an overrun does not happen here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from atonc.machine.emu.board.clock import Clock
from atonc.machine.emu.board.devices import WordRegisters
from atonc.machine.emu.board.terminal import Terminal

_CR1, _BRR, _RQR, _ISR, _ICR, _RDR, _TDR = 0x00, 0x0C, 0x18, 0x1C, 0x20, 0x24, 0x28
_ENABLED, _RECEIVE, _TRANSMIT = 1 << 0, 1 << 2, 1 << 3
_RXNE, _TC, _TXE, _TEACK, _REACK = 1 << 5, 1 << 6, 1 << 7, 1 << 21, 1 << 22
_INTERRUPTS = _RXNE | _TC | _TXE  # the enable bits of CR1 stand where the flags of ISR stand
_FLUSH = 1 << 3
_BITS_PER_BYTE = 10
_PATIENCE = 4  # empty looks in a row that are no waiting yet
_LONGEST_WAIT_S = 0.02


class UartWire(Protocol):
    """The other side: what has come, after a wait for the first byte of so many seconds; and where bytes go."""

    def receive(self, wait_s: float) -> bytes: ...
    def send(self, data: bytes) -> None: ...


class Usart(WordRegisters):
    narrow = True

    def __init__(
        self,
        clock: Clock,
        terminal: Terminal,
        frequencies: Callable[[], tuple[int, int]],  # of the CPU, of the kernel clock
        set_line: Callable[[bool], None],
    ) -> None:
        super().__init__()
        self._clock, self._terminal, self._frequencies, self._set_line = clock, terminal, frequencies, set_line
        self.wire: UartWire | None = None
        self.sent = self.received = 0
        self._in, self._out = bytearray(), bytearray()
        self._next_in = 0  # when the next byte has arrived
        self._idle_at = 0  # when the last byte is out
        self._byte_cycles = self._cpu_hz = 0  # as the clocks are when the UART is set up
        self._empty_looks = 0
        self._last = 0

    # ------------------------------------------------------------------------------------------------------- registers

    def read(self, offset: int) -> int:
        if offset == _ISR:
            return self._status()
        if offset == _RDR:
            return self._take()
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset == _TDR:
            self._put(value & 0xFF)
        elif offset == _RQR:
            if value & _FLUSH:
                self._in.clear()
        elif offset != _ICR:
            super().write(offset, value)
            self._byte_cycles = self._cycles_per_byte()
            self._update()

    def _status(self) -> int:
        control = self.words.get(_CR1, 0)
        word = (_TEACK if control & _TRANSMIT else 0) | (_REACK if control & _RECEIVE else 0)
        if self._clock.now < self._idle_at:
            self._pass_time(self._idle_at)
        if self._clock.now >= self._idle_at:
            word |= _TC | _TXE
        if control & _RECEIVE and not self._in:
            self._look()
        if self._in and self._clock.now < self._next_in:
            self._pass_time(self._next_in)
        return word | (_RXNE if self._in and self._clock.now >= self._next_in else 0)

    def _take(self) -> int:
        if self._in and self._clock.now >= self._next_in:
            self._last = self._in.pop(0)
            self._next_in = self._clock.now + self._byte_cycles
            self.received += 1
            self._update()
        return self._last

    def _put(self, byte: int) -> None:
        if not self.received:  # once the other side has spoken, this is no text any more
            self._terminal.put(byte)
        self._out.append(byte)
        self._idle_at = max(self._clock.now, self._idle_at) + self._byte_cycles
        self._empty_looks = 0
        self.sent += 1
        if len(self._out) >= 4096:
            self.flush()

    # ------------------------------------------------------------------------------------------------------------ time

    def _cycles_per_byte(self) -> int:
        """Cycles of the CPU for a byte; a UART without a divider sends at once."""
        self._cpu_hz, kernel_hz = self._frequencies()
        return _BITS_PER_BYTE * self.words.get(_BRR, 0) * self._cpu_hz // kernel_hz

    def _pass_time(self, until: int) -> None:
        """Who polls a flag waits for it: on to that moment, or to what happens before."""
        event = self._clock.next_event
        self._clock.advance(until if event is None else min(until, event))

    def _look(self) -> None:
        """For bytes from the other side; a firmware that does nothing else waits with the host."""
        self.flush()
        self._empty_looks += 1
        waiting = self._empty_looks >= _PATIENCE
        event, cpu_hz = self._clock.next_event, self._cpu_hz
        until = self._clock.now + round(_LONGEST_WAIT_S * cpu_hz) if event is None else event
        if self.wire is not None:
            wait_s = min(_LONGEST_WAIT_S, max(0, until - self._clock.now) / cpu_hz) if waiting else 0.0
            came = self.wire.receive(wait_s)
            if came:
                self._in += came
                self._empty_looks = 0
        if event is not None if self._in else waiting:
            self._clock.advance(until)
        if self._in:
            self._next_in = self._clock.now + self._byte_cycles

    def poll(self) -> None:
        """Between slices, for firmware that sleeps or takes interrupts: bytes that have come meanwhile."""
        if self.wire is not None and not self._in and self.words.get(_CR1, 0) & _RXNE:
            self._in += self.wire.receive(0.0)
            self._next_in = self._clock.now + self._byte_cycles if self._in else self._next_in
            self._update()

    def flush(self) -> None:
        if self._out and self.wire is not None:
            self.wire.send(bytes(self._out))
        self._out.clear()

    def _update(self) -> None:
        control = self.words.get(_CR1, 0)
        flags = _TC | _TXE | (_RXNE if self._in else 0)
        self._set_line(bool(control & _ENABLED and control & flags & _INTERRUPTS))
