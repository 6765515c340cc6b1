"""The debug port of the virtual board, bit by bit: OpenOCD reaches it by its adapter `remote_bitbang`.

A JTAG debug port, one memory access port, and the debug registers of an Arm core: halt, step, core registers,
breakpoint comparators, reset. Written from Arm's architecture manuals (ADIv5, Armv8-M), for tests only.
"""

from __future__ import annotations

import socket

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.board.debugging import REGISTERS, BoardDebugger, DebugStop

DPIDR, AP_IDR = 0x4BA0_0477, 0x2477_0011
_CSW, _TAR, _DRW, _IDR = 0x00, 0x04, 0x0C, 0xFC
_AIRCR, _DFSR, _DHCSR, _DCRSR, _DCRDR, _DEMCR = 0xED0C, 0xED30, 0xEDF0, 0xEDF4, 0xEDF8, 0xEDFC
_FP_CTRL, _FP_COMP, _COMPARATORS = 0x2000, 0x2008, 8
_CORE = 0xE000_0000


class DebugRegisters:
    """What a debugger finds at 0xE000E000 and around it; everything else is the board's."""

    def __init__(self, debugger: BoardDebugger) -> None:
        self.debugger, self.halted, self.resets = debugger, False, 0
        self._control = self._data = self._trap = self._fault = self._sticky = 0
        self._comparators = [0] * _COMPARATORS

    def read(self, address: int) -> int:
        offset = address - _CORE
        if offset == _DHCSR:
            return self._status()
        fixed = {_DCRDR: self._data, _DEMCR: self._trap, _DFSR: self._fault, _FP_CTRL: 0x1000_0001 | _COMPARATORS << 4}
        if offset in fixed:
            return fixed[offset]
        if _FP_COMP <= offset < _FP_COMP + 4 * _COMPARATORS:
            return self._comparators[offset - _FP_COMP >> 2]
        if 0x1000 <= offset < 0x3000:  # DWT and the rest of the breakpoint unit
            return 0
        return int.from_bytes(self.debugger.read(address, 4), "little")

    def write(self, address: int, value: int, size: int = 4) -> None:
        offset = address - _CORE
        if offset == _DHCSR:
            if value >> 16 == 0xA05F:
                self._run_control(value & 0xFFFF)
        elif offset == _DCRSR:
            self._transfer(value & 0x7F, bool(value >> 16 & 1))
        elif offset == _DCRDR:
            self._data = value
        elif offset == _DEMCR:
            self._trap = value
        elif offset == _DFSR:
            self._fault &= ~value
        elif offset == _AIRCR and value & 4:
            self.debugger.reset()
            self.resets += 1
            self._sticky, self.halted = 1 << 25, bool(self._trap & 1)
            self._fault |= 8 if self.halted else 0
        elif _FP_COMP <= offset < _FP_COMP + 4 * _COMPARATORS:
            self._compare(offset - _FP_COMP >> 2, value)
        elif not 0x1000 <= offset < 0x3000:
            self.debugger.write(address, value.to_bytes(4, "little")[:size])

    def _status(self) -> int:
        """Time passes on the board when somebody looks whether it has stopped."""
        if not self.halted:
            self._stopped(self.debugger.go())
        sticky, self._sticky = self._sticky, 0
        return self._control & 0xF | 1 << 16 | self.halted << 17 | sticky

    def _stopped(self, stop: DebugStop | None) -> None:
        if stop is not None:
            self.halted, self._fault = True, self._fault | 2

    def _run_control(self, value: int) -> None:
        halted, self._control = self.halted, value
        if value & 2:
            if not halted:
                self.debugger.halt()
                self._fault |= 1
            self.halted = True
        elif value & 4 and halted:
            self.debugger.step()
            self._fault |= 1
        elif halted and value & 1:
            self.halted = False
            self._stopped(self.debugger.go())

    def _transfer(self, number: int, write: bool) -> None:
        names = {**dict(enumerate(REGISTERS[:19])), 33: "fpscr"}
        if number == 20:
            packed = ("primask", "basepri", "faultmask", "control")
            self._data = sum(self.debugger.register(name) << 8 * k for k, name in enumerate(packed))
        elif number not in names:
            self._data = 0
        elif write:
            self.debugger.set_register(names[number], self._data)
        else:
            self._data = self.debugger.register(names[number])

    def _compare(self, index: int, value: int) -> None:
        old, self._comparators[index] = self._comparators[index], value
        if old & 1:
            self.debugger.remove(1, old & ~1, 2)
        if value & 1:
            self.debugger.insert(1, value & ~1, 2)


