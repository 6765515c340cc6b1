"""The vector unit: which code is its own, and how it gets to execute it.

A stub stores the processor's registers in the mailbox, with the number of a run of instructions, rings the doorbell,
and loads the registers back. So unicorn is left only for the bell, once for all vector instructions that follow each
other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import assembler as asm
from atonc.machine.emu.board.mve import floats, integer, moves
from atonc.machine.emu.board.mve.state import (
    BACK,
    FPSCR,
    NUMBER,
    R0,
    SP,
    WORDS,
    InstructionEntry,
    Operation,
    VectorState,
)
from atonc.machine.emu.board.system import CpuMemory
from atonc.machine.emu.board.v81m import Instruction, Pattern, PatternTable, pattern

PAGE = 0x1000
MAILBOX, DOORBELL = 0xDFFF_0000, 0xDFFF_1000  # where no memory and no device is
_WORDS_AT = PAGE - 4 * WORDS  # at the end of its page: the doorbell is near
# order matters: where the size of integers would be 11, something else is meant
ENTRIES: tuple[InstructionEntry, ...] = (
    *moves.MOVES, *floats.COMPARISONS, *integer.REDUCTIONS, *floats.ARITHMETIC, *integer.SHIFTS, *integer.ARITHMETIC,
    *moves.LOADS,
)  # fmt: skip


@dataclass(frozen=True)
class VectorStep:
    operation: Operation
    advances: bool  # predicates move on behind it
    opens: int  # then the block that it opens begins, with this mask; 0: none
    instruction: Instruction


@dataclass(frozen=True)
class Run:
    """Instructions that follow each other. `code` is what they were read from."""

    at: int
    code: bytes
    steps: tuple[VectorStep, ...]


class VectorUnit:
    def __init__(self, memory: CpuMemory, wrote: Callable[[int, int], None]) -> None:
        self.mailbox = np.zeros(PAGE, np.uint8)
        self.state = VectorState(self.mailbox[_WORDS_AT:], memory, wrote)
        self.executed = 0
        self._words = self.mailbox[_WORDS_AT:].view("<u4")
        self._memory = memory
        self._runs: list[Run] = []
        self.table = PatternTable((entry.pattern for entry in ENTRIES), _exists)
        self._entries = {entry.pattern: entry for entry in ENTRIES}

    def run_length(self, code: bytes) -> int:
        """How many bytes at the start of this code are instructions of the vector unit."""
        length = 0
        while length + 4 <= len(code) and self.table.find(_word(code, length)) is not None:
            length += 4
        return length

    def call(self, at: int, code: bytes) -> bytes:
        """What asks for these instructions to be executed; the code behind it, `COMMON`, is common to all."""
        self._runs.append(self._run(at, code))
        return asm.push(0) + asm.move_number(0, len(self._runs) - 1)

    def _run(self, at: int, code: bytes) -> Run:
        steps = []
        for offset in range(0, len(code), 4):
            instruction = self.table.find(_word(code, offset))
            if instruction is not None:
                entry = self._entries[instruction.pattern]
                opens = instruction["b"] * 0x11 if entry.opens_block else 0
                steps.append(VectorStep(entry.make(instruction, self.state), not entry.outside, opens, instruction))
        return Run(at, code, tuple(steps))

    def ring(self) -> None:
        state, words = self.state, self._words
        number = int(words[NUMBER])
        run = self._runs[number]
        words[BACK] = run.at + len(run.code) | 1
        if self._memory.code(run.at, len(run.code)) != run.code:  # written over since, behind its first instruction
            run = self._runs[number] = self._run(run.at, self._memory.code(run.at, len(run.code)))
        for step in run.steps:
            try:
                step.operation()
            except AtoncError as error:
                error.where = f"{step.instruction.name} at {run.at:#010x}" + (f", {error.where}" if error.where else "")
                raise
            if state.block and step.advances:
                state.advance()
            if step.opens:
                state.set_predicate(state.p0, step.opens)
        self.executed += len(run.steps)


def _word(code: bytes, offset: int) -> int:
    first, second = code[offset : offset + 2], code[offset + 2 : offset + 4]
    return int.from_bytes(first, "little") << 16 | int.from_bytes(second, "little")


def _exists(instruction: Instruction) -> bool:
    """Sizes of 8, 16 and 32 bits; loads that move neither before nor after are something else."""
    fields = instruction.fields
    return fields.get("s") != 3 and (fields.get("p"), fields.get("w")) != (0, 0)


def _common() -> bytes:
    """Comes with the run's number in r0 and r0 itself on the stack; goes on where BACK says."""
    box = MAILBOX + _WORDS_AT
    tail = box + 4 * R0  # where r0 points after the two stores
    at = {word: 4 * (word - R0) for word in (R0, FPSCR, SP, BACK)}
    code = asm.push(1) + asm.move_number(1, box) + asm.store(0, 1, 4 * NUMBER)
    code += asm.pop(0) + asm.store(0, 1, 0)  # r1
    code += asm.pop(0) + asm.store(0, 1, 4 * R0)
    code += asm.add_small(0, 1, 4)
    code += asm.wide(0xE8A0, 0x5FFC)  # stmia r0!, {r2-r12, lr}
    code += asm.wide(0xECA0, 0x0B20)  # vstmia r0!, {d0-d15}
    code += asm.wide(0xEEF1, 0x1A10) + asm.store(1, 0, at[FPSCR])  # vmrs r1, fpscr
    code += asm.move(1, asm.SP) + asm.store(1, 0, at[SP])
    code += asm.store(1, 0, DOORBELL - tail)
    code += asm.load(1, 0, at[FPSCR]) + asm.wide(0xEEE1, 0x1A10)  # vmsr fpscr, r1
    code += asm.load(1, 0, at[SP]) + asm.subtract_small(1, 1, 8) + asm.move(asm.SP, 1)
    code += asm.load(1, 0, at[R0]) + asm.store(1, asm.SP, 0)
    code += asm.load(1, 0, at[BACK]) + asm.store(1, asm.SP, 4)
    code += asm.wide(0xED30, 0x0B20)  # vldmdb r0!, {d0-d15}
    code += asm.wide(0xE930, 0x5FFE)  # ldmdb r0!, {r1-r12, lr}
    return code + b"\x01\xbd"  # pop {r0, pc}


