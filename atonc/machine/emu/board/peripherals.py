"""The peripherals of the board: models of those that firmware asks something of, and which stands at which address.

What has a model is asked, everything else keeps what is written.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import cache, partial
from importlib.resources import files
from typing import Protocol

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.system import Clock, Nvic

_RECENT = 24


@dataclass
class AddressUse:
    reads: int = 0
    writes: int = 0
    last_read: int = 0
    last_written: int = 0


@dataclass
class Accesses:
    """Which device registers a firmware touches: the last ones, to show where it stands, and those that no model stands
    behind, because what they would do is missing here."""

    recent: deque[tuple[str, int, int]] = field(default_factory=lambda: deque(maxlen=_RECENT))  # kind, address, value
    unmodelled: dict[int, AddressUse] = field(default_factory=dict)

    def note(self, kind: str, address: int, value: int) -> None:
        self.recent.append((kind, address, value))

    def note_unmodelled(self, kind: str, address: int, value: int) -> None:
        use = self.unmodelled.setdefault(address, AddressUse())
        if kind == "read":
            use.reads, use.last_read = use.reads + 1, value
        else:
            use.writes, use.last_written = use.writes + 1, value

    def recent_lines(self) -> list[str]:
        """Oldest first; the same access again and again is one line."""
        lines: list[str] = []
        counts: list[int] = []
        for kind, address, value in self.recent:
            line = f"{kind:5} {name_of(address)} {value:#010x}"
            if lines and lines[-1] == line:
                counts[-1] += 1
            else:
                lines.append(line)
                counts.append(1)
        return [line if count == 1 else f"{line} ({count} times)" for line, count in zip(lines, counts, strict=True)]

    def unmodelled_lines(self) -> list[str]:
        return [
            f"{name_of(address)}: read {use.reads} times, written {use.writes} times, holds "
            f"{use.last_written if use.writes else use.last_read:#010x}"
            for address, use in sorted(self.unmodelled.items())
        ]


_SPAN = 0x2000  # no peripheral is larger than RCC
_ALIAS = 0x1000_0000


@cache
def _tables() -> tuple[list[tuple[int, str, str]], dict[str, dict[int, str]]]:
    data = json.loads(files(__package__).joinpath("registers.json").read_text())
    places = sorted((int(base, 16), name, kind) for name, (kind, base) in data["peripherals"].items())
    names = {
        kind: {
            offset + 4 * k: name if count == 1 else f"{name}[{k}]"
            for name, offset, count in members
            for k in range(count)
        }
        for kind, members in data["registers"].items()
    }
    return places, names


@cache
def base_of(peripheral: str) -> int:
    return next(base for base, name, _ in _tables()[0] if name == peripheral)


@cache
def name_of(address: int) -> str:
    """`RCC.CFGR1`, or the peripheral with an offset, or the address."""
    places, names = _tables()
    address = (address | _ALIAS if address >> 28 == 4 else address) & ~3
    index = bisect_right(places, (address, "\uffff", "")) - 1
    if index < 0 or address - places[index][0] >= _SPAN:
        return f"{address:#010x}"
    base, name, kind = places[index]
    register = names.get(kind, {}).get(address - base)
    return f"{name}.{register}" if register else f"{name}+{address - base:#05x}"


_SLOT_BITS = 10  # peripherals begin at multiples of 1 KB


class Device(Protocol):
    """Words at offsets. `narrow` devices get smaller writes as they come, others as the whole word that results."""

    narrow: bool

    def read(self, offset: int) -> int: ...
    def write(self, offset: int, value: int) -> None: ...


class Devices:
    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses
        self.kept: dict[int, int] = {}  # registers without a model, by address
        self._slots: dict[int, tuple[int, Device]] = {}

    def add(self, name: str, device: Device, size_bytes: int = 1 << _SLOT_BITS) -> None:
        base = base_of(name)
        for slot in range(base >> _SLOT_BITS, (base + size_bytes) >> _SLOT_BITS):
            self._slots[slot] = base, device

    def read(self, address: int, size: int) -> int:
        shift = 8 * (address & 3)
        word = self._word(address & ~3)
        self.accesses.note("read", address & ~3, word)
        return word >> shift & (1 << 8 * size) - 1

    def write(self, address: int, size: int, value: int) -> None:
        base, device = self._slots.get(address >> _SLOT_BITS, (0, None))
        if size < 4 and not (device is not None and device.narrow):
            shift, mask = 8 * (address & 3), (1 << 8 * size) - 1
            value = self._word(address & ~3) & ~(mask << shift) | (value & mask) << shift
        address &= ~3
        self.accesses.note("write", address, value)
        if device is not None:
            device.write(address - base, value)
        else:
            self.kept[address] = value
            self.accesses.note_unmodelled("write", address, value)

    def _word(self, address: int) -> int:
        base, device = self._slots.get(address >> _SLOT_BITS, (0, None))
        if device is not None:
            return device.read(address - base)
        value = self.kept.get(address, 0)
        self.accesses.note_unmodelled("read", address, value)
        return value


class WordRegisters:
    """Registers that keep what is written: the common part of all models."""

    narrow = False

    def __init__(self, words: dict[int, int] | None = None) -> None:
        self.words = dict(words or {})
        self.stuck: dict[int, tuple[int, int]] = {}  # bits that no write changes: mask and value (planted faults)
        self.changed: Callable[[], None] | None = None  # called after every write

    def read(self, offset: int) -> int:
        return self.words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        self.store(offset, value)

    def store(self, offset: int, value: int) -> None:
        mask, bits = self.stuck.get(offset, (0, 0))
        self.words[offset] = value & ~mask | bits
        if self.changed is not None:
            self.changed()

    def hold(self) -> None:
        """Stuck bits hold their value before the first write too."""
        for offset, (mask, bits) in self.stuck.items():
            self.words[offset] = self.words.get(offset, 0) & ~mask | bits

    def reset(self) -> None:
        self.words.clear()
        self.hold()


_MODER, _IDR, _ODR, _GPIO_BSRR, _GPIO_BRR = 0x00, 0x10, 0x14, 0x18, 0x28
_OUTPUT = 1
PORTS = "ABCDEFGHNOPQ"


class Gpio(WordRegisters):
    """Outputs read back what drives them, inputs read as low."""

    def read(self, offset: int) -> int:
        if offset == _IDR:
            return self.words.get(_ODR, 0) & self._outputs()
        return 0 if offset in (_GPIO_BSRR, _GPIO_BRR) else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset in (_GPIO_BSRR, _GPIO_BRR):
            low = value >> 16 if offset == _GPIO_BSRR else value
            high = value if offset == _GPIO_BSRR else 0
            self.words[_ODR] = (self.words.get(_ODR, 0) & ~low | high) & 0xFFFF
        else:
            super().write(offset, value)

    def _outputs(self) -> int:
        modes = self.words.get(_MODER, 0)
        return sum(1 << pin for pin in range(16) if modes >> 2 * pin & 3 == _OUTPUT)


_FUSES, _OTPCR, _WDR, _OTPSR = 0x600, 0xC04, 0xC08, 0xE44
_ADDRESS, _PROGRAM = 0x1FF, 1 << 13
_VOLTAGES, _VOLTAGES_BLOWN = 4 * 124, 1 << 15 | 1 << 16
_FUSES_READY = 1 << 1  # initialised, never busy


class Fuses(WordRegisters):
    """BSEC: fuses that are read, and blown when one asks. The virtual chip comes as the boards do: the fuses of the I/O
    voltages (word 124) are blown, else firmware for the DK would blow them and wait for a reset."""

    def __init__(self) -> None:
        super().__init__({_VOLTAGES: _VOLTAGES_BLOWN})

    def read(self, offset: int) -> int:
        return _FUSES_READY if offset == _OTPSR else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset < _FUSES:
            return  # shadows of fuses are for reading
        if offset == _OTPCR and value & _PROGRAM:
            word = 4 * (value & _ADDRESS)
            self.words[word] = self.words.get(word, 0) | self.words.get(_WDR, 0)
        super().write(offset, value)


_CACHE_CR1, _CACHE_SR, _CACHE_CR2 = 0x00, 0x04, 0x100
_DONE = 1 << 1 | 1 << 4  # of an invalidation of everything, of a command for a range
_INVALIDATE, _START = 1 << 1, 1 << 0


class NpuCache(WordRegisters):
    """CACHEAXI: its commands are done when one looks. What it would keep back from memory it does not."""

    @property
    def enabled(self) -> bool:
        return bool(self.words.get(_CACHE_CR1, 0) & 1)

    def read(self, offset: int) -> int:
        return _DONE if offset == _CACHE_SR else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        commands = {_CACHE_CR1: _INVALIDATE, _CACHE_CR2: _START}
        super().write(offset, value & ~commands.get(offset, 0))


_VOSCR = 0x20
_VOS, _READY, _ACTIVE, _ACTIVE_READY = 1 << 0, 1 << 1, 1 << 16, 1 << 17


class PowerRegisters(WordRegisters):
    """PWR: the voltage that was asked for is there when one looks."""

    def read(self, offset: int) -> int:
        word = super().read(offset)
        if offset != _VOSCR:
            return word
        return word & ~_ACTIVE | _READY | _ACTIVE_READY | (_ACTIVE if word & _VOS else 0)


# who may reach what: settings are kept; a strict chip enforces them (`rights`)
FIREWALLS = ("RIFSC", "IAC", *(f"RISAF{n}" for n in (*range(1, 10), *range(11, 16), 21, 22, 23)))
FIREWALL_BYTES = 0x1000


_XSPI_CR, _XSPI_SR, _FCR, _DLR, _AR, _DR, _IR = 0x00, 0x20, 0x24, 0x40, 0x48, 0x50, 0x110
_MODE_SHIFT, _INDIRECT_READ = 28, 1
_XSPI_READY = 1 << 1 | 1 << 2 | 1 << 3  # transfer complete, FIFO threshold, status match; never busy


class Xspi(WordRegisters):
    """The controllers of flash and external RAM. Indirect commands are done when one looks, registers of the memory
    chip keep what was written to them, and status registers read as ready."""

    narrow = True  # the data register takes bytes

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[int] = []  # instruction codes as they were sent
        self._chip: dict[int, bytes] = {}  # registers of the memory chip by address
        self._position = 0

    def read(self, offset: int) -> int:
        if offset == _XSPI_SR:
            return _XSPI_READY
        if offset != _DR or self.words.get(_XSPI_CR, 0) >> _MODE_SHIFT & 3 != _INDIRECT_READ:
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
        if offset in (_IR, _AR, _XSPI_CR):
            self._position = 0
        if offset == _IR:
            self.commands.append(value)
        super().write(offset, value)


HSI_HZ, MSI_HZ, HSE_HZ = 64_000_000, 4_000_000, 48_000_000
_RCC_CR, _RCC_SR, _CFGR1, _CFGR2, _HSICFGR, _CCIPR13 = 0x00, 0x04, 0x20, 0x24, 0x48, 0x174
_PLL, _PLL_STRIDE, _IC1 = 0x80, 0x10, 0xC4
_SET, _CLEAR, RCC_BYTES = 0x800, 0x1000, 0x2000
_HSI_ON = 1 << 3
_SWITCHES = 0x0303_0000  # CPUSW and SYSSW; their status lies four bits higher
_BUS, _NPU, _NPU_RAM = 2, 6, 11  # numbers of the dividers behind them
# what a first-stage loader of a NUCLEO leaves: PLL1 2400 MHz, PLL2 600 MHz; CPU 600, bus 400, NPU and its RAMs 800 MHz
AFTER_FIRST_STAGE = {
    _RCC_CR: 0x308, _CFGR1: 0x0303_0000, _CFGR2: 1 << 20,
    0x80: 2 << 20 | 75 << 8, 0x88: 0x4900_0000, 0x90: 4 << 20 | 75 << 8, 0x98: 0x5100_0000,
    0xC4: 1 << 28, 0xC8: 5 << 16, 0xD8: 2 << 16, 0xEC: 2 << 16,
}  # fmt: skip


class ClockRegisters(WordRegisters):
    """RCC: clocks are ready when they are on, switches report what was chosen, and frequencies follow from the
    registers. Every register has a second address that sets bits and a third that clears them."""

    def __init__(self, words: dict[int, int] | None = None) -> None:
        super().__init__({_RCC_CR: _HSI_ON} | (words or {}))

    def read(self, offset: int) -> int:
        offset %= _SET
        if offset == _CFGR1:
            word = self.words.get(offset, 0) & ~(_SWITCHES << 4)
            return word | (word & _SWITCHES) << 4
        return self.words.get(_RCC_CR if offset == _RCC_SR else offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset < _SET:
            self.store(offset, value)
        elif offset < _CLEAR:
            self.store(offset - _SET, self.words.get(offset - _SET, 0) | value)
        else:
            self.store(offset - _CLEAR, self.words.get(offset - _CLEAR, 0) & ~value)

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


_TIM_CR1, _DIER, _TIM_SR, _EGR, _CNT, _PSC, _ARR = 0x00, 0x0C, 0x10, 0x14, 0x24, 0x28, 0x2C
_ENABLE, _ONE_PULSE, _UPDATE = 1 << 0, 1 << 3, 1 << 0
_RESET_RELOAD = 0xFFFF
_FIRST_NUMBERS, _LATER_NUMBERS = range(2, 8), range(9, 19)
TIMER_INTERRUPTS = {f"TIM{number}": 114 + number for number in _FIRST_NUMBERS} | {
    f"TIM{number}": 117 + number for number in _LATER_NUMBERS
}


class Timer(WordRegisters):
    """TIMx: the counter runs while it is enabled and tells when it has gone round. Nothing is captured or put on
    pins."""

    def __init__(
        self, clock: Clock, frequencies: Callable[[], tuple[int, int]], set_line: Callable[[bool], None]
    ) -> None:
        super().__init__({_ARR: _RESET_RELOAD})
        self._clock, self._frequencies, self._set_line = clock, frequencies, set_line
        self._start = 0  # when it was zero
        self._turn = 0  # makes updates that were planned before a change void

    def read(self, offset: int) -> int:
        if offset == _CNT and self.words.get(_TIM_CR1, 0) & _ENABLE:
            return self._count()
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset == _TIM_SR:
            self.words[_TIM_SR] = self.words.get(_TIM_SR, 0) & value
        elif offset == _CNT:
            self.words[_CNT] = value
            self._restart()
        elif offset == _EGR:
            if value & _UPDATE:
                self.words[_CNT] = 0
                self._update()
                self._restart()
        else:
            running = self.words.get(_TIM_CR1, 0) & _ENABLE
            if running and offset in (_TIM_CR1, _PSC, _ARR):
                self.words[_CNT] = self._count()
            super().write(offset, value)
            if offset in (_TIM_CR1, _PSC, _ARR):
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
        if self.words.get(_TIM_CR1, 0) & _ENABLE:
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
        if self.words.get(_TIM_CR1, 0) & _ONE_PULSE:
            self.words[_TIM_CR1] &= ~_ENABLE
        else:
            self._plan()
        self._signal()

    def _update(self) -> None:
        self.words[_TIM_SR] = self.words.get(_TIM_SR, 0) | _UPDATE

    def _signal(self) -> None:
        self._set_line(bool(self.words.get(_TIM_SR, 0) & self.words.get(_DIER, 0) & _UPDATE))


MAX_TEXT = 4 << 20  # a firmware that prints for ever must not fill the host's memory


class Terminal:
    """What a firmware prints on its UARTs, as text; `listen` gets every whole line as it arrives."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._line: list[str] = []
        self.listen: Callable[[str], None] | None = None

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def put(self, byte: int) -> None:
        if len(self._text) >= MAX_TEXT:
            return
        character = chr(byte)
        self._text.append(character)
        if character == "\n":
            line, self._line = "".join(self._line).rstrip("\r"), []
            if self.listen is not None:
                self.listen(line)
        else:
            self._line.append(character)


