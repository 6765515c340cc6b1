"""Shifts of vectors: by vectors, by a general register, by numbers; widening and narrowing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.mve.families import InstructionEntry, Make, Operation, entry
from atonc.machine.emu.board.mve.integer import limits, note, type_of
from atonc.machine.emu.board.mve.state import Array, VectorState
from atonc.machine.emu.board.v81m.patterns import Instruction

_ONE = np.int64(1)
_FAR = np.int64(40)  # beyond this many bits nothing of an element is left


def shifted(data: Array, by: Array, rounding: bool) -> Array:
    """Numbers of 64 bits, to the left, or to the right where `by` is negative."""
    right = np.minimum(np.maximum(-by, 0), _FAR)
    result: Array = (data + (_ONE << right >> 1) if rounding else data) >> right
    return result if right.all() else np.where(by >= 0, data << np.minimum(np.maximum(by, 0), 31), result)


def _by_amounts(
    i: Instruction, s: VectorState, by: Callable[[], Array], rounding: bool, saturate: bool, m: int
) -> Operation:
    size, u, bits = i["s"], i["u"], 8 << i["s"]
    source, kind, d = s.vector(m, size, u), type_of(i["s"], u), i["d"]
    low, high = limits(kind)

    def run() -> None:
        data, amounts = source.astype(np.int64), by()
        result = shifted(data, amounts, rounding)
        gone = amounts >= bits
        if not saturate:
            s.put(d, (np.where(gone, 0, result) if gone.any() else result).astype(kind))
            return
        exact = np.where(gone, np.where(data > 0, high + 1, np.where(data < 0, low - 1, 0)), result)
        clipped = np.minimum(np.maximum(exact, low), high)
        note(s, clipped != exact, size)
        s.put(d, clipped.astype(kind))

    return run


def by_vector(rounding: bool, saturate: bool) -> Make:
    """The amount is the low byte of an element of n, with its sign."""

    def make(i: Instruction, s: VectorState) -> Operation:
        amounts = s.signed[0][i["n"]][:: 1 << i["s"]]
        return _by_amounts(i, s, lambda: amounts.astype(np.int64), rounding, saturate, i["m"])

    return make


def by_register(rounding: bool, saturate: bool) -> Make:
    def make(i: Instruction, s: VectorState) -> Operation:
        lanes = 16 >> i["s"]

        def amounts() -> Array:
            low = s.register(i["m"]) & 0xFF
            return np.full(lanes, low - 256 if low > 127 else low, np.int64)

        return _by_amounts(i, s, amounts, rounding, saturate, i["d"])

    return make


# ------------------------------------------------------------------------------------------------------- by numbers


def _size(number: int) -> int:
    """Elements of 8, 16 or 32 bits by the highest bit of the six that hold the amount."""
    return 2 if number & 32 else 1 if number & 16 else 0


def left(saturate: bool, to_unsigned: bool = False) -> Make:
    def make(i: Instruction, s: VectorState) -> Operation:
        size, u = _size(i["i"]), 0 if to_unsigned else i.fields.get("u", 1)
        by, source = i["i"] - (8 << size), s.vector(i["m"], size, u)
        kind = type_of(size, 1 if to_unsigned else u)
        low, high = limits(kind)

        def run() -> None:
            exact = source.astype(np.int64) << by
            if saturate:
                clipped = np.minimum(np.maximum(exact, low), high)
                note(s, clipped != exact, size)
                exact = clipped
            s.put(i["d"], exact.astype(kind))

        return run

    return make


def right(rounding: bool) -> Make:
    def make(i: Instruction, s: VectorState) -> Operation:
        size = _size(i["i"])
        by, source, kind = (16 << size) - i["i"], s.vector(i["m"], size, i["u"]), type_of(size, i["u"])
        half = 1 << by - 1 if rounding else 0
        return lambda: s.put(i["d"], ((source.astype(np.int64) + half) >> by).astype(kind))

    return make


def insert(to_right: bool) -> Make:
    """VSRI, VSLI: the bits that the shift leaves free keep what was there."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size = _size(i["i"])
        bits, kind = 8 << size, type_of(size, 1)
        source, d = s.unsigned[size][i["m"]], s.unsigned[size][i["d"]]
        by = 2 * bits - i["i"] if to_right else i["i"] - bits
        whole = (1 << bits) - 1
        taken = whole >> by if to_right else whole << by & whole

        def run() -> None:
            data = source.astype(np.int64)
            moved = data >> by if to_right else data << by
            s.put(i["d"], (moved & taken | d.astype(np.int64) & (whole ^ taken)).astype(kind))

        return run

    return make


def widen(top: int, full: bool = False) -> Make:
    """VSHLL and VMOVL: even or odd elements become twice as wide; `full`: by their own width."""

    def make(i: Instruction, s: VectorState) -> Operation:
        if full:
            size = i["s"]
            by = 8 << size
        else:
            size = 1 if i["i"] & 16 else 0
            by = i["i"] - (8 << size)
        source, kind = s.vector(i["m"], size, i["u"])[top::2], type_of(size + 1, i["u"])
        return lambda: s.put(i["d"], (source.astype(np.int64) << by).astype(kind))

    return make


@dataclass(frozen=True)
class Narrowing:
    """Elements half as wide. `source` and `result` say what is unsigned; None: as bit u says."""

    source: int | None = None
    result: int | None = None
    saturate: bool = True
    rounding: bool = False


