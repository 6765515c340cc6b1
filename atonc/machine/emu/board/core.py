"""The processor: unicorn executes the instructions, this file adds what it leaves out: time, interrupts, sleep.

unicorn has no Cortex-M55, so the board runs a Cortex-M33; `blocks` finds the instructions that only the M55 has.
It knows no NVIC either: exceptions are entered and left here, with the frames that the architecture prescribes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from atonc.machine.base.errors import AtoncError, InputError, ToolError, not_loaded
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import blocks
from atonc.machine.emu.board.blocks import CodeBlocks
from atonc.machine.emu.board.mve import unit
from atonc.machine.emu.board.mve.unit import VectorUnit
from atonc.machine.emu.board.system import SVCALL, Clock, CpuMemory, Nvic, SystemControl
from atonc.machine.emu.board.v81m import Executor

_WORDS = 512  # of the engine, whose first half kilobyte of words all releases since 2.0 have
_TRIES = 37, 53, 71


class InstructionCounter:
    """How many instructions unicorn has executed, to the last one: time on the board is a function of nothing else.

    unicorn counts, to know when a slice ends, but tells nobody. Its engine keeps two words beside each other, the
    number of instructions that it has begun and the number that it was given: they are found by what they hold after
    slices of different lengths.
    """

    def __init__(self, uc: Any, run: Callable[[int], None]) -> None:
        """`run` executes so many instructions that do nothing."""
        words = (ctypes.c_size_t * _WORDS).from_address(uc._uch.value)
        places = set(range(_WORDS - 1))
        for count in _TRIES:
            run(count)
            # the instruction at which it stopped was begun and not executed
            places = {k for k in places if (words[k], words[k + 1]) == (count + 1, count)}
        if len(places) != 1:
            raise ToolError("this release of unicorn does not show how many instructions ran", remedy="use 2.1.4")
        self._words, self._place = words, places.pop()

    @property
    def begun(self) -> int:
        """In this slice, the one that is at a device included."""
        return self._words[self._place]

    @property
    def left(self) -> int:
        """Instructions of this slice that are left."""
        return self._words[self._place + 1] - self.begun

    def end_here(self) -> None:
        """The slice ends behind the instruction that is at a device. unicorn's own stop would end it before that one,
        which would then be executed twice."""
        self._words[self._place + 1] = self.begun

    def executed(self, trapped: bool) -> int:
        """Instructions of a slice that is over. More than were given where it could not end inside an IT block."""
        return self.begun if trapped or self.left >= 0 else self.begun - 1


class RegisterBank:
    """Several registers of the processor in one call: one for each would take longer than a handler of the firmware."""

    def __init__(self, uc: Any, numbers: Sequence[int]) -> None:
        if not hasattr(uc, "_do_reg_read_batch"):
            raise ToolError("this release of unicorn is too old", remedy="pip install 'unicorn>=2.1.4'")
        count = len(numbers)
        self._uc, self._count = uc, ctypes.c_int(count)
        self._values = np.zeros(count, np.uint64)  # of narrower ones unicorn writes the lower half only
        self._numbers = (ctypes.c_int * count)(*numbers)
        first = self._values.ctypes.data
        self._places = (ctypes.c_void_p * count)(*(first + 8 * k for k in range(count)))

    def read(self) -> list[int]:
        self._check(self._uc._do_reg_read_batch(self._numbers, self._places, self._count))
        values: list[int] = self._values.tolist()
        return values

    def write(self, values: Iterable[int]) -> None:
        self._values[:] = np.fromiter(values, np.uint64)
        self._check(self._uc._do_reg_write_batch(self._numbers, self._places, self._count))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"unicorn: error {status} of a register")


_EXIT_ADDRESS = 0xFFFF_FFFE  # where unicorn would stop by itself: never reached
_SWI, _BKPT, _EXCEPTION_EXIT = 2, 7, 8  # unicorn's numbers of what it cannot do itself
_FAULTS = {
    1: "undefined instruction",
    3: "instruction fetch failed",
    4: "data access failed",
    17: "coprocessor or FPU is not enabled",
    18: "not Thumb state",
    19: "stack limit passed",
    20: "lazy floating-point stacking",
    22: "unaligned access",
}
_THREAD_MSP = 0xFFFF_FFE9  # return with floating-point registers, main stack
_THREAD_PSP = 0xFFFF_FFED
_HANDLER = 0xFFFF_FFE1
_CONDITIONAL_BRANCH = 0xD  # of 16 bits
_IT_BITS = 0x3F << 10 | 3 << 25  # of XPSR: conditions that are left of an IT block
_LONGEST = 1 << 16
_WIDEST = 7  # bytes before an address from which one access still reaches it
_MASKED = 32  # while an interrupt waits to be unmasked
_IN_STUB = 3  # instructions at a time while an interrupt waits for the end of a stub
_FRAME = struct.Struct("<8I8Q2I")  # r0-r3, r12, lr, pc, xpsr, d0-d7, fpscr, vpr
_SAVED = ("R0", "R1", "R2", "R3", "R12", "LR", *(f"D{number}" for number in range(8)), "FPSCR")
_CORE_REGISTERS = 6  # of them
_CONDITIONS = 0x0600_FC00  # of an IT block, in the program status


@dataclass(frozen=True)
class Halt:
    """Why the core stands still: `bkpt` (number), `budget`, `time`, `sleep` and nothing could wake it; for a debugger
    also `break`, before the instruction at its breakpoint, and `watch`, behind the access to the address `number`."""

    reason: str
    pc: int
    number: int = 0


class Core:
    """Instructions run in slices. Events and interrupts are seen between them: a slice ends with the next event, and
    where a device that was touched plans an earlier one or raises a line. A slice can be left and gone on with between
    any two instructions: whoever looks there changes neither its end nor what happens then."""

    def __init__(self, clock: Clock, nvic: Nvic, system: SystemControl) -> None:
        unicorn, arm_const = _unicorn()
        self._arm = arm_const
        self.failure = unicorn.UcError
        self._write_hook, self._code_hook = unicorn.UC_HOOK_MEM_WRITE, unicorn.UC_HOOK_CODE
        self._access_hooks = {"read": unicorn.UC_HOOK_MEM_READ, "write": unicorn.UC_HOOK_MEM_WRITE}
        self.uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self.uc.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M33)
        self.uc.ctl_set_tcg_buffer_size(blocks.BUFFER_BYTES)
        self.clock, self.nvic, self.system = clock, nvic, system
        self.instructions = 0
        self.pc = 0
        self._trap: int | None = None
        self._running = False  # a slice
        self._left = 0  # instructions of the slice that are left when it is not running
        self._ended = False  # the slice, by a device
        self._broke = False  # at a breakpoint
        self._watched: int | None = None  # address of an access that a debugger waits for
        self._hooks: dict[tuple[str, int, int], list[int]] = {}  # of a debugger: kind, address, size
        self._waited = 0  # by the clock, when it began
        self._bad_access = ""
        self.uc.hook_add(unicorn.UC_HOOK_INTR, self._on_trap)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_bad_access)
        self.memory = CpuMemory()
        self.vectors = VectorUnit(self.memory, self._stored)
        self.blocks = CodeBlocks(self.uc, unicorn.UC_HOOK_EDGE_GENERATED, self.memory, self.vectors)
        self.on_store: Callable[[int, int], None] | None = None  # what the vector unit has written
        self.on_sleep: Callable[[bool], None] | None = None  # the core falls asleep, or wakes
        self.why_absent: Callable[[int], str] = lambda address: ""  # why no memory answers at an address
        self._between: list[Callable[[], None]] = []
        self._executor = Executor(self)
        self._numbers: dict[str, int] = {}
        self._saved = RegisterBank(self.uc, [self._number(name) for name in _SAVED])
        self._map_vector_unit()
        self._counter = self._translate_nothing()
        clock.begun = lambda: self._counter.begun if self._running else 0

    def watch_writes(self, start: int, end: int, action: Callable[[int, int], None]) -> None:
        """Calls action(address, size) for every store in [start, end)."""

        def on_write(_: Any, __: int, address: int, size: int, ___: int, ____: Any) -> None:
            action(address, size)

        if start < end:
            self.uc.hook_add(self._write_hook, on_write, None, start, end - 1)

    def _map_vector_unit(self) -> None:
        mailbox = self.vectors.mailbox
        self.uc.mem_map_ptr(unit.MAILBOX, mailbox.size, 3, mailbox.ctypes.data)
        self.uc.mmio_map(
            unit.DOORBELL,
            unit.PAGE,
            lambda *_: 0,
            None,
            lambda *_: self.vectors.ring(),
            None,
        )

    def _stored(self, address: int, size: int) -> None:
        """unicorn does not see what the vector unit writes: code there has to be translated again, and a debugger may
        wait for it."""
        for kind, start, count in self._hooks:
            if "write" in kind and start < address + size and address < start + count:
                self._watched = start
                self._counter.end_here()
        if address >> 12 in self.blocks.pages or address + size - 1 >> 12 in self.blocks.pages:
            self.uc.ctl_remove_cache(address, address + size)
        if self.on_store is not None:
            self.on_store(address, size)

    def start(self, pc: int, stack: int) -> None:
        self.pc = pc & ~1
        self.uc.reg_write(self._arm.UC_ARM_REG_MSP, stack)
        self.uc.reg_write(self._arm.UC_ARM_REG_SP, stack)
        self.uc.reg_write(self._arm.UC_ARM_REG_LR, 0xFFFF_FFFF)

    def _translate_nothing(self) -> InstructionCounter:
        """unicorn shows no block before one has run to its end: this one is not the firmware's."""
        scratch = 0x6000_0000  # nothing is there
        self.uc.mem_map(scratch, 0x1000)
        self.uc.mem_write(scratch, b"\x00\xbf\x00\xbf\xfe\xe7")
        counter = InstructionCounter(self.uc, lambda count: self.uc.emu_start(scratch | 1, _EXIT_ADDRESS, count=count))
        self.uc.mem_unmap(scratch, 0x1000)
        if not self.blocks.pages:
            raise ToolError("this release of unicorn does not show the code that it translates", remedy="use 2.1.4")
        return counter

    def register(self, name: str) -> int:
        value: int = self.uc.reg_read(self._number(name))
        return value

    def set_register(self, name: str, value: int) -> None:
        self.uc.reg_write(self._number(name), value)

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = getattr(self._arm, f"UC_ARM_REG_{name.upper()}")
        return self._numbers[name]

    def attend(self) -> None:
        """A device was touched: what it plans, an interrupt that it raises or time that has passed ends the slice."""
        if self._running and (self.nvic.waiting() is not None or self._time_is_up()):
            self._ended = True
            self._counter.end_here()

    def _time_is_up(self) -> bool:
        """Also where it waited: whoever runs the board wants to look at the clock."""
        event = self.clock.next_event
        soon = event is not None and event - self.clock.now < self._left - self._counter.begun
        return soon or self.clock.waited != self._waited

    def between(self, action: Callable[[], None]) -> None:
        """Behind the instruction that is at a device: unicorn's own memory must not change while it executes."""
        self._between.append(action)
        if self._running:
            self._counter.end_here()

    def catch_up(self) -> None:
        """What waits for the end of an instruction happens."""
        while self._between:
            self._between.pop(0)()

    # -------------------------------------------------------------------------------------------------------------- run

    def run(self, budget: int, cycles: int) -> Halt:
        """Executes at most `budget` instructions in at most `cycles`, sleep included."""
        limit, end = self.instructions + budget, self.clock.now + cycles
        while True:
            self.catch_up()
            if self._left <= 0:
                self.clock.run_due()
                self._take_exception()
                self._left = self._slice()
            if self.instructions >= limit:
                return Halt("budget", self.pc)
            if self.clock.now >= end:
                return Halt("time", self.pc)
            halt = self._go(min(self._left, limit - self.instructions))
            if halt is not None:
                return halt

    def raised(self) -> Exception | None:
        """What a device raised while it was accessed outside a slice, where unicorn tells nobody."""
        error: Exception | None = self.uc._hook_exception
        self.uc._hook_exception = None
        return error

    def look_again(self) -> None:
        """Somebody has changed what a slice is planned by."""
        self._left = 0

    def _slice(self) -> int:
        """Instructions until the next look; few while an interrupt waits to be unmasked."""
        if self.nvic.waiting() is not None:
            return _MASKED if self.blocks.stub_at(self.pc) is None else _IN_STUB
        event = self.clock.next_event
        return _LONGEST if event is None else min(_LONGEST, max(2, event - self.clock.now))

    def _go(self, count: int) -> Halt | None:
        self._trap, self._bad_access, self._ended, self._broke, self._watched = None, "", False, False, None
        self.blocks.forget()
        failure = ""
        self._running, self._waited = True, self.clock.waited
        try:
            self.uc.emu_start(self.pc | 1, _EXIT_ADDRESS, count=count)
        except self.failure as error:
            failure = self._bad_access or str(error)
        finally:
            self._running = False
        self.pc = self.register("PC")
        trapped = bool(failure) or self._trap is not None
        done = self._counter.begun - 1 if self._broke else self._counter.executed(trapped)
        self._left = 0 if trapped or self._ended else self._left - done
        self.instructions += done
        self.clock.executed(done)
        if failure and "INSN_INVALID" in failure:
            return self._undefined(failure)
        if failure:
            raise self._fault(failure)
        return self._stopped() if self._trap is None else self._handle_trap(self._trap)

    def _stopped(self) -> Halt | None:
        if self._broke:
            return Halt("break", self.pc)
        return None if self._watched is None else Halt("watch", self.pc, self._watched)

    def _handle_trap(self, trap: int) -> Halt | None:
        if trap == _EXCEPTION_EXIT:
            self._leave_exception(self.pc)
        elif trap == _SWI:
            self.nvic.pending.add(SVCALL)
        elif trap == _BKPT:
            number = self.uc.mem_read(self.pc, 2)[0]
            self.pc += 2
            return Halt("bkpt", self.pc - 2, number)
        else:
            raise self._fault(_FAULTS.get(trap, f"exception {trap}"))
        return None

    # ------------------------------------------------------------------------------- instructions that unicorn stops at

    def _undefined(self, failure: str) -> Halt | None:
        """Sleeps, and what has no replacement in other instructions: memory still says what stands here."""
        code = self.memory.code(self.pc, 4)
        first, second = int.from_bytes(code[:2], "little"), int.from_bytes(code[2:], "little")
        if first in (blocks.WFE, blocks.WFI, blocks.SEV):
            return self._sleep(first, 2)
        if first == 0xF3AF and second & 0xFFF0 == 0x8000:
            return self._sleep(0xBF00 | (second & 0xF) << 4, 4)
        if first >> 12 == _CONDITIONAL_BRANCH and self._forget_condition():
            return None  # never part of an IT block: unicorn keeps the condition of one that ends with its page
        instruction = blocks.find(first << 16 | second)
        if instruction is None:
            raise self._fault(f"{failure}, {first:04x} {second:04x}")
        try:
            self._executor.run(instruction)
        except AtoncError as error:
            error.where = error.where or f"pc {self.pc:#010x}"
            raise
        self._pass(4)
        return None

    def _pass(self, size: int) -> None:
        """On to the next instruction; a condition that IT gave to several moves on with it."""
        self.pc += size
        status = self.register("XPSR")
        condition = status >> 8 & 0xFC | status >> 25 & 3
        if condition:
            condition = condition & 0xE0 | condition << 1 & 0x1F if condition & 7 else 0
            rest = status & ~_IT_BITS
            self.set_register("XPSR", rest | (condition & 0xFC) << 8 | (condition & 3) << 25)

    def _forget_condition(self) -> bool:
        """Whether one was left of an IT block."""
        status = self.register("XPSR")
        self.set_register("XPSR", status & ~_IT_BITS)
        return bool(status & _IT_BITS)

    def _sleep(self, kind: int, size: int) -> Halt | None:
        """Time passes until an interrupt wakes the core; PRIMASK does not keep it asleep. Events end only WFE. Where
        nothing comes the core stays at the instruction."""
        self._pass(size)
        if kind == blocks.SEV:
            self.nvic.event = True
            return None
        tell = self.on_sleep or (lambda asleep: None)
        tell(True)
        while self.nvic.waiting() is None and not (kind == blocks.WFE and self.nvic.event):
            if not self.clock.jump():
                self.pc -= size
                return Halt("sleep", self.pc)
        tell(False)
        if kind == blocks.WFE:
            self.nvic.event = False
        return None

    def _fault(self, what: str) -> InputError:
        return InputError(f"the CPU stopped: {what}", where=f"pc {self.pc:#010x}, lr {self.register('LR'):#010x}")

    # -------------------------------------------------------------------------------------------------------- debugging

    def break_at(self, address: int) -> None:
        """The core stops before this instruction. unicorn treats an IT block as one instruction: inside one it does
        not stop."""
        hook = self.uc.hook_add(self._code_hook, self._on_break, None, address, address)
        self._hooks.setdefault(("break", address, 2), []).append(hook)
        self._translate_again(address)

    def watch(self, kinds: Sequence[str], address: int, size: int) -> None:
        """The core stops behind an instruction that accesses one of these bytes, by `read` or `write`."""

        def on_access(_: Any, __: int, at: int, count: int, ___: int, ____: Any) -> None:
            if at < address + size and address < at + count:
                self._watched = address
                self._counter.end_here()

        for kind in kinds:
            first, last = max(0, address - _WIDEST), address + size - 1
            hook = self.uc.hook_add(self._access_hooks[kind], on_access, None, first, last)
            self._hooks.setdefault(("/".join(kinds), address, size), []).append(hook)
        self.uc.ctl_flush_tb()  # accesses are compiled into the code around them

    def unhook(self, kind: str, address: int, size: int = 2) -> None:
        """Takes a breakpoint (`break`) or a watch away again."""
        for hook in self._hooks.pop((kind, address, size), ()):
            self.uc.hook_del(hook)
        if kind == "break":
            self._translate_again(address)

    def _translate_again(self, address: int) -> None:
        with suppress(self.failure):  # where nothing is, nothing was translated
            self.uc.ctl_remove_cache(address, address + 2)

    def _on_break(self, uc: Any, _: int, __: int, ___: Any) -> None:
        self._broke = True
        uc.emu_stop()

    # ------------------------------------------------------------------------------------------------------------ hooks

    def _on_trap(self, uc: Any, number: int, _: Any) -> None:
        self._trap = number
        uc.emu_stop()

    def _on_bad_access(self, uc: Any, access: int, address: int, size: int, value: int, _: Any) -> bool:
        kinds = {19: "read", 20: "write", 21: "fetch", 22: "read", 23: "write", 24: "fetch"}
        why = self.why_absent(address) or "where nothing is"
        self._bad_access = f"{kinds.get(access, 'access')} of {size} bytes at {address:#010x}, {why}"
        return False

    # ------------------------------------------------------------------------------------------------------ exceptions

    def _take_exception(self) -> None:
        number = self.nvic.waiting()
        if number is None or self._masked(number) or self.blocks.stub_at(self.pc) is not None:
            return
        frame = self._save_frame()
        handler = self._word(self.system.vector_table + 4 * number)
        if handler & 1 == 0:
            raise self._fault(f"exception {number} has no handler in the vector table ({handler:#010x})")
        thread = not self.nvic.active
        self.nvic.enter(number)
        self.set_register("LR", frame if thread else _HANDLER)
        self.set_register("IPSR", number)
        self.pc = handler & ~1

    def _masked(self, number: int) -> bool:
        if number < 4:
            return False
        base = self.register("BASEPRI")
        return bool(self.register("PRIMASK") & 1) or bool(base and self.nvic.priority(number) >= base)

    def _save_frame(self) -> int:
        """Pushes what a handler may change; the value that a return must carry."""
        process = not self.nvic.active and bool(self.register("CONTROL") & 2)
        sp = self.register("SP")
        aligned = sp & 4
        sp = (sp & ~7) - _FRAME.size
        saved, status, vectors = self._saved.read(), self.register("XPSR"), self.vectors.state
        words, rest = saved[:_CORE_REGISTERS], saved[_CORE_REGISTERS:]
        frame = _FRAME.pack(*words, self.pc, status & ~0x200 | (aligned and 0x200), *rest, vectors.vpr)
        self.uc.mem_write(sp, frame)
        vectors.vpr = 0
        if status & _CONDITIONS:
            self.set_register("XPSR", status & ~_CONDITIONS)
        self.set_register("SP", sp)
        if process:
            self.set_register("CONTROL", self.register("CONTROL") & ~2)
        return _THREAD_PSP if process else _THREAD_MSP

    def _leave_exception(self, target: int) -> None:
        if not self.nvic.active:
            raise self._fault(f"return from an exception ({target:#010x}) while none is active")
        self.nvic.leave()
        self.set_register("IPSR", 0)
        if not self.nvic.active and (target | 1) == _THREAD_PSP:
            self.set_register("CONTROL", self.register("CONTROL") | 2)
        sp = self.register("SP")
        words = _FRAME.unpack(bytes(self.uc.mem_read(sp, _FRAME.size)))
        *saved, self.pc, status = words[: _CORE_REGISTERS + 2]
        self._saved.write((*saved, *words[_CORE_REGISTERS + 2 : -1]))
        self.vectors.state.vpr = words[-1]
        self.set_register("SP", sp + _FRAME.size + (4 if status & 0x200 else 0))
        self.set_register("XPSR", status & ~0x200)

    def _word(self, address: int) -> int:
        word: int = struct.unpack("<I", bytes(self.uc.mem_read(address, 4)))[0]
        return word


def _unicorn() -> tuple[Any, Any]:
    try:
        return import_module("unicorn"), import_module("unicorn.arm_const")
    except ImportError as error:
        raise not_loaded(error, "unicorn", "'atonc[board]'") from error
