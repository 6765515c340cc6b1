"""The NPU behind its registers: what the CPU writes becomes configuration, programs and epochs.

Every word goes into the register file of `hw.decode.Replay`, exactly as the words of an epoch-controller program do.
An epoch that the CPU programs is read off the registers when the CPU turns to waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from atonc.machine.base.errors import AtoncError, InputError, NotModelledError, UnsupportedError
from atonc.machine.emu.board.system import Action, Clock
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw import regs
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.decode import Replay, decode_epochs
from atonc.machine.hw.ec import instructions
from atonc.machine.hw.ec.blob import BLOB_MAGIC
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import Machine, stm32n6

_ALL = 0xFFFF_FFFF
_IC_CTRL, _IC_VERSION, _IC_STATUS, _IC_SET, _IC_CLEAR, _OR_MASKS, _AND_MASKS = 0, 1, 2, 3, 4, 5, 9
_VERSION_WORD = 69210398
LINES = 4


class InterruptController:
    """A source that a mask names is ignored by that line. A line is up when any source is left by its OR mask, or
    when all those left by its AND mask are up."""

    EPOCHCTRL, EPOCHCTRL_ERROR = 28, 30  # numbers of sources; 0 to 9 are the stream engines

    def __init__(self, set_line: Callable[[int, bool], None]) -> None:
        self._set_line = set_line
        self.reset()

    def reset(self) -> None:
        self.enabled, self.status = False, 0
        self.or_masks, self.and_masks = [_ALL] * LINES, [_ALL] * LINES
        self._update()

    def raise_source(self, number: int) -> None:
        self.status |= 1 << number
        self._update()

    def read(self, register: int) -> int:
        if register == _IC_STATUS:
            return self.status
        if _OR_MASKS <= register < _OR_MASKS + LINES:
            return self.or_masks[register - _OR_MASKS]
        if _AND_MASKS <= register < _AND_MASKS + LINES:
            return self.and_masks[register - _AND_MASKS]
        return {_IC_CTRL: int(self.enabled), _IC_VERSION: _VERSION_WORD}.get(register, 0)

    def write(self, register: int, value: int) -> None:
        if register == _IC_CTRL:
            if value & _CONFCLR:
                self.reset()
            elif value & _CLR:
                self.status = 0
            self.enabled = bool(value & _EN)
        elif register == _IC_SET:
            self.status |= value
        elif register == _IC_CLEAR:
            self.status &= ~value
        elif _OR_MASKS <= register < _OR_MASKS + LINES:
            self.or_masks[register - _OR_MASKS] = value
        elif _AND_MASKS <= register < _AND_MASKS + LINES:
            self.and_masks[register - _AND_MASKS] = value
        self._update()

    def _update(self) -> None:
        for line in range(LINES):
            wanted = ~self.and_masks[line] & _ALL
            any_up = self.status & ~self.or_masks[line] & _ALL
            all_up = wanted and self.status & wanted == wanted
            self._set_line(line, bool(self.enabled and (any_up or all_up)))


_EN, _CLR, _DIR, _CONFCLR, _RUNNING = 1 << 0, 1 << 1, 1 << 3, 1 << 30, 1 << 31
_CTRL, _ADDR = 0, 2
_EC_IRQ, _EC_LABEL, _EC_COUNT = 3, 7, 8
_STRENG_EVENT, _STRENG_IRQ = 10, 15
_ERR_BUSPORT, _ERR_START, _ERR_UNKOP = 1 << 1, 1 << 3, 1 << 5
_RAW_OFLOW_FRM = 1 << 3
_MAX_PROGRAM_WORDS = 1 << 22
SETTLE = 1000  # instructions without a write after which an enabled chain counts as complete

EpochWatch = Callable[[Epoch, int], None]
Execute = Callable[[Epoch, AddressSpace], None]


class NpuSurroundings(Protocol):
    """What a strict chip lets the NPU reach; `silent` units do not answer."""

    silent: frozenset[str]

    def begin(self) -> None: ...
    def run(self, epoch: Epoch, memory: AddressSpace, execute: Execute) -> None: ...
    def fetch(self, memory: AddressSpace, address: int, size_bytes: int) -> Bytes: ...
    def stalls_in_sleep(self) -> str: ...


class Npu:
    """`busy` and `fault` tell why nothing moves any more when the board gives up."""

    def __init__(
        self, memory: AddressSpace, clock: Clock, interrupts: InterruptController, machine: Machine | None = None
    ):
        self.memory, self.clock, self.interrupts = memory, clock, interrupts
        self.machine = machine or stm32n6()
        self.replay = Replay()
        self.running: set[str] = set()  # units that report RUNNING
        self.fault: AtoncError | None = None  # why the running epoch never ends
        self.epoch: int | None = None  # the last epoch that was started
        self.cycles = 0
        self.epochs = 0
        self.watch: EpochWatch | None = None
        self.require: Callable[[Epoch], None] = lambda epoch: None  # what else an epoch must keep away from
        self.beside: Callable[[hardware.EpochCycles], int] = lambda cost: 0  # cycles that others of its memory add
        self.execute: Execute = run_epoch  # tests put a chip that differs in its place
        clocks = self.machine.clocks
        self.ratio: Callable[[], float] = lambda: clocks.cpu_mhz / clocks.npu_mhz
        self.on_end: Action | None = None  # when an epoch of the CPU or a program has ended, before anybody hears of it
        self.versions: dict[str, int] = {}  # other contents of VERSION registers, by kind of unit
        self._pending = False  # the CPU has enabled a writing engine that has not run yet
        self._writes = 0
        self._polls = 0
        self._irq: dict[int, int] = {}  # sources that units hold until they are acknowledged
        self.chip: NpuSurroundings | None = None
        self.stalled = ""  # why it stands still while the core sleeps
        self._asleep = False
        self._turn = 0
        self._ends: dict[int, tuple[int, Action]] = {}  # what is under way: when it ends, and what happens then
        self._held: list[tuple[int, Action]] = []  # while it stands still: cycles that are left

    def reset(self) -> None:
        """By RCC: everything that was written or under way is gone."""
        self.replay, self.fault, self.stalled, self._pending = Replay(), None, "", False
        self.running.clear()
        self._irq.clear()
        self._ends.clear()
        self._held.clear()
        self.interrupts.reset()

    # ------------------------------------------------------------------------------------------------------- registers

    def read(self, offset: int) -> int:
        unit, register = regs.UNIT_BY_ID.get(offset >> 12), offset >> 2 & 0x3FF
        if unit is None or self._is_silent(unit):
            return 0
        asks = unit.kind == "INTCTRL" or (unit.kind, register) == ("EPOCHCTRL", _EC_IRQ)
        if asks and self.running and not self.interrupts.status:
            self._looked()
        if unit.kind == "INTCTRL":
            return self.interrupts.read(register)
        if register == 1 and unit.kind in self.versions:
            return self.versions[unit.kind]
        if register == _CTRL and unit.kind in ("STRENG", "EPOCHCTRL"):
            return self._control(unit)
        if (unit.kind, register) in (("STRENG", _STRENG_IRQ), ("EPOCHCTRL", _EC_IRQ)):
            return self._irq.get(unit.id, 0)
        return self.replay.value(unit, register)

    def write(self, offset: int, value: int) -> None:
        unit, register = regs.UNIT_BY_ID.get(offset >> 12), offset >> 2 & 0x3FF
        self._writes += 1
        if unit is None or self._is_silent(unit):
            return
        if unit.kind == "INTCTRL":
            self.interrupts.write(register, value)
            self._latch()
        elif (unit.kind, register) in (("STRENG", _STRENG_IRQ), ("EPOCHCTRL", _EC_IRQ)):
            self._irq[unit.id] = self._irq.get(unit.id, 0) & ~value
            self._latch()
        elif register == _CTRL and unit.kind != "CLKCTRL":
            self._write_control(unit, value)
        else:
            self.replay.store(unit, register, value)

    def _is_silent(self, unit: regs.Unit) -> bool:
        return self.chip is not None and unit.name in self.chip.silent

    def _control(self, unit: regs.Unit) -> int:
        """RUNNING, and what was written. Commands are done when one looks."""
        if self.replay.value(unit, _CTRL) & _EN and not self.clock.held:  # others are only about to be enabled
            self.settle()
        if unit.name in self.running:
            self._looked()
        word = self.replay.value(unit, _CTRL) & ~(_CLR | _CONFCLR)
        return word | _RUNNING if unit.name in self.running else word & ~_RUNNING

    def _looked(self) -> None:
        """The first look at a running NPU finds it running; who looks again waits, and time jumps to the next event."""
        self._polls += not self.clock.held
        if self._polls > 1:
            self.clock.jump()

    def _write_control(self, unit: regs.Unit, value: int) -> None:
        before = self.replay.value(unit, _CTRL)
        if value & (_CLR | _CONFCLR) or before & _EN & ~value:
            if unit.kind != "STRSWITCH":
                self.settle()
            self.running.discard(unit.name)
        self.replay.store(unit, _CTRL, value & ~_RUNNING)
        if not value & _EN or value & (_CLR | _CONFCLR) or before & _EN:
            return
        if unit.kind == "EPOCHCTRL":
            self._start_program(unit)
        elif unit.kind == "STRENG" and value & _DIR:
            self._pending, self._polls = True, 0
            self.clock.schedule(SETTLE, self._settle_when_quiet)

    # ----------------------------------------------------------------------------------------- epochs that the CPU set

    def _settle_when_quiet(self, writes_before: int = -1) -> None:
        """Looks twice, since time goes on in slices: a write may be nearer than the clock says."""
        if not self._pending:
            return
        if self._writes == writes_before:
            self.settle()
        else:
            seen = self._writes
            self.clock.schedule(SETTLE, lambda: self._settle_when_quiet(seen))

    def settle(self) -> None:
        """Runs the chain that the CPU has enabled, if there is one."""
        if not self._pending:
            return
        self._pending = False
        units = {unit.name: self.replay.config(unit) for unit in self.replay.enabled()}
        number = self.epochs + 1
        epoch = Epoch(number, units, self.replay.links(), ())
        self.running |= set(epoch.engines())
        self._begin()
        cycles = self._run(epoch, hardware.NOBODY)
        if cycles is not None:
            self._after(self._cpu_cycles(cycles), lambda: self._finish_epoch(epoch))

    def _finish_epoch(self, epoch: Epoch) -> None:
        self.running -= set(epoch.engines())
        if self.on_end is not None:
            self.on_end()
        for name in epoch.writers():
            unit = regs.UNIT_BY_NAME[name]
            if self.replay.value(unit, _STRENG_EVENT):
                self._irq[unit.id] = self._irq.get(unit.id, 0) | _RAW_OFLOW_FRM
        self._latch()

    # ------------------------------------------------------------------------------------------------ epoch controller

    def _start_program(self, unit: regs.Unit) -> None:
        self.running.add(unit.name)
        self._polls = 0
        self._begin()
        address = self.replay.value(unit, _ADDR)
        try:
            program = instructions.decode(self._program_words(address))
        except InputError as error:
            self.fault = error
            code = _ERR_UNKOP if "opcode" in error.what else _ERR_START
            self._after(1, lambda: self._end_program(unit, code))
            return
        counted = self.replay.words[unit.id].get(_EC_COUNT, 0) + sum(instruction.size for instruction in program)
        self.replay.words[unit.id][_EC_COUNT] = counted & 0xFFFF
        total = 0
        for epoch in decode_epochs(program, self.replay, self.epoch or 0):
            self.replay.words[unit.id][_EC_LABEL] = epoch.number
            cycles = self._run(epoch, hardware.CONTROLLER)
            if cycles is None:
                return
            total += cycles
        self._after(self._cpu_cycles(total), lambda: self._end_program(unit, 1))

    def _program_words(self, address: int) -> list[int]:
        where = f"program at {address:#010x}"
        if address % 8:
            raise InputError("the epoch controller reads programs at multiples of 8", where=where)
        magic, length = self._fetch(address, 8).view("<u4").tolist()
        if magic != BLOB_MAGIC or length > _MAX_PROGRAM_WORDS:
            raise InputError(f"starts with {magic:#010x}, {length:#x}: not a program", where=where)
        words: list[int] = self._fetch(address + 8, 4 * length).view("<u4").tolist()
        return words

    def _fetch(self, address: int, size_bytes: int) -> Bytes:
        if self.chip is None:
            return self.memory.read(address, size_bytes)
        return self.chip.fetch(self.memory, address, size_bytes)

    def _end_program(self, unit: regs.Unit, status: int) -> None:
        self.running.discard(unit.name)
        if self.on_end is not None:
            self.on_end()
        self._irq[unit.id] = self._irq.get(unit.id, 0) | status
        self._latch()

    # ---------------------------------------------------------------------------------------------------------- common

    def _run(self, epoch: Epoch, programmed_by: str) -> int | None:
        """Cycles of the epoch; None when it would never end on the chip."""
        self.epoch = epoch.number
        if not epoch.empty:
            try:
                self.require(epoch)
                if self.chip is None:
                    self.execute(epoch, self.memory)
                else:
                    self.chip.run(epoch, self.memory, self.execute)
            except (NotModelledError, UnsupportedError):
                raise
            except AtoncError as error:
                self.fault = error
                return None
        cost = hardware.epoch_cycles(epoch, self.machine, programmed_by)
        cycles = cost.cycles + self.beside(cost)
        self.cycles += cycles
        self.epochs += not epoch.empty
        if self.watch is not None:
            self.watch(epoch, cycles)
        return cycles

    # ---------------------------------------------------------------------------------------------------------- time

    def _begin(self) -> None:
        if self.chip is not None:
            self.chip.begin()

    def _after(self, cycles: int, action: Action) -> None:
        """Plans the end of what is under way; it waits while the NPU stands still."""
        if self._asleep and self._stalls():
            self._held.append((cycles, action))
            return
        self._turn += 1
        turn = self._turn
        self._ends[turn] = self.clock.now + cycles, action
        self.clock.schedule(cycles, lambda: self._end(turn))

    def _end(self, turn: int) -> None:
        if turn in self._ends:
            self.stalled = ""
            self._ends.pop(turn)[1]()

    def core_sleeps(self, asleep: bool) -> None:
        self._asleep = asleep
        if asleep and self._ends and self._stalls():
            self._held += [(max(0, due - self.clock.now), action) for due, action in self._ends.values()]
            self._ends.clear()
        elif not asleep:
            held, self._held = self._held, []
            for cycles, action in held:
                self._after(cycles, action)

    def _stalls(self) -> bool:
        self.stalled = "" if self.chip is None else self.chip.stalls_in_sleep()
        return bool(self.stalled)

    def _cpu_cycles(self, npu_cycles: int) -> int:
        return round(npu_cycles * self.ratio())

    def _latch(self) -> None:
        """Sources that nobody acknowledged stay in, or come back into, the interrupt controller."""
        for unit_id, status in self._irq.items():
            unit = regs.UNIT_BY_ID[unit_id]
            if unit.kind == "STRENG" and status:
                self.interrupts.raise_source(unit.index)
            elif unit.kind == "EPOCHCTRL":
                if status & 1:
                    self.interrupts.raise_source(InterruptController.EPOCHCTRL)
                if status & ~1:
                    self.interrupts.raise_source(InterruptController.EPOCHCTRL_ERROR)
