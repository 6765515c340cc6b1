"""How a family of instructions is written down: a drawing of the encoding, and what makes the operation of one of them.

In drawings d, n and m are vector registers, s is the size of elements (8, 16, 32 bits), u says that they are unsigned.
"""

from __future__ import annotations

from collections.abc import Callable

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.mve.state import VectorState
from atonc.machine.emu.board.v81m.patterns import Instruction, Pattern, pattern

Operation = Callable[[], None]
Make = Callable[[Instruction, VectorState], Operation]


@dataclass(frozen=True)
class InstructionEntry:
    pattern: Pattern
    make: Make
    opens_block: bool = False  # it may say itself how the next instructions are governed
    outside: bool = False  # no part of a block: predicates neither govern it nor move on behind it


def entry(name: str, drawing: str, make: Make, opens_block: bool = False, outside: bool = False) -> InstructionEntry:
    return InstructionEntry(pattern(name, drawing), make, opens_block, outside)