_USART_CR1, _USART_BRR, _RQR, _ISR, _ICR, _RDR, _TDR = 0x00, 0x0C, 0x18, 0x1C, 0x20, 0x24, 0x28
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
    """Bytes go out and come in at the speed that was set, one at a time.

    Whoever looks at an empty receiver again and again waits for the other side of the wire: so long as nothing comes,
    time goes on in steps to the next event, about as fast as the host's own. What comes, comes at the end of such a
    step too: however long the host took, it is a number of whole steps, and what the firmware does then always takes as
    long. Bytes wait until they are read; an overrun does not happen here.
    """

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
        control = self.words.get(_USART_CR1, 0)
        word = (_TEACK if control & _TRANSMIT else 0) | (_REACK if control & _RECEIVE else 0)
        if self._clock.now < self._idle_at:
            self._pass_time(self._idle_at)
        if self._clock.now >= self._idle_at:
            word |= _TC | _TXE
        if control & _RECEIVE and not self._in and not self._clock.held:
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
        return _BITS_PER_BYTE * self.words.get(_USART_BRR, 0) * self._cpu_hz // kernel_hz

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
        if self.wire is not None and not self._in and self.words.get(_USART_CR1, 0) & _RXNE:
            self._in += self.wire.receive(0.0)
            self._next_in = self._clock.now + self._byte_cycles if self._in else self._next_in
            self._update()

    def flush(self) -> None:
        if self._out and self.wire is not None:
            self.wire.send(bytes(self._out))
        self._out.clear()

    def _update(self) -> None:
        control = self.words.get(_USART_CR1, 0)
        flags = _TC | _TXE | (_RXNE if self._in else 0)
        self._set_line(bool(control & _ENABLED and control & flags & _INTERRUPTS))


