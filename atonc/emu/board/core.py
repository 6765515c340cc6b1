"""The processor: unicorn executes the instructions, this file adds what it leaves out: time, interrupts, sleep.

unicorn has no Cortex-M55, so the board runs a Cortex-M33 (the same instruction set without the vector extension).
It knows no NVIC either: exceptions are entered and left here, with the frames that the architecture prescribes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
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
_SHORTEST, _LONGEST = 32, 2048
_YIELD, _WFE, _WFI = 1, 2, 3
_SLEEP_CODES = {
    b"\x10\xbf": _YIELD,
    b"\x20\xbf": _WFE,
    b"\x30\xbf": _WFI,
    b"\xaf\xf3\x01\x80": _YIELD,
    b"\xaf\xf3\x02\x80": _WFE,
    b"\xaf\xf3\x03\x80": _WFI,
}
_FRAME = struct.Struct("<26I")  # r0-r3, r12, lr, pc, xpsr, s0-s15, fpscr, reserved


@dataclass(frozen=True)
class Halt:
    """Why the core stands still: `bkpt` (number), `budget`, `time`, or `sleep` and nothing could wake it."""

    reason: str
    pc: int
    number: int = 0


class Core:
    """Instructions run in slices, short ones near accesses to devices, long ones in pure computation. Events and
    interrupts are seen between slices. Of a slice that ends early (sleep, exception, breakpoint) half is counted."""

    def __init__(self, clock: Clock, nvic: Nvic, system: SystemControl) -> None:
        unicorn, arm_const = _unicorn()
        self._arm = arm_const
        self._error = unicorn.UcError
        self._code_hook, self._write_hook = unicorn.UC_HOOK_CODE, unicorn.UC_HOOK_MEM_WRITE
        self.uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self.uc.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M33)
        self.clock, self.nvic, self.system = clock, nvic, system
        self.instructions = 0
        self.pc = 0
        self._trap: int | None = None
        self._sleep: tuple[int, int] | None = None  # opcode and the address behind it
        self._size = _SHORTEST
        self._bad_access = ""
        self.uc.hook_add(unicorn.UC_HOOK_INTR, self._on_trap)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_bad_access)

    def watch_sleep(self, address: int, code: bytes) -> None:
        """Notes where the code may sleep: unicorn stops there without saying why."""
        for offset in range(0, len(code) - 1, 2):
            half = code[offset : offset + 2]
            if half in _SLEEP_CODES or code[offset : offset + 4] in _SLEEP_CODES:
                size = 2 if half in _SLEEP_CODES else 4
                kind = _SLEEP_CODES[code[offset : offset + size]]
                at = address + offset
                self.uc.hook_add(self._code_hook, self._on_sleep, (kind, at + size), at, at)

    def watch_writes(self, start: int, end: int, action: Callable[[int, int], None]) -> None:
        """Calls action(address, size) for every store in [start, end)."""

        def on_write(_: Any, __: int, address: int, size: int, ___: int, ____: Any) -> None:
            action(address, size)

        if start < end:
            self.uc.hook_add(self._write_hook, on_write, None, start, end - 1)

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
        """A device was touched: events and interrupts are looked at more often for a while."""
        self._size = _SHORTEST // 2

    # -------------------------------------------------------------------------------------------------------------- run

    def run(self, budget: int, cycles: int) -> Halt:
        """Executes at most `budget` instructions in at most `cycles`, sleep included."""
        limit, end = self.instructions + budget, self.clock.now + cycles
        while True:
            self.clock.run_due()
            self._take_exception()
            if self.instructions >= limit:
                return Halt("budget", self.pc)
            if self.clock.now >= end:
                return Halt("time", self.pc)
            halt = self._go(self._slice())
            if halt is not None:
                return halt

    def _slice(self) -> int:
        """Instructions until the next look; few while an interrupt waits to be unmasked."""
        self._size = min(2 * self._size, _LONGEST)
        if self.nvic.waiting() is not None:
            return _SHORTEST
        event = self.clock.next_event
        return self._size if event is None else min(self._size, max(1, event - self.clock.now))

    def _go(self, count: int) -> Halt | None:
        self._trap, self._sleep, self._bad_access = None, None, ""
        failure = ""
        try:
            self.uc.emu_start(self.pc | 1, _EXIT_ADDRESS, count=count)
        except self._error as error:
            failure = self._bad_access or str(error)
        self.pc = self.register("PC")
        slept = self._sleep is not None and self._sleep[1] == self.pc
        done = -(-count // 2) if failure or slept or self._trap is not None else count
        self.instructions += done
        self.clock.now += done
        if slept and self._sleep is not None:
            return self._sleep_now(self._sleep[0])
        if failure:
            raise self._fault(failure)
        return None if self._trap is None else self._handle_trap(self._trap)

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

    def _sleep_now(self, kind: int) -> Halt | None:
        """Time passes until an interrupt wakes the core; PRIMASK does not keep it asleep. Events end only WFE."""
        if kind == _YIELD:
            return None
        while self.nvic.waiting() is None and not (kind == _WFE and self.nvic.event):
            if not self.clock.jump():
                return Halt("sleep", self.pc - 2)
        if kind == _WFE:
            self.nvic.event = False
        return None

    def _fault(self, what: str) -> InputError:
        return InputError(f"the processor stopped: {what}", where=f"pc {self.pc:#010x}, lr {self.register('LR'):#010x}")

    # ------------------------------------------------------------------------------------------------------------ hooks

    def _on_trap(self, uc: Any, number: int, _: Any) -> None:
        self._trap = number
        uc.emu_stop()

    def _on_sleep(self, uc: Any, address: int, size: int, kind: tuple[int, int]) -> None:
        self._sleep = kind

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

