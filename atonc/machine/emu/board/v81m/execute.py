"""Instructions that have no replacement: executed here, one by one, when the core has stopped at them."""

from __future__ import annotations

from collections.abc import Callable

from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu.board.v81m import shifts
from atonc.machine.emu.board.v81m.doubles import DoubleUnit, Registers
from atonc.machine.emu.board.v81m.patterns import Instruction

_NAMES = (*(f"R{number}" for number in range(13)), "SP", "LR", "PC")
_ONE = ("UQSHL", "URSHR", "SRSHR", "SQSHL", "UQRSHL", "SQRSHR")
_PAIR = ("UQSHLL", "URSHRL", "SRSHRL", "SQSHLL", "UQRSHLL", "SQRSHRL", "LSLL by register", "ASRL by register",
         "LSLL", "LSRL", "ASRL")  # fmt: skip
_DOUBLES = ("VCVT.F64.F32", "VCVTB/VCVTT with F64", "arithmetic on doubles")
_APSR = 15  # in the list of CLRM
_FLAGS = 0xF800_0000


class Executor:
    """`saturated` is the sticky flag Q of the program status, which unicorn keeps itself."""

    def __init__(self, core: Registers) -> None:
        self._core = core
        self._doubles: DoubleUnit | None = None
        self._table: dict[str, Callable[[Instruction], None]] = {
            **dict.fromkeys(_ONE, self._shift_one),
            **dict.fromkeys(_PAIR, self._shift_pair),
            **dict.fromkeys(_DOUBLES, self._double),
            "CLRM": self._clear,
        }

    def run(self, instruction: Instruction) -> None:
        if instruction.name not in self._table:
            word = instruction.word
            raise NotModelledError(
                f"{instruction.name} ({word >> 16:04x} {word & 0xFFFF:04x}) is an instruction that this core lacks",
                remedy="build the firmware without it, or report the instruction",
            )
        self._table[instruction.name](instruction)

    def _shift_one(self, instruction: Instruction) -> None:
        name = _NAMES[instruction["d"]]
        result, saturated = shifts.on_one(instruction, self._core.register(name), self._amount(instruction))
        self._core.set_register(name, result)
        self._note(saturated)

    def _shift_pair(self, instruction: Instruction) -> None:
        low, high = _NAMES[2 * instruction["l"]], _NAMES[2 * instruction["h"] + 1]
        if high in ("SP", "PC"):
            raise NotModelledError(f"{instruction.name} of {low} and {high} is unpredictable")
        value = self._core.register(low) | self._core.register(high) << 32
        result, saturated = shifts.on_pair(instruction, value, self._amount(instruction))
        self._core.set_register(low, result & 0xFFFF_FFFF)
        self._core.set_register(high, result >> 32)
        self._note(saturated)

    def _amount(self, instruction: Instruction) -> int:
        return self._core.register(_NAMES[instruction["m"]]) if "m" in instruction.fields else 0

    def _note(self, saturated: bool) -> None:
        if saturated:
            self._core.set_register("XPSR", self._core.register("XPSR") | 1 << 27)

    def _double(self, instruction: Instruction) -> None:
        self._doubles = self._doubles or DoubleUnit()
        self._doubles.execute(instruction, self._core)

    def _clear(self, instruction: Instruction) -> None:
        for number in range(16):
            if instruction["r"] >> number & 1:
                if number == _APSR:
                    self._core.set_register("XPSR", self._core.register("XPSR") & ~_FLAGS)
                else:
                    self._core.set_register(_NAMES[number], 0)
