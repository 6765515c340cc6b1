"""Integer arithmetic between vectors, and between a vector and a general register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from atonc.machine.emu.board.mve.families import InstructionEntry, Make, Operation, entry
from atonc.machine.emu.board.mve.state import Array, VectorState, lanes
from atonc.machine.emu.board.v81m.patterns import Instruction

_UNSIGNED, _SIGNED = (np.uint8, np.uint16, np.uint32), (np.int8, np.int16, np.int32)
_WIDE = (np.int16, np.int32, np.int64), (np.uint16, np.uint32, np.uint64)

Function = Callable[[Array, Array], Array]
WideFunction = Callable[[Array, Array, int], Array]  # of numbers of 64 bits and the width of an element
Operands = Callable[[Instruction, VectorState, int], Callable[[], tuple[Array, Array]]]


def type_of(size: int, unsigned: int) -> type[np.integer[Any]]:
    return (_UNSIGNED if unsigned else _SIGNED)[size]


def limits(kind: type[np.integer[Any]]) -> tuple[np.int64, np.int64]:
    info = np.iinfo(kind)
    return np.int64(info.min), np.int64(info.max)


# ---------------------------------------------------------------------------------------------------------- operands


def _vectors(i: Instruction, s: VectorState, unsigned: int) -> Callable[[], tuple[Array, Array]]:
    a, b = (s.vector(i[letter], i["s"], unsigned) for letter in "nm")
    return lambda: (a, b)


def _scalar(i: Instruction, s: VectorState, unsigned: int) -> Callable[[], tuple[Array, Array]]:
    a, size = s.vector(i["n"], i["s"], unsigned), i["s"]
    kind, mask = type_of(size, unsigned), (1 << (8 << size)) - 1
    return lambda: (a, np.array(s.register(i["m"]) & mask, _UNSIGNED[size]).view(kind))


# ---------------------------------------------------------------------------------------------------------- operations


def same_width(function: Function, operands: Operands, unsigned: int | None = None) -> Make:
    """Results as wide as the operands, wrapped. `unsigned` None: as bit u says."""

    def make(i: Instruction, s: VectorState) -> Operation:
        both, d = operands(i, s, i["u"] if unsigned is None else unsigned), i["d"]
        return lambda: s.put(d, function(*both()))

    return make


def through_64(function: WideFunction, operands: Operands, unsigned: int | None = None) -> Make:
    """Computed with 64 bits, then cut to the width of an element."""

    def make(i: Instruction, s: VectorState) -> Operation:
        sign = i["u"] if unsigned is None else unsigned
        both, d, bits, kind = operands(i, s, sign), i["d"], 8 << i["s"], type_of(i["s"], sign)

        def run() -> None:
            a, b = both()
            s.put(d, function(a.astype(np.int64), b.astype(np.int64), bits).astype(kind))

        return run

    return make


def saturating(function: WideFunction, operands: Operands, unsigned: int | None = None) -> Make:
    """What does not fit becomes the nearest number that does, and is remembered."""

    def make(i: Instruction, s: VectorState) -> Operation:
        sign = i["u"] if unsigned is None else unsigned
        both, d, bits, size = operands(i, s, sign), i["d"], 8 << i["s"], i["s"]
        kind = type_of(size, sign)
        low, high = limits(kind)

        def run() -> None:
            a, b = both()
            exact = function(a.astype(np.int64), b.astype(np.int64), bits)
            result = np.minimum(np.maximum(exact, low), high)
            note(s, result != exact, size)
            s.put(d, result.astype(kind))

        return run

    return make


def note(s: VectorState, changed: Array, size: int, first: int = 0) -> None:
    """Saturation counts in lanes that are on, as the byte `first` of them says."""
    if not s.saturated and changed.any():
        s.saturated = bool((changed & lanes(s.mask)[first :: 1 << size]).any())


def _doubled_high(a: Array, b: Array, bits: int) -> Array:
    """The upper half of twice the product."""
    return (a * b) >> bits - 1


def _doubled_high_rounded(a: Array, b: Array, bits: int) -> Array:
    return (a * b + (1 << bits - 2)) >> bits - 1


def _high(rounded: bool) -> Make:
    """The upper half of the product."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size, u = i["s"], i["u"]
        a, b = (s.vector(i[letter], size, u) for letter in "nm")
        kind = type_of(size, u)
        wide: Any = _WIDE[u][size]
        bits, half = wide(8 << size), wide(1 << (8 << size) - 1 if rounded else 0)

        def run() -> None:
            product: Array = a.astype(wide) * b.astype(wide)
            s.put(i["d"], ((product + half) >> bits).astype(kind))

        return run

    return make


def _long(top: int) -> Make:
    """VMULL: products twice as wide, of the even or odd elements."""

    def make(i: Instruction, s: VectorState) -> Operation:
        a, b = (s.vector(i[letter], i["s"], i["u"])[top::2] for letter in "nm")
        wide: Any = _WIDE[i["u"]][i["s"]]
        return lambda: s.put(i["d"], a.astype(wide) * b.astype(wide))

    return make


