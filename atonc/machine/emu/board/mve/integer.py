"""Integers in vectors: arithmetic, also with a general register; shifts; reductions into general registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board.mve.floats import extreme
from atonc.machine.emu.board.mve.state import Array, InstructionEntry, Operation, VectorState, entry, lanes
from atonc.machine.emu.board.v81m import Instruction

_UNSIGNED, _SIGNED = (np.uint8, np.uint16, np.uint32), (np.int8, np.int16, np.int32)
_LIMITS: dict[Any, tuple[np.int64, np.int64]] = {
    kind: (np.int64(np.iinfo(kind).min), np.int64(np.iinfo(kind).max)) for kind in (*_UNSIGNED, *_SIGNED)
}
_WIDE = (np.int16, np.int32, np.int64), (np.uint16, np.uint32, np.uint64)

Function = Callable[[Array, Array], Array]
WideFunction = Callable[[Array, Array, int], Array]  # of numbers of 64 bits and the width of an element
Operands = Callable[[Instruction, VectorState, int], Callable[[], tuple[Array, Array]]]


def type_of(size: int, unsigned: int) -> type[np.integer[Any]]:
    return (_UNSIGNED if unsigned else _SIGNED)[size]


# ---------------------------------------------------------------------------------------------------------- operands


def _vectors(i: Instruction, s: VectorState, unsigned: int) -> Callable[[], tuple[Array, Array]]:
    a, b = (s.vector(i[letter], i["s"], unsigned) for letter in "nm")
    return lambda: (a, b)


def _scalar(i: Instruction, s: VectorState, unsigned: int) -> Callable[[], tuple[Array, Array]]:
    a, size = s.vector(i["n"], i["s"], unsigned), i["s"]
    kind, mask = type_of(size, unsigned), (1 << (8 << size)) - 1
    return lambda: (a, np.array(s.register(i["m"]) & mask, _UNSIGNED[size]).view(kind))


# ---------------------------------------------------------------------------------------------------------- operations


def same_width(
    i: Instruction, s: VectorState, function: Function, operands: Operands, unsigned: int | None = None
) -> Operation:
    """Results as wide as the operands, wrapped. `unsigned` None: as bit u says."""
    both, d = operands(i, s, i["u"] if unsigned is None else unsigned), i["d"]
    return lambda: s.put(d, function(*both()))


def through_64(
    i: Instruction, s: VectorState, function: WideFunction, operands: Operands, unsigned: int | None = None
) -> Operation:
    """Computed with 64 bits, then cut to the width of an element."""
    sign = i["u"] if unsigned is None else unsigned
    both, d, bits, kind = operands(i, s, sign), i["d"], 8 << i["s"], type_of(i["s"], sign)

    def run() -> None:
        a, b = both()
        s.put(d, function(a.astype(np.int64), b.astype(np.int64), bits).astype(kind))

    return run


def saturating(
    i: Instruction, s: VectorState, function: WideFunction, operands: Operands, unsigned: int | None = None
) -> Operation:
    """What does not fit becomes the nearest number that does, and is remembered."""
    sign = i["u"] if unsigned is None else unsigned
    both, d, size, kind = operands(i, s, sign), i["d"], i["s"], type_of(i["s"], sign)

    def run() -> None:
        a, b = both()
        s.put(d, clipped(s, function(a.astype(np.int64), b.astype(np.int64), 8 << size), kind, size))

    return run


def clipped(s: VectorState, exact: Array, kind: type[np.integer[Any]], size: int, first: int = 0) -> Array:
    """What does not fit becomes the nearest number that does. That is remembered of lanes that are on, as the byte
    `first` of them says."""
    low, high = _LIMITS[kind]
    result = np.minimum(np.maximum(exact, low), high)
    changed = result != exact
    if not s.saturated and changed.any():
        s.saturated = bool((changed & lanes(s.mask)[first :: 1 << size]).any())
    return result.astype(kind)


def _doubled_high(a: Array, b: Array, bits: int) -> Array:
    """The upper half of twice the product."""
    return (a * b) >> bits - 1


def _doubled_high_rounded(a: Array, b: Array, bits: int) -> Array:
    return (a * b + (1 << bits - 2)) >> bits - 1


def _high(i: Instruction, s: VectorState, rounded: bool) -> Operation:
    """The upper half of the product."""
    size, u = i["s"], i["u"]
    a, b = (s.vector(i[letter], size, u) for letter in "nm")
    kind = type_of(size, u)
    wide: Any = _WIDE[u][size]
    bits, half = wide(8 << size), wide(1 << (8 << size) - 1 if rounded else 0)

    def run() -> None:
        product: Array = a.astype(wide) * b.astype(wide)
        s.put(i["d"], ((product + half) >> bits).astype(kind))

    return run


def _long(i: Instruction, s: VectorState, top: int) -> Operation:
    """VMULL: products twice as wide, of the even or odd elements."""
    a, b = (s.vector(i[letter], i["s"], i["u"])[top::2] for letter in "nm")
    wide: Any = _WIDE[i["u"]][i["s"]]
    return lambda: s.put(i["d"], a.astype(wide) * b.astype(wide))


def _doubled_long(i: Instruction, s: VectorState, top: int, operands: Operands) -> Operation:
    """VQDMULL: twice the product, saturated; 16 or 32 bits by bit z."""
    size = 1 + i["z"]
    both, kind = operands(replace(i, fields=i.fields | {"s": size}), s, 0), (np.int32, np.int64)[i["z"]]
    limit = 1 << (16 << i["z"]) - 1

    def run() -> None:
        a, b = both()
        a, b = a[top::2].astype(np.int64), (b[top::2] if b.ndim else b).astype(np.int64)
        full = (a == -limit) & (b == -limit)  # the one product whose double has no room
        result = np.where(full, np.iinfo(kind).max, 2 * np.where(full, 0, a * b))
        # products of 16 bits count where their operands are, those of 32 bits where either half of the result is on
        on = lanes(s.mask)
        counts = on[2 * top :: 4] if size == 1 else on[::8] | on[4::8]
        s.saturated = s.saturated or bool((full & counts).any())
        s.put(i["d"], result.astype(kind))

    return run


def _multiply_add(i: Instruction, s: VectorState, to_product: bool) -> Operation:
    """VMLA: d + n * register; VMLAS: d * n + register. Sign does not matter."""
    size = i["s"]
    d: Array = s.unsigned[size][i["d"]]
    n: Array = s.unsigned[size][i["n"]]
    kind: Any = _UNSIGNED[size]
    mask = (1 << (8 << size)) - 1

    def run() -> None:
        r = np.array(s.register(i["m"]) & mask, kind)
        s.put(i["d"], d * n + r if to_product else d + n * r)

    return run


def one(i: Instruction, s: VectorState, function: Callable[[Array], Array], unsigned: int = 0) -> Operation:
    """One operand, one result, as wide."""
    source, d = s.vector(i["m"], i["s"], unsigned), i["d"]
    return lambda: s.put(d, function(source))


def _saturating_one(i: Instruction, s: VectorState, function: Callable[[Array], Array]) -> Operation:
    source, size = s.signed[i["s"]][i["m"]], i["s"]
    return lambda: s.put(i["d"], clipped(s, function(source.astype(np.int64)), _SIGNED[size], size))


def _leading(i: Instruction, s: VectorState) -> Operation:
    """VCLZ: zeros in front."""
    source, bits, kind = s.unsigned[i["s"]][i["m"]], 8 << i["s"], _UNSIGNED[i["s"]]
    return lambda: s.put(i["d"], np.array([bits - int(x).bit_length() for x in source], kind))


def _leading_signs(i: Instruction, s: VectorState) -> Operation:
    """VCLS: copies of the sign behind the sign."""
    source, bits, kind = s.signed[i["s"]][i["m"]], 8 << i["s"], _UNSIGNED[i["s"]]
    return lambda: s.put(i["d"], np.array([bits - 1 - int(x ^ (x >> bits - 1)).bit_length() for x in source], kind))


def _absolute_extreme(i: Instruction, s: VectorState, function: Function) -> Operation:
    """VMAXA, VMINA: the magnitude of m against d, without sign."""
    d, source, kind = s.unsigned[i["s"]][i["d"]], s.signed[i["s"]][i["m"]], _UNSIGNED[i["s"]]
    return lambda: s.put(i["d"], function(d, np.abs(source.astype(np.int64)).astype(kind)))


_TWO = "111u 1111 00ss nnn0 ddd0 {} mmm0"
_SCALAR = "111u 1110 00ss nnn{} ddd{} {} mmmm"
ARITHMETIC: tuple[InstructionEntry, ...] = (
    entry("VADD.I", "1110 1111 00ss nnn0 ddd0 1000 0100 mmm0", same_width, np.add, _vectors, 1),
    entry("VSUB.I", "1111 1111 00ss nnn0 ddd0 1000 0100 mmm0", same_width, np.subtract, _vectors, 1),
    entry("VMUL.I", "1110 1111 00ss nnn0 ddd0 1001 0101 mmm0", same_width, np.multiply, _vectors, 1),
    entry("VMAX", _TWO.format("0110 0100"), same_width, np.maximum, _vectors),
    entry("VMIN", _TWO.format("0110 0101"), same_width, np.minimum, _vectors),
    entry("VABD", _TWO.format("0111 0100"), same_width, lambda a, b: np.maximum(a, b) - np.minimum(a, b), _vectors),
    entry("VHADD", _TWO.format("0000 0100"), through_64, lambda a, b, _: (a + b) >> 1, _vectors),
    entry("VHSUB", _TWO.format("0010 0100"), through_64, lambda a, b, _: (a - b) >> 1, _vectors),
    entry("VRHADD", _TWO.format("0001 0100"), through_64, lambda a, b, _: (a + b + 1) >> 1, _vectors),
    entry("VQADD", _TWO.format("0000 0101"), saturating, lambda a, b, _: a + b, _vectors),
    entry("VQSUB", _TWO.format("0010 0101"), saturating, lambda a, b, _: a - b, _vectors),
    entry("VQDMULH", "1110 1111 00ss nnn0 ddd0 1011 0100 mmm0", saturating, _doubled_high, _vectors, 0),
    entry("VQRDMULH", "1111 1111 00ss nnn0 ddd0 1011 0100 mmm0", saturating, _doubled_high_rounded, _vectors, 0),
    entry("VQABS", "1111 1111 1011 ss00 ddd0 0111 0100 mmm0", _saturating_one, np.abs),
    entry("VQNEG", "1111 1111 1011 ss00 ddd0 0111 1100 mmm0", _saturating_one, np.negative),
    entry("VABS", "1111 1111 1011 ss01 ddd0 0011 0100 mmm0", one, np.abs),
    entry("VNEG", "1111 1111 1011 ss01 ddd0 0011 1100 mmm0", one, np.negative),
    entry("VCLS", "1111 1111 1011 ss00 ddd0 0100 0100 mmm0", _leading_signs),
    entry("VCLZ", "1111 1111 1011 ss00 ddd0 0100 1100 mmm0", _leading),
    entry("VMAXA", "1110 1110 0011 ss11 ddd0 1110 1000 mmm1", _absolute_extreme, np.maximum),
    entry("VMINA", "1110 1110 0011 ss11 ddd1 1110 1000 mmm1", _absolute_extreme, np.minimum),
    entry("VQDMULLB", "111z 1110 0011 nnn0 ddd0 1111 0000 mmm1", _doubled_long, 0, _vectors),
    entry("VQDMULLT", "111z 1110 0011 nnn0 ddd1 1111 0000 mmm1", _doubled_long, 1, _vectors),
    entry("VQDMULLB by a register", "111z 1110 0011 nnn0 ddd0 1111 0110 mmmm", _doubled_long, 0, _scalar),
    entry("VQDMULLT by a register", "111z 1110 0011 nnn0 ddd1 1111 0110 mmmm", _doubled_long, 1, _scalar),
    entry("VMULLB", "111u 1110 00ss nnn1 ddd0 1110 0000 mmm0", _long, 0),
    entry("VMULLT", "111u 1110 00ss nnn1 ddd1 1110 0000 mmm0", _long, 1),
    entry("VMULH", "111u 1110 00ss nnn1 ddd0 1110 0000 mmm1", _high, False),
    entry("VRMULH", "111u 1110 00ss nnn1 ddd1 1110 0000 mmm1", _high, True),
    entry("VADD.I by a register", "1110 1110 00ss nnn1 ddd0 1111 0100 mmmm", same_width, np.add, _scalar, 1),
    entry("VSUB.I by a register", "1110 1110 00ss nnn1 ddd1 1111 0100 mmmm", same_width, np.subtract, _scalar, 1),
    entry("VMUL.I by a register", "1110 1110 00ss nnn1 ddd1 1110 0110 mmmm", same_width, np.multiply, _scalar, 1),
    entry("VHADD by a register", _SCALAR.format(0, 0, "1111 0100"), through_64, lambda a, b, _: (a + b) >> 1, _scalar),
    entry("VHSUB by a register", _SCALAR.format(0, 1, "1111 0100"), through_64, lambda a, b, _: (a - b) >> 1, _scalar),
    entry("VQADD by a register", _SCALAR.format(0, 0, "1111 0110"), saturating, lambda a, b, _: a + b, _scalar),
    entry("VQSUB by a register", _SCALAR.format(0, 1, "1111 0110"), saturating, lambda a, b, _: a - b, _scalar),
    entry("VQDMULH by a register", "1110 1110 00ss nnn1 ddd0 1110 0110 mmmm", saturating, _doubled_high, _scalar, 0),
    entry("VQRDMULH by a register", "1111 1110 00ss nnn1 ddd0 1110 0110 mmmm",
          saturating, _doubled_high_rounded, _scalar, 0),
    entry("VMLA", "111. 1110 00ss nnn1 ddd0 1110 0100 mmmm", _multiply_add, False),
    entry("VMLAS", "111. 1110 00ss nnn1 ddd1 1110 0100 mmmm", _multiply_add, True),
)  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- shifts

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
    low, high = _LIMITS[kind]

    def run() -> None:
        data, amounts = source.astype(np.int64), by()
        result = shifted(data, amounts, rounding)
        gone = amounts >= bits
        if not saturate:
            s.put(d, (np.where(gone, 0, result) if gone.any() else result).astype(kind))
            return
        exact = np.where(gone, np.where(data > 0, high + 1, np.where(data < 0, low - 1, 0)), result)
        s.put(d, clipped(s, exact, kind, size))

    return run


def by_vector(i: Instruction, s: VectorState, rounding: bool, saturate: bool) -> Operation:
    """The amount is the low byte of an element of n, with its sign."""
    amounts = s.signed[0][i["n"]][:: 1 << i["s"]]
    return _by_amounts(i, s, lambda: amounts.astype(np.int64), rounding, saturate, i["m"])


def by_register(i: Instruction, s: VectorState, rounding: bool, saturate: bool) -> Operation:
    lanes = 16 >> i["s"]

    def amounts() -> Array:
        low = s.register(i["m"]) & 0xFF
        return np.full(lanes, low - 256 if low > 127 else low, np.int64)

    return _by_amounts(i, s, amounts, rounding, saturate, i["d"])


# ------------------------------------------------------------------------------------------------------- by numbers


def _size(number: int) -> int:
    """Elements of 8, 16 or 32 bits by the highest bit of the six that hold the amount."""
    return 2 if number & 32 else 1 if number & 16 else 0


def left(i: Instruction, s: VectorState, saturate: bool, to_unsigned: bool = False) -> Operation:
    size, u = _size(i["i"]), 0 if to_unsigned else i.fields.get("u", 1)
    by, source = i["i"] - (8 << size), s.vector(i["m"], size, u)
    kind = type_of(size, 1 if to_unsigned else u)

    def run() -> None:
        exact = source.astype(np.int64) << by
        s.put(i["d"], clipped(s, exact, kind, size) if saturate else exact.astype(kind))

    return run


def right(i: Instruction, s: VectorState, rounding: bool) -> Operation:
    size = _size(i["i"])
    by, source, kind = (16 << size) - i["i"], s.vector(i["m"], size, i["u"]), type_of(size, i["u"])
    half = 1 << by - 1 if rounding else 0
    return lambda: s.put(i["d"], ((source.astype(np.int64) + half) >> by).astype(kind))


def insert(i: Instruction, s: VectorState, to_right: bool) -> Operation:
    """VSRI, VSLI: the bits that the shift leaves free keep what was there."""
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


def widen(i: Instruction, s: VectorState, top: int, full: bool = False) -> Operation:
    """VSHLL and VMOVL: even or odd elements become twice as wide; `full`: by their own width."""
    if full:
        size = i["s"]
        by = 8 << size
    else:
        size = 1 if i["i"] & 16 else 0
        by = i["i"] - (8 << size)
    source, kind = s.vector(i["m"], size, i["u"])[top::2], type_of(size + 1, i["u"])
    return lambda: s.put(i["d"], (source.astype(np.int64) << by).astype(kind))


@dataclass(frozen=True)
class Narrowing:
    """Elements half as wide. `source` and `result` say what is unsigned; None: as bit u says."""

    source: int | None = None
    result: int | None = None
    saturate: bool = True
    rounding: bool = False


def narrow(i: Instruction, s: VectorState, top: int, how: Narrowing, shift: bool = True) -> Operation:
    """Narrows into the even or odd places of d, shifted to the right by a number first."""
    size = (1 if i["i"] & 16 else 0) if shift else i["s"]
    by = (16 << size) - i["i"] if shift else 0
    u = i.fields.get("u", 0)
    wide = s.vector(i["m"], size + 1, u if how.source is None else how.source)
    kind = type_of(size, u if how.result is None else how.result)
    half = 1 << by - 1 if how.rounding else 0

    def run() -> None:
        exact = (wide.astype(np.int64) + half) >> by
        result = clipped(s, exact, kind, size + 1, top << size) if how.saturate else exact.astype(kind)
        s.put_half(i["d"], size, top, result)

    return run


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
            yield entry(f"{name}{'BT'[top]}", drawing, narrow, top, how)
        for name, sign, kind, middle, how in moves:
            drawing = f"111{sign} 1110 0011 ss{kind} ddd{top} 1110 {middle}000 mmm1"
            yield entry(f"{name}{'BT'[top]}", drawing, narrow, top, how, shift=False)
        yield entry(f"VSHLL{'BT'[top]}", f"111u 1110 0011 ss01 ddd{top} 1110 0000 mmm1", widen, top, full=True)


_VECTOR = "111u 1111 00ss nnn0 ddd0 {} mmm0"
_REGISTER = "111u 1110 0011 ss{}1 ddd1 1110 {} mmmm"
SHIFTS: tuple[InstructionEntry, ...] = (
    entry("VSHL", _VECTOR.format("0100 0100"), by_vector, False, False),
    entry("VRSHL", _VECTOR.format("0101 0100"), by_vector, True, False),
    entry("VQSHL", _VECTOR.format("0100 0101"), by_vector, False, True),
    entry("VQRSHL", _VECTOR.format("0101 0101"), by_vector, True, True),
    entry("VSHL by a register", _REGISTER.format("0", "0110"), by_register, False, False),
    entry("VRSHL by a register", _REGISTER.format("1", "0110"), by_register, True, False),
    entry("VQSHL by a register", _REGISTER.format("0", "1110"), by_register, False, True),
    entry("VQRSHL by a register", _REGISTER.format("1", "1110"), by_register, True, True),
    entry("VSHL by a number", "1110 1111 10ii iiii ddd0 0101 0101 mmm0", left, False),
    entry("VQSHL by a number", "111u 1111 10ii iiii ddd0 0111 0101 mmm0", left, True),
    entry("VQSHLU", "1111 1111 10ii iiii ddd0 0110 0101 mmm0", left, True, to_unsigned=True),
    entry("VSHR by a number", "111u 1111 10ii iiii ddd0 0000 0101 mmm0", right, False),
    entry("VRSHR by a number", "111u 1111 10ii iiii ddd0 0010 0101 mmm0", right, True),
    entry("VSRI", "1111 1111 10ii iiii ddd0 0100 0101 mmm0", insert, True),
    entry("VSLI", "1111 1111 10ii iiii ddd0 0101 0101 mmm0", insert, False),
    entry("VSHLC", "1110 1110 101i iiii ddd0 1111 1100 mmmm", _carry),
    entry("VSHLLB", "111u 1110 101i iiii ddd0 1111 0100 mmm0", widen, 0),
    entry("VSHLLT", "111u 1110 101i iiii ddd1 1111 0100 mmm0", widen, 1),
    *_narrowing(),
)


# ---------------------------------------------------------------------------------------------------------- reductions

_FLOAT = 0x7FFF_FFFF


def _sum(i: Instruction, s: VectorState, long: bool) -> Operation:
    """VADDV into one register, VADDLV into a pair."""
    size = 2 if long else i["s"]
    data = s.vector(i["m"], size, i["u"])

    def run() -> None:
        total = int(data[s.active(size)].astype(np.int64).sum())
        _add(s, i, total, long)

    return run


def _add(s: VectorState, i: Instruction, total: int, long: bool) -> None:
    """To the register, or the pair of registers, if the instruction accumulates; instead of it if not."""
    low, high = 2 * i["l"], 2 * i.fields.get("h", 0) + 1
    if i["a"]:
        total += s.register(low) | s.register(high) << 32 if long else s.register(low)
    s.set_register(low, total)
    if long:
        s.set_register(high, total >> 32)


def _dot(
    i: Instruction, s: VectorState, size: int | None, subtract: bool, long: bool, unsigned: int | None = None
) -> Operation:
    """VMLADAV and its kin: products added up; with x elements of n change places in pairs; `subtract` the odd ones."""
    width = 1 + i["z"] if size is None else size
    u = i.fields.get("u", 0) if unsigned is None else unsigned
    a, b = s.vector(i["n"], width, u), s.vector(i["m"], width, u)
    order = np.arange(16 >> width) ^ 1 if i["x"] else np.arange(16 >> width)
    signs = np.where(np.arange(16 >> width) & 1, -1, 1) if subtract else np.ones(16 >> width, np.int64)

    def run() -> None:
        left = a[order].astype(object) if width == 2 else a[order].astype(np.int64)
        right = b.astype(object) if width == 2 else b.astype(np.int64)
        total = int((left * right * signs)[s.active(width)].sum()) if s.mask else 0
        _add(s, i, total, long)

    return run


def _extreme(i: Instruction, s: VectorState, larger: bool, absolute: bool) -> Operation:
    """VMAXV, VMINV, VMAXAV, VMINAV: against what the register holds."""
    size, u, bits = i["s"], i.fields.get("u", 0), 8 << i["s"]
    data = s.vector(i["m"], size, u)
    choose = max if larger else min

    def run() -> None:
        start = s.register(i["t"]) & (1 << bits) - 1
        if not u and not absolute and start >> bits - 1:
            start -= 1 << bits
        values = [abs(x) if absolute else x for x in data[s.active(size)].tolist()]
        s.set_register(i["t"], choose([start, *values]))

    return run


def _float_extreme(i: Instruction, s: VectorState, larger: bool, absolute: bool) -> Operation:
    """VMAXNMV and its kin; `absolute` is said of the elements alone, and no NaN is better than another."""
    choose = extreme(larger, signalling=False)
    words = s.unsigned[2][i["m"]]

    def run() -> None:
        value = np.array([s.register(i["t"])], np.uint32)
        for word in words[s.active(2)]:
            other = np.array([int(word) & _FLOAT if absolute else int(word)], np.uint32)
            value = choose(value.view(np.float32), other.view(np.float32)).view(np.uint32)
        s.set_register(i["t"], int(value[0]))

    return run


def _differences(i: Instruction, s: VectorState) -> Operation:
    """VABAV: distances of two vectors, added to a register."""
    a, b = s.vector(i["n"], i["s"], i["u"]), s.vector(i["m"], i["s"], i["u"])

    def run() -> None:
        distances: Array = np.abs(a.astype(np.int64) - b.astype(np.int64))[s.active(i["s"])]
        s.set_register(i["t"], s.register(i["t"]) + int(distances.sum()))

    return run


REDUCTIONS: tuple[InstructionEntry, ...] = (
    entry("VADDV", "111u 1110 1111 ss01 lll0 1111 00a0 mmm0", _sum, False),
    entry("VADDLV", "111u 1110 1hhh 1001 lll0 1111 00a0 mmm0", _sum, True),
    entry("VMAXNMAV.F32", "1110 1110 1110 1100 tttt 1111 0000 mmm0", _float_extreme, True, True),
    entry("VMINNMAV.F32", "1110 1110 1110 1100 tttt 1111 1000 mmm0", _float_extreme, False, True),
    entry("VMAXNMV.F32", "1110 1110 1110 1110 tttt 1111 0000 mmm0", _float_extreme, True, False),
    entry("VMINNMV.F32", "1110 1110 1110 1110 tttt 1111 1000 mmm0", _float_extreme, False, False),
    entry("VMAXV", "111u 1110 1110 ss10 tttt 1111 0000 mmm0", _extreme, True, False),
    entry("VMINV", "111u 1110 1110 ss10 tttt 1111 1000 mmm0", _extreme, False, False),
    entry("VMAXAV", "1110 1110 1110 ss00 tttt 1111 0000 mmm0", _extreme, True, True),
    entry("VMINAV", "1110 1110 1110 ss00 tttt 1111 1000 mmm0", _extreme, False, True),
    entry("VABAV", "111u 1110 10ss nnn0 tttt 1111 0000 mmm1", _differences),
    entry("VMLADAV", "111u 1110 1111 nnnz lllx 1110 00a0 mmm0", _dot, None, False, False),
    entry("VMLALDAV", "111u 1110 1hhh nnnz lllx 1110 00a0 mmm0", _dot, None, False, True),
    entry("VMLSDAV", "1110 1110 1111 nnnz lllx 1110 00a0 mmm1", _dot, None, True, False),
    entry("VMLSLDAV", "1110 1110 1hhh nnnz lllx 1110 00a0 mmm1", _dot, None, True, True),
    entry("VMLSDAV.8", "1111 1110 1111 nnn0 lllx 1110 00a0 mmm1", _dot, 0, True, False, 0),
    entry("VMLADAV.8", "111u 1110 1111 nnn0 lllx 1111 00a0 mmm0", _dot, 0, False, False),
)