class DebugPort:
    """The debug port and the one access port behind it."""

    def __init__(self, registers: DebugRegisters) -> None:
        self._chip = registers
        self._control = self._select = self._word = self._address = 0

    def read(self, ap: bool, address: int) -> int:
        if ap:
            return self._read_ap(self._select & 0xF0 | address)
        return {0: DPIDR, 4: self._control | (self._control & 0x5000_0000) << 1, 8: self._select}.get(address, 0)

    def write(self, ap: bool, address: int, value: int) -> None:
        if ap:
            self._write_ap(self._select & 0xF0 | address, value)
        elif address == 4:
            self._control = value
        elif address == 8:
            self._select = value

    def _read_ap(self, register: int) -> int:
        if self._select >> 24:
            return 0
        if register & 0xF0 == 0x10:
            return self._look(self._address & ~0xF | register & 0xC)
        if register == _DRW:
            found = self._look(self._address & ~3)
            self._go_on()
            return found
        return {_CSW: self._word | 0x40, _TAR: self._address, _IDR: AP_IDR}.get(register, 0)

    def _look(self, address: int) -> int:
        try:
            return self._chip.read(address)
        except AtoncError:
            return 0  # a bus fault is more than this port models

    def _write_ap(self, register: int, value: int) -> None:
        if register == _CSW:
            self._word = value
        elif register == _TAR:
            self._address = value
        elif register & 0xF0 == 0x10:
            self._chip.write(self._address & ~0xF | register & 0xC, value)
        elif register == _DRW:
            self._chip.write(self._address, value >> 8 * (self._address & 3), 1 << (self._word & 7))
            self._go_on()

    def _go_on(self) -> None:
        if self._word >> 4 & 3:
            self._address += 1 << (self._word & 7)


# states of a test access port: where they lead when TMS is 0 and 1
_STATES = {
    "reset": ("idle", "reset"), "idle": ("idle", "select dr"),
    "select dr": ("capture dr", "select ir"), "capture dr": ("shift dr", "exit1 dr"),
    "shift dr": ("shift dr", "exit1 dr"), "exit1 dr": ("pause dr", "update dr"),
    "pause dr": ("pause dr", "exit2 dr"), "exit2 dr": ("shift dr", "update dr"), "update dr": ("idle", "select dr"),
    "select ir": ("capture ir", "reset"), "capture ir": ("shift ir", "exit1 ir"),
    "shift ir": ("shift ir", "exit1 ir"), "exit1 ir": ("pause ir", "update ir"),
    "pause ir": ("pause ir", "exit2 ir"), "exit2 ir": ("shift ir", "update ir"), "update ir": ("idle", "select dr"),
}  # fmt: skip
_DPACC, _APACC, _IDCODE, _BYPASS = 0xA, 0xB, 0xE, 0xF
_LENGTHS = {_DPACC: 35, _APACC: 35, _IDCODE: 32}
_OK = 2


class TestAccessPort:
    """A scan gives the result of the one before it."""

    __test__ = False  # not a test of pytest

    def __init__(self, port: DebugPort) -> None:
        self._port = port
        self._state, self._clock, self._instruction = "reset", 0, _IDCODE
        self._shift = self._length = self._result = 0

    def level(self) -> int:
        return self._shift & 1

    def edge(self, clock: int, mode: int, bit: int) -> None:
        rising, self._clock = clock and not self._clock, clock
        if not rising:
            return
        if self._state in ("shift dr", "shift ir"):
            self._shift = self._shift >> 1 | bit << self._length - 1
        self._state = _STATES[self._state][mode]
        self._enter()

    def _enter(self) -> None:
        if self._state == "reset":
            self._instruction = _IDCODE
        elif self._state == "capture ir":
            self._shift, self._length = 1, 4
        elif self._state == "update ir":
            self._instruction = self._shift
        elif self._state == "capture dr":
            self._length = _LENGTHS.get(self._instruction, 1)
            access = self._instruction in (_DPACC, _APACC)
            self._shift = self._result << 3 | _OK if access else DPIDR if self._instruction == _IDCODE else 0
        elif self._state == "update dr" and self._instruction in (_DPACC, _APACC):
            ap, address, value = self._instruction == _APACC, self._shift >> 1 << 2 & 0xC, self._shift >> 3
            if self._shift & 1:
                self._result = self._port.read(ap, address)
            else:
                self._port.write(ap, address, value)


def serve(listening: socket.socket, tap: TestAccessPort) -> None:
    """OpenOCD's own end: digits for levels, `R` asks for the data line."""
    line = listening.accept()[0]
    with line:
        while data := line.recv(1 << 16):
            answer = bytearray()
            for letter in data:
                if ord("0") <= letter <= ord("7"):
                    tap.edge(letter >> 2 & 1, letter >> 1 & 1, letter & 1)
                elif letter == ord("R"):
                    answer.append(ord("0") + tap.level())
                elif letter == ord("Q"):
                    return
            if answer:
                line.sendall(answer)