COMMON = _common()


# vector instructions that nobody has needed yet: they stop the board with their name
MISSING_PATTERNS: tuple[Pattern, ...] = (
    pattern("VLDRD or VSTRD by a vector", "1111 1101 .... ...0 ...1 1111 .... ...."),
    pattern("VLDRD or VSTRD, gathered", "111. 1100 100. .... ...0 1111 1... ...."),
    pattern("VMULLP", "111. 1110 0.11 ...1 .... 1110 .0.0 ...0"),
    pattern("VMAXNMA or VMINNMA", "111. 1110 0.11 1111 .... 1110 10.0 ...1"),
    pattern("VCMUL", "111. 1110 0.11 ...0 .... 1110 .0.0 ...."),
    pattern("VQDMLADH or VQDMLSDH", "111. 1110 0... ...0 .... 1110 .0.0 ...0"),
    pattern("VQRDMLADH or VQRDMLSDH", "111. 1110 0... ...0 .... 1110 .0.0 ...1"),
    pattern("VADC or VSBC", "111. 1110 0.11 ...0 .... 1111 .0.0 ...0"),
    pattern("VHCADD or VCADD", "111. 1110 0... ...0 .... 1111 .0.0 ...0"),
    pattern("VRMLALDAVH", "111. 1110 1... ...0 .... 1111 .0.0 ...0"),
    pattern("VRMLSLDAVH", "1111 1110 1... ...0 .... 1110 .0.0 ...1"),
    pattern("VBRSR", "1111 1110 0... ...1 ...1 1110 .110 ...."),
    pattern("VQRDMLAH or VQRDMLASH", "1110 1110 0... ...0 .... 1110 .100 ...."),
    pattern("VQDMLAH or VQDMLASH", "1110 1110 0... ...0 .... 1110 .110 ...."),
    pattern("VCADD of floats", "1111 110. 1.0. ...0 ...0 1000 .1.0 ...0"),
    pattern("VCMLA", "1111 110. ..1. ...0 ...0 1000 .1.0 ...0"),
    pattern("vector instruction", "111. 1111 .... .... .... .... .... ...."),
    pattern("vector instruction", "111. 1110 .... .... .... 111. .... ...."),
    pattern("vector load or store", "111. 110. .... .... .... 111. .... ...."),
)
MISSING = PatternTable(MISSING_PATTERNS)
