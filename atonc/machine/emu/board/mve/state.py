"""The registers that vector instructions work on, the predicates that switch lanes off, and how such an instruction is
written down.

Stubs put the processor's registers into a mailbox and take them back from there, so the arrays here are the registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.system import CpuMemory
from atonc.machine.emu.board.v81m import Instruction, Pattern, pattern
from atonc.machine.emu.bus import Bytes

Array = NDArray[Any]

# words of the mailbox: r1 to r12 and lr, 16 doubles, then r0, FPSCR and sp; the number of what to execute, and where to
# go on
DOUBLES, R0, FPSCR, SP, NUMBER, BACK, WORDS = 13, 45, 46, 47, 48, 49, 50
_PLACES = {0: R0, **{number: number - 1 for number in range(1, 13)}, 13: SP, 14: 12}
ALL = 0xFFFF
_UNSIGNED, _SIGNED = (np.uint8, np.uint16, np.uint32), (np.int8, np.int16, np.int32)


@cache
def lanes(mask: int) -> NDArray[np.bool_]:
    """One value for each byte of a vector."""
    return np.unpackbits(np.array([mask & 0xFF, mask >> 8], np.uint8), bitorder="little").astype(bool)


class VectorState:
    """`block` is the two masks that say how the next instructions of a VPT block are governed."""

    def __init__(self, mailbox: Bytes, memory: CpuMemory, wrote: Callable[[int, int], None]) -> None:
        self.memory, self.wrote = memory, wrote
        self._words = mailbox.view("<u4")
        vectors = mailbox[4 * DOUBLES : 4 * DOUBLES + 128].reshape(8, 16)
        self.bytes = list(vectors)
        self.unsigned = [[row.view(kind) for row in vectors] for kind in _UNSIGNED]
        self.signed = [[row.view(kind) for row in vectors] for kind in _SIGNED]
        self.floats = [row.view(np.float32) for row in vectors]
        self.saturated = False  # FPSCR.QC, which a Cortex-M33 has no room for
        self.p0, self.block = 0, 0
        self.mask = ALL  # bytes of a vector that the next instruction may change

    # ------------------------------------------------------------------------------------------------------- registers

    def register(self, number: int) -> int:
        return int(self._words[_PLACES[number]])

    def set_register(self, number: int, value: int) -> None:
        self._words[_PLACES[number]] = value & 0xFFFF_FFFF

    @property
    def fpscr(self) -> int:
        return int(self._words[FPSCR])

    @fpscr.setter
    def fpscr(self, value: int) -> None:
        self._words[FPSCR] = value

    def vector(self, number: int, size: int, unsigned: int) -> Array:
        return (self.unsigned if unsigned else self.signed)[size][number]

    def double(self, number: int) -> Bytes:
        return self.bytes[number >> 1][8 * (number & 1) : 8 * (number & 1) + 8]

    def put(self, number: int, value: Array) -> None:
        """A result of 16 bytes, in the lanes that are on."""
        if self.mask == ALL:
            self.bytes[number][:] = value.view(np.uint8)
        else:
            np.copyto(self.bytes[number], value.view(np.uint8), where=lanes(self.mask))

    def put_half(self, number: int, size: int, top: int, value: Array) -> None:
        """Elements into the even or odd places."""
        width = 1 << size
        places = self.bytes[number].reshape(-1, 2, width)[:, top]
        on = lanes(self.mask).reshape(-1, 2, width)[:, top]
        np.copyto(places, value.view(np.uint8).reshape(-1, width), where=on)

    def active(self, size: int) -> NDArray[np.bool_]:
        """Which elements of so many (as a power of two) bytes are on."""
        return lanes(self.mask)[:: 1 << size]

    # ------------------------------------------------------------------------------------------------------- predicates

    @property
    def vpr(self) -> int:
        return self.p0 | self.block << 16

    @vpr.setter
    def vpr(self, value: int) -> None:
        self.set_predicate(value & ALL, value >> 16 & 0xFF)

    def set_predicate(self, p0: int, block: int | None = None) -> None:
        self.p0 = p0
        self.block = self.block if block is None else block
        low = p0 & 0xFF if self.block & 0xF else 0xFF
        high = p0 & 0xFF00 if self.block & 0xF0 else 0xFF00
        self.mask = low | high

    def advance(self) -> None:
        """Behind an instruction of a VPT block; its second half may be governed by the opposite predicate."""
        p0, block = self.p0, 0
        for shift, half in ((0, 0x00FF), (4, 0xFF00)):
            mask = self.block >> shift & 0xF
            if mask != 8 and mask & 8:
                p0 ^= half
            block |= (mask << 1 & 0xF if mask != 8 else 0) << shift
        self.set_predicate(p0, block)


Operation = Callable[[], None]
Make = Callable[[Instruction, VectorState], Operation]


@dataclass(frozen=True)
class InstructionEntry:
    pattern: Pattern
    make: Make
    opens_block: bool = False  # it may say itself how the next instructions are governed
    outside: bool = False  # no part of a block: predicates neither govern it nor move on behind it


def entry(
    name: str,
    drawing: str,
    make: Callable[..., Operation],
    *given: Any,
    opens_block: bool = False,
    outside: bool = False,
    **named: Any,
) -> InstructionEntry:
    """How an instruction is written down: `make` of it, the state and what is `given` beside them is its operation.

    In drawings d, n and m are vector registers, s is the size of elements (8, 16, 32 bits), u says that they are
    unsigned.
    """
    return InstructionEntry(pattern(name, drawing), lambda i, s: make(i, s, *given, **named), opens_block, outside)
