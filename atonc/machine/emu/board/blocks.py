"""Every block of code is looked at when unicorn translates it, before it runs for the first time: what the core cannot
execute, or would take for something else, is translated as other instructions.

The replacement is in memory only while the block is translated, so the firmware never reads anything but its own code.
When the firmware writes over code, unicorn drops the block, and the new one comes by here again.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from atonc.machine.base.errors import NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import assembler as asm
from atonc.machine.emu.board.mve.unit import COMMON, MISSING, VectorUnit
from atonc.machine.emu.board.system import CpuMemory
from atonc.machine.emu.board.v81m import TABLE, Instruction, in_place, stub_code

_AREA_BITS = 24  # a branch reaches 16 MB: every 16 MB have an area for stubs, in their last 64 KB
_AREA_OFFSET, AREA_BYTES = 0xFF_0000, 0x1_0000
_WIDE = (0b11101, 0b11110, 0b11111)  # first five bits of instructions that have two halfwords
_IT, _IT_MASK = 0xBF00, 0x000F
YIELD, WFE, WFI, SEV = 0xBF10, 0xBF20, 0xBF30, 0xBF40
_HINTS = (YIELD, WFE, WFI, SEV)
_WIDE_HINT = 0xF3AF, 0x8000
_LONGEST_RUN = 256  # bytes
# of the host's code: a block takes 8 KB however short it is (measured), an instruction some hundred bytes, and far more
# where it loads or stores many registers
BUFFER_BYTES, _MOST_TRANSLATED = 256 << 20, 128 << 20
_BLOCK_BYTES, _INSTRUCTION_BYTES, _MANY_BYTES = 8 << 10, 512, 8 << 10
_MANY_REGISTERS = (0xE8, 0xE9, 0xEC, 0xED)

Patch = tuple[int, bytes]
MakeStub = Callable[[int], bytes]  # of where it stands


@dataclass(frozen=True)
class Stub:
    start: int
    code: bytes
    site: int  # the instruction that it stands for

    @property
    def end(self) -> int:
        return self.start + len(self.code)


class CodeBlocks:
    def __init__(self, uc: Any, edge_hook: int, memory: CpuMemory, vectors: VectorUnit) -> None:
        self.memory, self._uc, self._vectors = memory, uc, vectors
        self.own_areas: set[int] = set()  # for stubs where no memory of the firmware is
        self.pages: set[int] = set()  # of 4 KB, that hold code which has run
        self.replaced: dict[str, int] = {}  # how many instructions of each name were translated as others
        self.translated = 0  # bytes of the host's code at most, since the last time that all were dropped
        self._stubs: dict[int, list[Stub]] = {}  # by area
        self._by_site: dict[tuple[int, bytes], Stub] = {}
        uc.hook_add(edge_hook, self._on_block)

    def areas(self) -> list[tuple[int, int]]:
        """Start and end of the places that are memory only for stubs."""
        return [(start, start + AREA_BYTES) for start in sorted(self.own_areas)]

    def stub_at(self, address: int) -> Stub | None:
        inside = self._stubs.get(address >> _AREA_BITS)
        if inside is None or address & (1 << _AREA_BITS) - 1 < _AREA_OFFSET:
            return None
        index = bisect_right(inside, address, key=lambda stub: stub.start) - 1
        return inside[index] if index >= 0 and address < inside[index].end else None

    # -------------------------------------------------------------------------------------------------------- looking

    def _on_block(self, uc: Any, block: Any, _: Any, __: Any) -> None:
        pc, size, seen = block.pc, block.size, 0
        self.pages.update((pc >> 12, pc + size >> 12))
        self._count_bytes(block.icount)
        while size > seen:  # where the block ended at an instruction that is replaced now, it goes on behind it
            stub = self.stub_at(pc)
            patches = self._as_stub(stub) if stub else list(self._replacements(pc, size))
            if not patches:
                return
            self._count_bytes(size // 2)
            seen, size = size, self._translate(pc, size, patches)
        uc.emu_stop()

    def _count_bytes(self, instructions: int) -> None:
        self.translated += _BLOCK_BYTES + _INSTRUCTION_BYTES * instructions

    def _as_stub(self, stub: Stub) -> list[Patch]:
        """Where nothing else is, the stub itself stands in memory."""
        stands = self.memory.code(stub.start, len(stub.code)) == stub.code
        return [] if stands else [(stub.start, stub.code)]

    def forget(self) -> None:
        """Drops all translations when there are many. unicorn would do so itself when its buffer is full, by a jump out
        of whatever runs: and that may be the hook above. To be called while no code runs."""
        if self.translated > _MOST_TRANSLATED:
            self._uc.ctl_flush_tb()
            self.translated = 0

    def _translate(self, pc: int, size: int, patches: list[Patch]) -> int:
        """The block's new size. unicorn hears nothing of these writes; the restored bytes are what everybody reads."""
        views = [self.memory.view(address, len(code)) for address, code in patches]
        before = [view.tobytes() for view in views]
        try:
            for view, (_, code) in zip(views, patches, strict=True):
                view[:] = bytearray(code)
            self._uc.ctl_remove_cache(pc, pc + 2)  # not the blocks that begin further on: they are right already
            translated: tuple[int, int, int] = self._uc.ctl_request_cache(pc)
        finally:
            for view, code in zip(views, before, strict=True):
                view[:] = bytearray(code)
        return translated[2]

    def _replacements(self, pc: int, size: int) -> Iterator[Patch]:
        code = self.memory.code(pc, size + 2)
        at, conditional = 0, 0  # instructions left that an IT governs
        while at < size and at + 2 <= len(code):
            first = code[at] | code[at + 1] << 8
            if first >> 11 not in _WIDE:
                if first in _HINTS:
                    yield self._hint(pc + at, first, 2)
                if first & 0xFF00 == _IT and first & _IT_MASK:
                    conditional = 5 - (first & -first).bit_length() + 1
                at += 2
            elif at + 4 > len(code):
                return
            else:
                second = code[at + 2] | code[at + 3] << 8
                found, size_bytes = self._wide(pc + at, first, second, conditional > 0)
                yield from found
                at += size_bytes
            conditional = max(0, conditional - 1)

    def _hint(self, at: int, hint: int, size: int) -> Patch:
        """Yielding is nothing here; sleeping and waking is left to the core."""
        if hint == YIELD:
            return at, asm.NOP if size == 2 else asm.NOP_WIDE
        return at, asm.UNDEFINED if size == 2 else asm.UNDEFINED_WIDE

    def _wide(self, at: int, first: int, second: int, conditional: bool) -> tuple[list[Patch], int]:
        """Patches for the instruction, and how many bytes are dealt with."""
        if first >> 8 in _MANY_REGISTERS:
            self.translated += _MANY_BYTES
        if first == _WIDE_HINT[0] and second & 0xFF00 == _WIDE_HINT[1] and 1 <= second & 0xFF <= 4:
            return [self._hint(at, _IT | (second & 0xFF) << 4, 4)], 4
        word = struct.pack("<HH", first, second)
        if self._vectors.run_length(word):
            return self._vector(at)
        instruction = find(first << 16 | second)
        return ([] if instruction is None else [self._replace(at, instruction, conditional)]), 4

    def _vector(self, at: int) -> tuple[list[Patch], int]:
        code = self.memory.code(at, _LONGEST_RUN)
        run = code[: self._vectors.run_length(code)]
        self._count("vector instructions")
        known = self._by_site.get((at, run))
        if known is None:
            common = self._stub(at >> _AREA_BITS << _AREA_BITS, b"", lambda here: COMMON)
            call = self._vectors.call(at, run)
            known = self._stub(at, run, lambda here: call + asm.branch(here + len(call), common.start))
        return [(at, asm.branch(at, known.start))], len(run)

    def _replace(self, at: int, instruction: Instruction, conditional: bool) -> Patch:
        self._count(instruction.name)
        replaced = in_place(instruction)
        if replaced is not None:
            return at, replaced
        if conditional or stub_code(instruction, at, at) is None:
            return at, asm.UNDEFINED_WIDE  # the core stops there, and it is executed then
        code = instruction.word.to_bytes(4, "big")
        stub = self._stub(at, code, lambda here: stub_code(instruction, at, here) or b"")
        return at, asm.branch(at, stub.start)

    def _count(self, name: str) -> None:
        self.replaced[name] = self.replaced.get(name, 0) + 1

    # ---------------------------------------------------------------------------------------------------------- stubs

    def _stub(self, at: int, code: bytes, make: MakeStub) -> Stub:
        """The stub for this code at this place: made once."""
        known = self._by_site.get((at, code))
        if known is not None:
            return known
        area = at >> _AREA_BITS
        stubs_here = self._stubs.setdefault(area, [])
        base = (area << _AREA_BITS) + _AREA_OFFSET
        start = -(-stubs_here[-1].end // 4) * 4 if stubs_here else base
        if at >= base or start >= base + AREA_BYTES - 256:
            raise NotModelledError(
                "too much code for the virtual board's replacements of instructions" if at < base else
                "code where the virtual board keeps its replacements of instructions",
                where=f"{at:#010x}",
                rule=f"the last {AREA_BYTES >> 10} KB of every 16 MB hold no code of a firmware",
            )  # fmt: skip
        stub = Stub(start, make(start), at)
        if base in self.own_areas:
            self.memory.view(start, len(stub.code))[:] = bytearray(stub.code)
        stubs_here.append(stub)
        self._by_site[at, code] = stub
        return stub


def find(word: int) -> Instruction | None:
    """What a word of 32 bits is, if it is not for the vector unit and a Cortex-M33 has not got it."""
    return TABLE.find(word) or MISSING.find(word)


def area_of(address: int) -> int:
    """Where the stubs of code at this address are."""
    return (address >> _AREA_BITS << _AREA_BITS) + _AREA_OFFSET
