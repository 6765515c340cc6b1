"""The processor: unicorn executes the instructions, this file adds what it leaves out: time, interrupts, sleep.

unicorn has no Cortex-M55, so the board runs a Cortex-M33 (the same instruction set without the vector extension).
It knows no NVIC either: exceptions are entered and left here, with the frames that the architecture prescribes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from atonc.emu.board.clock import Clock
from atonc.emu.board.interrupts import SVCALL, Nvic, SystemControl
from atonc.errors import InputError, ToolError

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
_FRAME = struct.Struct("<26I")  # r0-r3, r12, lr, pc, xpsr, s0-s15, fpscr, reserved


@dataclass(frozen=True)
class Halt:
    """Why the core stands still: `bkpt` (number), `budget`, `time`, or `sleep` and nothing could wake it."""

    reason: str
    pc: int
    number: int = 0


class Core:
    def __init__(self, clock: Clock, nvic: Nvic, system: SystemControl) -> None:
        unicorn, arm_const = _unicorn()
        self._arm = arm_const
        self._error = unicorn.UcError
        self.uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self.uc.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M33)
        self.clock, self.nvic, self.system = clock, nvic, system
        self.instructions = 0
        self.pc = 0
        self._deadline = 0
        self._limit = 0
        self._fresh = True  # nothing was executed since the last look at interrupts
        self._trap: int | None = None
        self._bad_access = ""
        self._lengths: dict[tuple[int, int], int] = {}
        self.uc.hook_add(unicorn.UC_HOOK_BLOCK, self._on_block)
        self.uc.hook_add(unicorn.UC_HOOK_INTR, self._on_trap)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_bad_access)

    def start(self, pc: int, stack: int) -> None:
        self.pc = pc & ~1
        self.uc.reg_write(self._arm.UC_ARM_REG_MSP, stack)
        self.uc.reg_write(self._arm.UC_ARM_REG_SP, stack)
        self.uc.reg_write(self._arm.UC_ARM_REG_LR, 0xFFFF_FFFF)

    def register(self, name: str) -> int:
        value: int = self.uc.reg_read(getattr(self._arm, f"UC_ARM_REG_{name.upper()}"))
        return value

    def set_register(self, name: str, value: int) -> None:
        self.uc.reg_write(getattr(self._arm, f"UC_ARM_REG_{name.upper()}"), value)

    def attend(self) -> None:
        """Something outside has changed: look at events and interrupts at the next branch."""
        event = self.clock.next_event
        soon = self.nvic.waiting() is not None
        self._deadline = self.clock.now if soon else event if event is not None else 1 << 62

    # ------------------------------------------------------------------------------------------------------------- run

    def run(self, budget: int, cycles: int) -> Halt:
        """Executes at most `budget` instructions in at most `cycles`, sleep included."""
        self._limit = self.instructions + budget
        end = self.clock.now + cycles
        while True:
            self.clock.run_due()
            self._take_exception()
            if self.instructions >= self._limit:
                return Halt("budget", self.pc)
            if self.clock.now >= end:
                return Halt("time", self.pc)
            self.attend()  # an interrupt that is masked now is looked at again after every block
            halt = self._go()
            if halt is not None:
                return halt

    def _go(self) -> Halt | None:
        self._trap, self._bad_access, self._fresh = None, "", True
        try:
            self.uc.emu_start(self.pc | 1, _EXIT_ADDRESS)
        except self._error as error:
            self.pc = self.register("PC")
            if self._bad_access or not self._slept("wfe"):
                raise self._fault(self._bad_access or str(error)) from None
            return self._wait_for_event()
        self.pc = self.register("PC")
        if self._trap is not None:
            return self._handle_trap(self._trap)
        if self._slept("wfi"):
            return self._sleep()
        return None

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

    def _slept(self, kind: str) -> bool:
        """Whether the last instruction was WFE (or YIELD) or WFI: unicorn stops behind either."""
        last: bytes = bytes(self.uc.mem_read(self.pc - 4, 4))
        short = {"wfe": (b"\x20\xbf", b"\x10\xbf"), "wfi": (b"\x30\xbf",)}[kind]
        wide = {"wfe": (b"\xaf\xf3\x02\x80", b"\xaf\xf3\x01\x80"), "wfi": (b"\xaf\xf3\x03\x80",)}[kind]
        return last[2:] in short or last in wide

    def _wait_for_event(self) -> Halt | None:
        if self.nvic.event:
            self.nvic.event = False
            return None
        halt = self._sleep()
        self.nvic.event = False
        return halt

    def _sleep(self) -> Halt | None:
        """Time passes until an interrupt wakes the core; PRIMASK does not keep it asleep."""
        while self.nvic.waiting() is None and not self.nvic.event:
            if not self.clock.jump():
                return Halt("sleep", self.pc - 2)
        return None

    def _fault(self, what: str) -> InputError:
        return InputError(f"the processor stopped: {what}", where=f"pc {self.pc:#010x}, lr {self.register('LR'):#010x}")

    # ----------------------------------------------------------------------------------------------------------- hooks

    def _on_block(self, uc: Any, address: int, size: int, _: Any) -> None:
        key = (address, size)
        count = self._lengths.get(key)
        if count is None:
            count = self._lengths[key] = _instruction_count(bytes(uc.mem_read(address, size)))
        if not self._fresh and (self.clock.now >= self._deadline or self.instructions >= self._limit):
            uc.emu_stop()
            return
        self._fresh = False
        self.clock.now += count
        self.instructions += count

    def _on_trap(self, uc: Any, number: int, _: Any) -> None:
        self._trap = number
        uc.emu_stop()

    def _on_bad_access(self, uc: Any, access: int, address: int, size: int, value: int, _: Any) -> bool:
        kinds = {19: "read", 20: "write", 21: "fetch", 22: "read", 23: "write", 24: "fetch"}
        self._bad_access = f"{kinds.get(access, 'access')} of {size} bytes at {address:#010x}, where nothing is"
        return False

    # ------------------------------------------------------------------------------------------------------ exceptions

    def _take_exception(self) -> None:
        number = self.nvic.waiting()
        if number is None or self._masked(number):
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
        names = ("R0", "R1", "R2", "R3", "R12", "LR")
        words = [self.register(name) for name in names]
        status = self.register("XPSR") & ~0x200 | (aligned and 0x200)
        floats = [self.register(f"S{k}") for k in range(16)]
        self.uc.mem_write(sp, _FRAME.pack(*words, self.pc, status, *floats, self.register("FPSCR"), 0))
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
        for name, value in zip(("R0", "R1", "R2", "R3", "R12", "LR"), words, strict=False):
            self.set_register(name, value)
        for k in range(16):
            self.set_register(f"S{k}", words[8 + k])
        self.set_register("FPSCR", words[24])
        status = words[7]
        self.set_register("SP", sp + _FRAME.size + (4 if status & 0x200 else 0))
        self.set_register("XPSR", status & ~0x200)
        self.pc = words[6]

    def _word(self, address: int) -> int:
        word: int = struct.unpack("<I", bytes(self.uc.mem_read(address, 4)))[0]
        return word


def _unicorn() -> tuple[Any, Any]:
    try:
        return import_module("unicorn"), import_module("unicorn.arm_const")
    except ImportError as error:
        raise ToolError("unicorn is not installed", remedy="pip install 'atonc[board]'") from error


def _instruction_count(code: bytes) -> int:
    """Thumb instructions: those that begin with 0b11101, 0b11110 or 0b11111 have two halfwords."""
    count = position = 0
    while position + 1 < len(code):
        position += 4 if code[position + 1] >> 3 >= 0x1D else 2
        count += 1
    return count