_UARTS = {"USART1": 159, "USART2": 160, "USART3": 161, "UART4": 162, "UART5": 163, "USART6": 164, "UART7": 165,
          "UART8": 166, "UART9": 167, "USART10": 168}  # fmt: skip
_IDCODE = {0: 0x1000_6486}  # DBGMCU: an STM32N6
_PAGE = 0x1000
_DEFAULT_CPU_HZ = 800_000_000


class Peripherals:
    """`clocks` as registers of RCC is what a first-stage loader has left."""

    def __init__(
        self, clock: Clock, nvic: Nvic, terminal: Terminal, accesses: Accesses, preset: dict[int, int] | None = None
    ) -> None:
        self.devices = Devices(accesses)
        self.clocks = ClockRegisters(preset)
        self.uarts: dict[str, Usart] = {}
        add = self.devices.add
        add("RCC", self.clocks, RCC_BYTES)
        add("PWR", PowerRegisters())
        add("BSEC", Fuses(), _PAGE)
        add("CACHEAXI", NpuCache())
        add("DBGMCU", WordRegisters(_IDCODE))
        for port in PORTS:
            add(f"GPIO{port}", Gpio())
        for name in FIREWALLS:
            add(name, WordRegisters(), FIREWALL_BYTES)
        self.xspi = {f"XSPI{number}": Xspi() for number in (1, 2, 3)}
        for name, controller in self.xspi.items():
            add(name, controller)
        for name, irq in _UARTS.items():
            self.uarts[name] = Usart(clock, terminal, self._uart_hz, partial(nvic.set_line, irq))
            add(name, self.uarts[name])
        for name, irq in TIMER_INTERRUPTS.items():
            add(name, Timer(clock, self._timer_hz, partial(nvic.set_line, irq)))

    def connect(self, wire: UartWire, uart: str = "USART1") -> None:
        self.uarts[uart].wire = wire

    @property
    def cpu_hz(self) -> int:
        return self.clocks.cpu_hz or _DEFAULT_CPU_HZ

    def _uart_hz(self) -> tuple[int, int]:
        return self.cpu_hz, self.clocks.usart1_hz or HSI_HZ

    def _timer_hz(self) -> tuple[int, int]:
        return self.cpu_hz, self.clocks.bus_hz or HSI_HZ
