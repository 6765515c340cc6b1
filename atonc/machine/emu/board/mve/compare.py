"""Comparisons and predicates: VCMP, VPT, VPST, VPNOT, VCTP, and the predicate register itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from atonc.machine.emu.board.mve.families import InstructionEntry, Make, Operation, entry
from atonc.machine.emu.board.mve.floats import flushed, scalar
from atonc.machine.emu.board.mve.state import Array, VectorState
from atonc.machine.emu.board.v81m.patterns import Instruction

_FLAGS, _SATURATED = 0xF000_0000, 27  # N, Z, C, V; QC
_ZERO = 15  # as a general register: the number zero
_UNSIGNED, _SIGNED = (np.uint8, np.uint16, np.uint32), (np.int8, np.int16, np.int32)
_TESTS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal, "NE": np.not_equal, "CS": np.greater_equal, "HI": np.greater,
    "GE": np.greater_equal, "LT": np.less, "GT": np.greater, "LE": np.less_equal,
}  # fmt: skip
# condition: bit 12, bit 7, the last bit (bit 5 when a register is compared with)
_CODES = {"EQ": "000", "NE": "010", "CS": "001", "HI": "011", "GE": "100", "LT": "110", "GT": "101", "LE": "111"}


def _result(s: VectorState, found: Array, size: int) -> None:
    """True in lanes that are on."""
    bits = int(np.packbits(np.repeat(found, 1 << size), bitorder="little").view("<u2")[0])
    s.set_predicate(bits & s.mask)


def _other(i: Instruction, s: VectorState, size: int, kind: type[np.generic]) -> Array:
    value = 0 if i["m"] == _ZERO else s.register(i["m"])
    return np.array(value & (1 << (8 << size)) - 1, _UNSIGNED[size]).view(kind)


def _integers(test: Callable[[Array, Array], Array], unsigned: int, register: bool) -> Make:
    def make(i: Instruction, s: VectorState) -> Operation:
        size = i["s"]
        a, kind = s.vector(i["n"], size, unsigned), (_UNSIGNED if unsigned else _SIGNED)[i["s"]]
        if register:
            return lambda: _result(s, test(a, _other(i, s, size, kind)), size)
        b = s.vector(i["m"], size, unsigned)
        return lambda: _result(s, test(a, b), size)

    return make


def _floats(condition: str, register: bool) -> Make:
    """LT and LE are the opposites of GE and GT, so that they are true of NaN."""
    test = _TESTS[{"LT": "GE", "LE": "GT"}.get(condition, condition)]
    opposite = condition in ("LT", "LE")

    def run(a: Array, b: Array) -> Array:
        return test(flushed(a), flushed(b)) ^ opposite

    def make(i: Instruction, s: VectorState) -> Operation:
        a = s.floats[i["n"]]
        if register:
            zero = np.zeros(4, np.float32)
            return lambda: _result(s, run(a, zero if i["m"] == _ZERO else scalar(s, i["m"])), 2)
        b = s.floats[i["m"]]
        return lambda: _result(s, run(a, b), 2)

    return make


def _comparisons() -> Iterator[InstructionEntry]:
    """Floats first: they have the size that no integer has. b is the mask of the block; zero when none is opened."""
    for floats in (True, False):
        for condition, code in _CODES.items():
            top, middle, last = code[0], code[1], code[2]
            if floats and condition in ("CS", "HI"):
                continue
            unsigned = int(condition in ("EQ", "NE", "CS", "HI"))
            sign, size = ("0", "11") if floats else ("1", "ss")
            vector = f"111{sign} 1110 0b{size} nnn1 bbb{top} 1111 {middle}000 mmm{last}"
            register = f"111{sign} 1110 0b{size} nnn1 bbb{top} 1111 {middle}1{last}0 mmmm"
            for drawing, with_register in ((vector, False), (register, True)):
                make = _floats(condition, with_register) if floats else _integers(
                    _TESTS[condition], unsigned, with_register
                )
                yield entry(f"VCMP{'.F32' if floats else ''} {condition}", drawing, make, opens_block=True)


def _open(i: Instruction, s: VectorState) -> Operation:
    return lambda: None


def _invert(i: Instruction, s: VectorState) -> Operation:
    return lambda: s.set_predicate(~s.p0 & s.mask)


def _count(i: Instruction, s: VectorState) -> Operation:
    """VCTP: the first elements, as many as a register says."""
    size = i["z"]

    def run() -> None:
        bits = min(s.register(i["n"]), 16 >> size) << size
        s.set_predicate((1 << bits) - 1 & s.mask)

    return run


def _read(i: Instruction, s: VectorState) -> Operation:
    return lambda: s.set_register(i["t"], s.p0 if i["p"] else s.vpr)


def _write(i: Instruction, s: VectorState) -> Operation:
    def run() -> None:
        value = s.register(i["t"])
        if i["p"]:
            s.set_predicate(value & 0xFFFF)
        else:
            s.vpr = value

    return run


def _read_flags(i: Instruction, s: VectorState) -> Operation:
    """The flags of FPSCR with the one for saturation."""
    return lambda: s.set_register(i["t"], s.fpscr & _FLAGS | s.saturated << _SATURATED)


def _write_flags(i: Instruction, s: VectorState) -> Operation:
    def run() -> None:
        value = s.register(i["t"])
        s.fpscr = s.fpscr & ~_FLAGS | value & _FLAGS
        s.saturated = bool(value >> _SATURATED & 1)

    return run


ENTRIES: tuple[InstructionEntry, ...] = (
    entry("VPNOT", "1111 1110 0011 0001 0000 1111 0100 1101", _invert),
    entry("VPST", "1111 1110 0b11 0001 bbb0 1111 0100 1101", _open, opens_block=True, outside=True),
    entry("VCTP", "1111 0000 00zz nnnn 1110 1000 0000 0001", _count),
    entry("VMRS of VPR or P0", "1110 1110 1111 110p tttt 1010 0001 0000", _read, outside=True),
    entry("VMSR of VPR or P0", "1110 1110 1110 110p tttt 1010 0001 0000", _write, outside=True),
    entry("VMRS of FPSCR_nzcvqc", "1110 1110 1111 0010 tttt 1010 0001 0000", _read_flags, outside=True),
    entry("VMSR of FPSCR_nzcvqc", "1110 1110 1110 0010 tttt 1010 0001 0000", _write_flags, outside=True),
    *_comparisons(),
)
