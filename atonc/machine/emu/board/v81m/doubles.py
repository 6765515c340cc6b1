"""Arithmetic on doubles. A Cortex-M33 has none, unicorn's Cortex-M7 has: a second core, with nothing but a word of
memory, executes just the one instruction on copies of the registers."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from atonc.machine.base.errors import InputError
from atonc.machine.emu.board.v81m.patterns import Instruction

_CODE = 0x1000
_ALL = 7


class Registers(Protocol):
    def register(self, name: str) -> int: ...
    def set_register(self, name: str, value: int) -> None: ...


class DoubleUnit:
    def __init__(self) -> None:
        unicorn, self._arm = import_module("unicorn"), import_module("unicorn.arm_const")
        self._error = unicorn.UcError
        # with UC_MODE_MCLASS its FPU stays closed
        self._uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB)
        self._uc.ctl_set_cpu_model(self._arm.UC_CPU_ARM_CORTEX_M7)
        self._uc.mem_map(_CODE, 0x1000, _ALL)
        self._uc.mem_write(_CODE, b"\xb0\xee\x40\x0a")  # vmov s0, s0: the first of all sets FPSCR back
        self._uc.emu_start(_CODE | 1, _CODE + 4, count=1)

    def execute(self, instruction: Instruction, core: Registers) -> None:
        names = [*(f"D{number}" for number in sorted(_touched(instruction.word))), "FPSCR"]
        for name in names:
            self._uc.reg_write(self._id(name), core.register(name))
        word = instruction.word
        self._uc.mem_write(_CODE, (word >> 16).to_bytes(2, "little") + (word & 0xFFFF).to_bytes(2, "little"))
        self._uc.ctl_remove_cache(_CODE, _CODE + 4)
        try:
            self._uc.emu_start(_CODE | 1, _CODE + 4, count=1)
        except self._error as error:
            raise InputError(f"{instruction.name} ({word >> 16:04x} {word & 0xFFFF:04x}) is undefined") from error
        for name in names:
            core.set_register(name, self._uc.reg_read(self._id(name)))

    def _id(self, name: str) -> int:
        number: int = getattr(self._arm, f"UC_ARM_REG_{name}")
        return number


def _touched(word: int) -> set[int]:
    """Every register of 64 bits that the three register fields can mean, as double or as half of one."""
    fields = ((word >> 12 & 15, word >> 22 & 1), (word >> 16 & 15, word >> 7 & 1), (word & 15, word >> 5 & 1))
    return {number for low, extra in fields for number in (low, 16 * extra + low) if number < 16}
