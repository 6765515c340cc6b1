"""Instructions rewritten as others that the Cortex-M33 has: in their place, or as a few lines elsewhere (a stub) that a
branch leads to. They run at full speed, which loops need, and leave flags and other registers alone."""

from __future__ import annotations

from atonc.machine.emu.board.v81m import assembler as asm
from atonc.machine.emu.board.v81m.assembler import ASR, LR, LSL, LSR
from atonc.machine.emu.board.v81m.patterns import Instruction

_ZERO = 15  # as an operand of a select
_SCRATCH = 0
_LONG = {"LSLL": LSL, "LSRL": LSR, "ASRL": ASR}
_NO_PAIR = 6  # the upper register of a pair would be sp or pc
_IGNORED = ("BF", "BFL", "BFX", "BFCSEL")


def in_place(instruction: Instruction) -> bytes | None:
    """One instruction of four bytes with the same effect, if there is. Not two of two bytes: the core may stop between
    them, and go on in the middle of what memory has there."""
    if instruction.name == "DLS":
        return asm.move_shifted(LR, instruction["n"], LSL, 0)
    return asm.NOP_WIDE if instruction.name in _IGNORED else None


def stub(instruction: Instruction, at: int, here: int) -> bytes | None:
    """Code for `here` that does what the instruction at `at` does, and goes on where that would."""
    name = instruction.name
    if name in ("LE", "LE forever"):
        return _loop_end(here, at + 4 - _distance(instruction), at + 4, name == "LE forever")
    if name == "WLS":
        return _loop_start(here, instruction["n"], at + 4 + _distance(instruction), at + 4)
    if name in _LONG and instruction["h"] < _NO_PAIR:
        low, high = 2 * instruction["l"], 2 * instruction["h"] + 1
        return _back(_long_shift(_LONG[name], low, high, instruction["i"] or 32), here, at)
    return _back(_select(instruction), here, at) if name == "CSEL" else None


def _back(code: bytes, here: int, at: int) -> bytes:
    return code + asm.branch(here + len(code), at + 4)


def _distance(instruction: Instruction) -> int:
    return instruction["i"] << 2 | instruction["j"] << 1


def _loop_end(here: int, start: int, behind: int, forever: bool) -> bytes:
    """The loop ends when one round or none is left."""
    if forever:
        return asm.branch(here, start)
    again = asm.pop(_SCRATCH) + asm.subtract_small(LR, LR, 1)
    code = asm.push(_SCRATCH) + asm.move_shifted(_SCRATCH, LR, LSR, 1)
    code += asm.skip_if_zero(_SCRATCH, (len(again) + 4) // 2) + again
    code += asm.branch(here + len(code), start) + asm.pop(_SCRATCH)
    return code + asm.branch(here + len(code), behind)


def _loop_start(here: int, count: int, end: int, behind: int) -> bytes:
    enter = asm.pop(_SCRATCH) + asm.move(LR, count)
    code = asm.push(_SCRATCH) + asm.move(_SCRATCH, count)
    code += asm.skip_if_zero(_SCRATCH, (len(enter) + 4) // 2) + enter
    code += asm.branch(here + len(code), behind) + asm.pop(_SCRATCH)
    return code + asm.branch(here + len(code), end)


def _long_shift(kind: int, low: int, high: int, by: int) -> bytes:
    if by == 32:
        if kind == LSL:
            return asm.move_shifted(high, low, LSL, 0) + asm.move_small(low, 0)
        rest = asm.move_small(high, 0) if kind == LSR else asm.move_shifted(high, high, ASR, 31)
        return asm.move_shifted(low, high, LSL, 0) + rest
    if kind == LSL:
        carried = asm.or_shifted(high, low, LSR, 32 - by)
        return asm.move_shifted(high, high, LSL, by) + carried + asm.move_shifted(low, low, LSL, by)
    carried = asm.or_shifted(low, high, LSL, 32 - by)
    return asm.move_shifted(low, low, LSR, by) + carried + asm.move_shifted(high, high, kind, by)


def _select(instruction: Instruction) -> bytes:
    """CSEL, CSINC, CSINV and CSNEG: the second operand as it is, plus one, inverted, negated."""
    to, first, second, kind = (instruction[letter] for letter in "dnmo")
    yes = asm.move_small(to, 0) if first == _ZERO else asm.move_shifted(to, first, LSL, 0)
    if second == _ZERO:
        zeros = (asm.move_small(to, 0), asm.move_small(to, 1), asm.move_minus_one(to), asm.move_small(to, 0))
        return asm.if_else(instruction["c"]) + yes + zeros[kind]
    others = (
        asm.move_shifted(to, second, LSL, 0),
        asm.add_small(to, second, 1),
        asm.move_inverted(to, second),
        asm.negate(to, second),
    )
    return asm.if_else(instruction["c"]) + yes + others[kind]