def narrow(top: int, how: Narrowing, shift: bool = True) -> Make:
    """Narrows into the even or odd places of d, shifted to the right by a number first."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size = (1 if i["i"] & 16 else 0) if shift else i["s"]
        by = (16 << size) - i["i"] if shift else 0
        u = i.fields.get("u", 0)
        wide = s.vector(i["m"], size + 1, u if how.source is None else how.source)
        kind = type_of(size, u if how.result is None else how.result)
        (low, high), half = limits(kind), 1 << by - 1 if how.rounding else 0

        def run() -> None:
            exact = (wide.astype(np.int64) + half) >> by
            if how.saturate:
                clipped = np.minimum(np.maximum(exact, low), high)
                note(s, clipped != exact, size + 1, top << size)
                exact = clipped
            s.put_half(i["d"], size, top, exact.astype(kind))

        return run

    return make


def _carry(i: Instruction, s: VectorState) -> Operation:
    """VSHLC: the whole vector to the left; a register gives what comes in and takes what goes out."""
    by, words = i["i"] or 32, s.unsigned[2][i["d"]]

    def run() -> None:
        carry, active, result = s.register(i["m"]), s.active(2), words.copy()
        for lane, old in enumerate(words.tolist()):
            result[lane] = (old << by | carry & (1 << by) - 1) & 0xFFFF_FFFF
            carry = old >> 32 - by if active[lane] else carry
        s.put(i["d"], result)
        s.set_register(i["m"], carry)

    return run


def _narrowing() -> Iterator[InstructionEntry]:
    """Every form for the even (B) and the odd (T) places."""
    plain, rounded = Narrowing(saturate=False), Narrowing(saturate=False, rounding=True)
    shifted_forms = (
        ("VSHRN", "0", "1", "1", plain),
        ("VRSHRN", "1", "1", "1", rounded),
        ("VQSHRN", "u", "0", "0", Narrowing()),
        ("VQRSHRN", "u", "0", "1", Narrowing(rounding=True)),
        ("VQSHRUN", "0", "1", "0", Narrowing(source=0, result=1)),
        ("VQRSHRUN", "1", "1", "0", Narrowing(source=0, result=1, rounding=True)),
    )
    moves = (
        ("VQMOVUN", "0", "01", "1", Narrowing(source=0, result=1)),
        ("VMOVN", "1", "01", "1", plain),
        ("VQMOVN", "u", "11", "0", Narrowing()),
    )
    for top in (0, 1):
        for name, sign, middle, last, how in shifted_forms:
            drawing = f"111{sign} 1110 100i iiii ddd{top} 1111 {middle}100 mmm{last}"
            yield entry(f"{name}{'BT'[top]}", drawing, narrow(top, how))
        for name, sign, kind, middle, how in moves:
            drawing = f"111{sign} 1110 0011 ss{kind} ddd{top} 1110 {middle}000 mmm1"
            yield entry(f"{name}{'BT'[top]}", drawing, narrow(top, how, shift=False))
        yield entry(f"VSHLL{'BT'[top]}", f"111u 1110 0011 ss01 ddd{top} 1110 0000 mmm1", widen(top, full=True))


_VECTOR = "111u 1111 00ss nnn0 ddd0 {} mmm0"
_REGISTER = "111u 1110 0011 ss{}1 ddd1 1110 {} mmmm"
ENTRIES: tuple[InstructionEntry, ...] = (
    entry("VSHL", _VECTOR.format("0100 0100"), by_vector(False, False)),
    entry("VRSHL", _VECTOR.format("0101 0100"), by_vector(True, False)),
    entry("VQSHL", _VECTOR.format("0100 0101"), by_vector(False, True)),
    entry("VQRSHL", _VECTOR.format("0101 0101"), by_vector(True, True)),
    entry("VSHL by a register", _REGISTER.format("0", "0110"), by_register(False, False)),
    entry("VRSHL by a register", _REGISTER.format("1", "0110"), by_register(True, False)),
    entry("VQSHL by a register", _REGISTER.format("0", "1110"), by_register(False, True)),
    entry("VQRSHL by a register", _REGISTER.format("1", "1110"), by_register(True, True)),
    entry("VSHL by a number", "1110 1111 10ii iiii ddd0 0101 0101 mmm0", left(False)),
    entry("VQSHL by a number", "111u 1111 10ii iiii ddd0 0111 0101 mmm0", left(True)),
    entry("VQSHLU", "1111 1111 10ii iiii ddd0 0110 0101 mmm0", left(True, to_unsigned=True)),
    entry("VSHR by a number", "111u 1111 10ii iiii ddd0 0000 0101 mmm0", right(False)),
    entry("VRSHR by a number", "111u 1111 10ii iiii ddd0 0010 0101 mmm0", right(True)),
    entry("VSRI", "1111 1111 10ii iiii ddd0 0100 0101 mmm0", insert(True)),
    entry("VSLI", "1111 1111 10ii iiii ddd0 0101 0101 mmm0", insert(False)),
    entry("VSHLC", "1110 1110 101i iiii ddd0 1111 1100 mmmm", _carry),
    entry("VSHLLB", "111u 1110 101i iiii ddd0 1111 0100 mmm0", widen(0)),
    entry("VSHLLT", "111u 1110 101i iiii ddd1 1111 0100 mmm0", widen(1)),
    *_narrowing(),
)