def _doubled_long(top: int, operands: Operands) -> Make:
    """VQDMULL: twice the product, saturated; 16 or 32 bits by bit z."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size = 1 + i["z"]
        sized = Instruction(i.name, i.word, i.fields | {"s": size})
        both, kind = operands(sized, s, 0), (np.int32, np.int64)[i["z"]]
        limit = 1 << (16 << i["z"]) - 1

        def run() -> None:
            a, b = both()
            a, b = a[top::2].astype(np.int64), (b[top::2] if b.ndim else b).astype(np.int64)
            full = (a == -limit) & (b == -limit)  # the one product whose double has no room
            result = np.where(full, np.iinfo(kind).max, 2 * np.where(full, 0, a * b))
            _note_doubled(s, full, top, size)
            s.put(i["d"], result.astype(kind))

        return run

    return make


def _note_doubled(s: VectorState, changed: Array, top: int, size: int) -> None:
    """Products of 16 bits count where their operands are, those of 32 bits where either half of the result is on."""
    on = lanes(s.mask)
    counts = on[2 * top :: 4] if size == 1 else on[::8] | on[4::8]
    s.saturated = s.saturated or bool((changed & counts).any())


def _multiply_add(to_product: bool) -> Make:
    """VMLA: d + n * register; VMLAS: d * n + register. Sign does not matter."""

    def make(i: Instruction, s: VectorState) -> Operation:
        size = i["s"]
        d: Array = s.unsigned[size][i["d"]]
        n: Array = s.unsigned[size][i["n"]]
        kind: Any = _UNSIGNED[size]
        mask = (1 << (8 << size)) - 1

        def run() -> None:
            r = np.array(s.register(i["m"]) & mask, kind)
            s.put(i["d"], d * n + r if to_product else d + n * r)

        return run

    return make


def one(function: Callable[[Array], Array], unsigned: int = 0) -> Make:
    """One operand, one result, as wide."""

    def make(i: Instruction, s: VectorState) -> Operation:
        source, d = s.vector(i["m"], i["s"], unsigned), i["d"]
        return lambda: s.put(d, function(source))

    return make


def _saturating_one(function: Callable[[Array], Array]) -> Make:
    def make(i: Instruction, s: VectorState) -> Operation:
        source, size = s.signed[i["s"]][i["m"]], i["s"]
        high, kind = limits(_SIGNED[size])[1], _SIGNED[size]

        def run() -> None:
            exact = function(source.astype(np.int64))
            result = np.minimum(exact, high)
            note(s, result != exact, size)
            s.put(i["d"], result.astype(kind))

        return run

    return make


def _leading(i: Instruction, s: VectorState) -> Operation:
    """VCLZ: zeros in front."""
    source, bits, kind = s.unsigned[i["s"]][i["m"]], 8 << i["s"], _UNSIGNED[i["s"]]
    return lambda: s.put(i["d"], np.array([bits - int(x).bit_length() for x in source], kind))


def _leading_signs(i: Instruction, s: VectorState) -> Operation:
    """VCLS: copies of the sign behind the sign."""
    source, bits, kind = s.signed[i["s"]][i["m"]], 8 << i["s"], _UNSIGNED[i["s"]]
    return lambda: s.put(i["d"], np.array([bits - 1 - int(x ^ (x >> bits - 1)).bit_length() for x in source], kind))


def _absolute_extreme(function: Function) -> Make:
    """VMAXA, VMINA: the magnitude of m against d, without sign."""

    def make(i: Instruction, s: VectorState) -> Operation:
        d, source, kind = s.unsigned[i["s"]][i["d"]], s.signed[i["s"]][i["m"]], _UNSIGNED[i["s"]]
        return lambda: s.put(i["d"], function(d, np.abs(source.astype(np.int64)).astype(kind)))

    return make


def _absolute_difference(a: Array, b: Array) -> Array:
    return np.maximum(a, b) - np.minimum(a, b)


_TWO = "111u 1111 00ss nnn0 ddd0 {} mmm0"
_SCALAR = "111u 1110 00ss nnn{} ddd{} {} mmmm"
ENTRIES: tuple[InstructionEntry, ...] = (
    entry("VADD.I", "1110 1111 00ss nnn0 ddd0 1000 0100 mmm0", same_width(np.add, _vectors, 1)),
    entry("VSUB.I", "1111 1111 00ss nnn0 ddd0 1000 0100 mmm0", same_width(np.subtract, _vectors, 1)),
    entry("VMUL.I", "1110 1111 00ss nnn0 ddd0 1001 0101 mmm0", same_width(np.multiply, _vectors, 1)),
    entry("VMAX", _TWO.format("0110 0100"), same_width(np.maximum, _vectors)),
    entry("VMIN", _TWO.format("0110 0101"), same_width(np.minimum, _vectors)),
    entry("VABD", _TWO.format("0111 0100"), same_width(_absolute_difference, _vectors)),
    entry("VHADD", _TWO.format("0000 0100"), through_64(lambda a, b, _: (a + b) >> 1, _vectors)),
    entry("VHSUB", _TWO.format("0010 0100"), through_64(lambda a, b, _: (a - b) >> 1, _vectors)),
    entry("VRHADD", _TWO.format("0001 0100"), through_64(lambda a, b, _: (a + b + 1) >> 1, _vectors)),
    entry("VQADD", _TWO.format("0000 0101"), saturating(lambda a, b, _: a + b, _vectors)),
    entry("VQSUB", _TWO.format("0010 0101"), saturating(lambda a, b, _: a - b, _vectors)),
    entry("VQDMULH", "1110 1111 00ss nnn0 ddd0 1011 0100 mmm0", saturating(_doubled_high, _vectors, 0)),
    entry("VQRDMULH", "1111 1111 00ss nnn0 ddd0 1011 0100 mmm0", saturating(_doubled_high_rounded, _vectors, 0)),
    entry("VQABS", "1111 1111 1011 ss00 ddd0 0111 0100 mmm0", _saturating_one(np.abs)),
    entry("VQNEG", "1111 1111 1011 ss00 ddd0 0111 1100 mmm0", _saturating_one(np.negative)),
    entry("VABS", "1111 1111 1011 ss01 ddd0 0011 0100 mmm0", one(np.abs)),
    entry("VNEG", "1111 1111 1011 ss01 ddd0 0011 1100 mmm0", one(np.negative)),
    entry("VCLS", "1111 1111 1011 ss00 ddd0 0100 0100 mmm0", _leading_signs),
    entry("VCLZ", "1111 1111 1011 ss00 ddd0 0100 1100 mmm0", _leading),
    entry("VMAXA", "1110 1110 0011 ss11 ddd0 1110 1000 mmm1", _absolute_extreme(np.maximum)),
    entry("VMINA", "1110 1110 0011 ss11 ddd1 1110 1000 mmm1", _absolute_extreme(np.minimum)),
    entry("VQDMULLB", "111z 1110 0011 nnn0 ddd0 1111 0000 mmm1", _doubled_long(0, _vectors)),
    entry("VQDMULLT", "111z 1110 0011 nnn0 ddd1 1111 0000 mmm1", _doubled_long(1, _vectors)),
    entry("VQDMULLB by a register", "111z 1110 0011 nnn0 ddd0 1111 0110 mmmm", _doubled_long(0, _scalar)),
    entry("VQDMULLT by a register", "111z 1110 0011 nnn0 ddd1 1111 0110 mmmm", _doubled_long(1, _scalar)),
    entry("VMULLB", "111u 1110 00ss nnn1 ddd0 1110 0000 mmm0", _long(0)),
    entry("VMULLT", "111u 1110 00ss nnn1 ddd1 1110 0000 mmm0", _long(1)),
    entry("VMULH", "111u 1110 00ss nnn1 ddd0 1110 0000 mmm1", _high(False)),
    entry("VRMULH", "111u 1110 00ss nnn1 ddd1 1110 0000 mmm1", _high(True)),
    entry("VADD.I by a register", "1110 1110 00ss nnn1 ddd0 1111 0100 mmmm", same_width(np.add, _scalar, 1)),
    entry("VSUB.I by a register", "1110 1110 00ss nnn1 ddd1 1111 0100 mmmm", same_width(np.subtract, _scalar, 1)),
    entry("VMUL.I by a register", "1110 1110 00ss nnn1 ddd1 1110 0110 mmmm", same_width(np.multiply, _scalar, 1)),
    entry("VHADD by a register", _SCALAR.format(0, 0, "1111 0100"), through_64(lambda a, b, _: (a + b) >> 1, _scalar)),
    entry("VHSUB by a register", _SCALAR.format(0, 1, "1111 0100"), through_64(lambda a, b, _: (a - b) >> 1, _scalar)),
    entry("VQADD by a register", _SCALAR.format(0, 0, "1111 0110"), saturating(lambda a, b, _: a + b, _scalar)),
    entry("VQSUB by a register", _SCALAR.format(0, 1, "1111 0110"), saturating(lambda a, b, _: a - b, _scalar)),
    entry("VQDMULH by a register", "1110 1110 00ss nnn1 ddd0 1110 0110 mmmm", saturating(_doubled_high, _scalar, 0)),
    entry("VQRDMULH by a register", "1111 1110 00ss nnn1 ddd0 1110 0110 mmmm",
          saturating(_doubled_high_rounded, _scalar, 0)),
    entry("VMLA", "111. 1110 00ss nnn1 ddd0 1110 0100 mmmm", _multiply_add(False)),
    entry("VMLAS", "111. 1110 00ss nnn1 ddd1 1110 0100 mmmm", _multiply_add(True)),
)  # fmt: skip
