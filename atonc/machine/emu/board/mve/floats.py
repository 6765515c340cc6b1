"""Arithmetic on vectors of floats; comparisons of all vectors, and the predicate register.

As the architecture has it for vectors: rounded to the nearest, numbers too small for a normal float become zero on the
way in and out, and there is one NaN. The flags that tell so are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu.board.mve.state import Array, InstructionEntry, Operation, VectorState, entry
from atonc.machine.emu.board.v81m import Instruction

_TINY = np.float32(1.17549435e-38)  # the smallest normal float
_NAN = np.float32("nan")
_SIGN = np.uint32(0x8000_0000)
_ALTERNATIVE_HALF = 1 << 26  # of FPSCR: half precision without infinities


def flushed(x: Array) -> Array:
    """Denormals as zero with their sign, every NaN as the one that there is."""
    small = np.where(np.abs(x) < _TINY, np.copysign(np.float32(0), x), x)
    result: Array = np.where(np.isnan(small), _NAN, small).astype(np.float32)
    return result


def _quiet(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return flushed(function(*(flushed(x) for x in operands)))

    return run


def _signalling(x: Array) -> Array:
    bits = x.view(np.uint32)
    found: Array = np.isnan(x) & (bits & 0x0040_0000 == 0)
    return found


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once. The product is exact in 64 bits; the sum is made odd where it is not, so that the second
    rounding cannot go wrong."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    outward = (error > 0) == (total > 0)
    odd = np.where(inexact, bits + np.where(outward, 1, -1), bits)
    return odd.view(np.float64).astype(np.float32)


def extreme(larger: bool, signalling: bool = True) -> Callable[[Array, Array], Array]:
    """MAXNM and MINNM: a number rather than a quiet NaN, NaN when one is signalling; plus zero is more than minus."""

    def run(a: Array, b: Array) -> Array:
        bad = (_signalling(a) | _signalling(b)) & signalling
        a, b = flushed(a), flushed(b)
        first = np.where(np.isnan(a), b, a)
        second = np.where(np.isnan(b), a, b)
        zero = (first == 0) & (second == 0)
        negative = np.signbit(first) & np.signbit(second) if larger else np.signbit(first) | np.signbit(second)
        chosen = np.where(first > second, first, second) if larger else np.where(first < second, first, second)
        chosen = np.where(zero, np.where(negative, np.float32(-0.0), np.float32(0)), chosen)
        return np.where(bad, _NAN, chosen).astype(np.float32)

    return run


# ---------------------------------------------------------------------------------------------------------- operations


def two(i: Instruction, s: VectorState, function: Callable[[Array, Array], Array]) -> Operation:
    a, b = s.floats[i["n"]], s.floats[i["m"]]
    return lambda: s.put(i["d"], function(a, b))


def by_register(i: Instruction, s: VectorState, function: Callable[[Array, Array], Array]) -> Operation:
    a = s.floats[i["n"]]
    return lambda: s.put(i["d"], function(a, scalar(s, i["m"])))


def scalar(s: VectorState, number: int) -> Array:
    return np.full(4, s.register(number), np.uint32).view(np.float32)


def _multiply_add(i: Instruction, s: VectorState, negate: bool) -> Operation:
    run = _quiet(lambda a, b, c: fused(-a if negate else a, b, c))
    a, b, c = s.floats[i["n"]], s.floats[i["m"]], s.floats[i["d"]]
    return lambda: s.put(i["d"], run(a, b, c))


def _multiply_add_register(i: Instruction, s: VectorState, to_product: bool) -> Operation:
    """VFMA: d + n * register; VFMAS: d * n + register."""
    run = _quiet(fused)
    n, d = s.floats[i["n"]], s.floats[i["d"]]

    def go() -> None:
        r = scalar(s, i["m"])
        s.put(i["d"], run(d, n, r) if to_product else run(n, r, d))

    return go


def _sign(i: Instruction, s: VectorState, function: Callable[[Array, np.uint32], Array], mask: np.uint32) -> Operation:
    """Changes the sign bit alone: nothing is flushed."""
    bits = s.unsigned[2][i["m"]]
    return lambda: s.put(i["d"], function(bits, mask))


# ---------------------------------------------------------------------------------------------------------- conversions


def _rounded(x: Array, mode: int) -> Array:
    """0 to the nearest, halves away from zero; 1 to the nearest, halves to even; 2 up; 3 down."""
    if mode == 0:
        return np.copysign(np.floor(np.abs(x) + 0.5), x)
    return np.rint(x) if mode == 1 else np.ceil(x) if mode == 2 else np.floor(x)


def to_integers(x: Array, unsigned: int) -> Array:
    """Whole numbers as floats of 64 bits to words; what does not fit becomes the nearest that does, NaN zero."""
    low, high = (0, 0xFFFF_FFFF) if unsigned else (-(1 << 31), (1 << 31) - 1)
    clipped = np.clip(np.where(np.isnan(x), 0, x), low, high).astype(np.int64)
    return (clipped & 0xFFFF_FFFF).astype(np.uint32)


def _wide(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return flushed(x).astype(np.float64)


def _to_float(i: Instruction, s: VectorState) -> Operation:
    source = s.vector(i["m"], 2, i["u"])
    return lambda: s.put(i["d"], source.astype(np.float32))


def _to_integer(i: Instruction, s: VectorState, rounded: Callable[[Array, int], Array]) -> Operation:
    return lambda: s.put(i["d"], to_integers(rounded(_wide(s.floats[i["m"]]), i.fields.get("r", 0)), i["u"]))


def _from_fixed(i: Instruction, s: VectorState) -> Operation:
    source, by = s.vector(i["m"], 2, i["u"]), 32 - i["i"]
    return lambda: s.put(i["d"], np.ldexp(source.astype(np.float64), -by).astype(np.float32))


def _to_fixed(i: Instruction, s: VectorState) -> Operation:
    by = 32 - i["i"]
    return lambda: s.put(i["d"], to_integers(np.trunc(np.ldexp(_wide(s.floats[i["m"]]), by)), i["u"]))


def _halves_allowed(s: VectorState) -> None:
    if s.fpscr & _ALTERNATIVE_HALF:
        raise NotModelledError(f"FPSCR is {s.fpscr:#x}: the alternative half precision of its bit 26")


def _from_half(i: Instruction, s: VectorState) -> Operation:
    """Half precision has its small numbers, also where single precision has none."""
    halves = s.unsigned[1][i["m"]].view(np.float16)[i["t"] :: 2]

    def go() -> None:
        _halves_allowed(s)
        with np.errstate(all="ignore"):
            s.put(i["d"], flushed(halves.astype(np.float32)))

    return go


def _to_half(i: Instruction, s: VectorState) -> Operation:
    source = s.floats[i["m"]]

    def go() -> None:
        _halves_allowed(s)
        with np.errstate(all="ignore"):
            halves = np.where(np.isnan(source), np.float16("nan"), flushed(source).astype(np.float16))
        s.put_half(i["d"], 1, i["t"], halves)

    return go


def _round(i: Instruction, s: VectorState, function: Callable[[Array], Array]) -> Operation:
    run = _quiet(lambda x: np.copysign(function(x), x))
    return lambda: s.put(i["d"], run(s.floats[i["m"]]))


_ONE = "1111 1111 1011 10{} ddd0 {} mmm0"
ARITHMETIC: tuple[InstructionEntry, ...] = (
    entry("VADD.F32", "1110 1111 0000 nnn0 ddd0 1101 0100 mmm0", two, _quiet(np.add)),
    entry("VSUB.F32", "1110 1111 0010 nnn0 ddd0 1101 0100 mmm0", two, _quiet(np.subtract)),
    entry("VMUL.F32", "1111 1111 0000 nnn0 ddd0 1101 0101 mmm0", two, _quiet(np.multiply)),
    entry("VABD.F32", "1111 1111 0010 nnn0 ddd0 1101 0100 mmm0", two, _quiet(lambda a, b: np.abs(a - b))),
    entry("VMAXNM.F32", "1111 1111 0000 nnn0 ddd0 1111 0101 mmm0", two, extreme(True)),
    entry("VMINNM.F32", "1111 1111 0010 nnn0 ddd0 1111 0101 mmm0", two, extreme(False)),
    entry("VFMA.F32", "1110 1111 0000 nnn0 ddd0 1100 0101 mmm0", _multiply_add, False),
    entry("VFMS.F32", "1110 1111 0010 nnn0 ddd0 1100 0101 mmm0", _multiply_add, True),
    entry("VADD.F32 by a register", "1110 1110 0011 nnn0 ddd0 1111 0100 mmmm", by_register, _quiet(np.add)),
    entry("VSUB.F32 by a register", "1110 1110 0011 nnn0 ddd1 1111 0100 mmmm", by_register, _quiet(np.subtract)),
    entry("VMUL.F32 by a register", "1110 1110 0011 nnn1 ddd0 1110 0110 mmmm", by_register, _quiet(np.multiply)),
    entry("VFMA.F32 by a register", "1110 1110 0011 nnn1 ddd0 1110 0100 mmmm", _multiply_add_register, False),
    entry("VFMAS.F32 by a register", "1110 1110 0011 nnn1 ddd1 1110 0100 mmmm", _multiply_add_register, True),
    entry("VABS.F32", _ONE.format("01", "0111 0100"), _sign, lambda x, m: x & m, ~_SIGN),
    entry("VNEG.F32", _ONE.format("01", "0111 1100"), _sign, lambda x, m: x ^ m, _SIGN),
    entry("VCVT.F32 of integers", _ONE.format("11", "0110 u100"), _to_float),
    entry("VCVT of F32 to integers", _ONE.format("11", "0111 u100"), _to_integer, lambda x, _: np.trunc(x)),
    entry("VCVTA, N, P, M of F32", "1111 1111 1011 1011 ddd0 00rr u100 mmm0", _to_integer, _rounded),
    entry("VCVT.F32 of fixed point", "111u 1111 101i iiii ddd0 1110 0101 mmm0", _from_fixed),
    entry("VCVT of F32 to fixed point", "111u 1111 101i iiii ddd0 1111 0101 mmm0", _to_fixed),
    entry("VCVTB or VCVTT.F32 of F16", "1111 1110 0011 1111 dddt 1110 0000 mmm1", _from_half),
    entry("VCVTB or VCVTT.F16 of F32", "1110 1110 0011 1111 dddt 1110 0000 mmm1", _to_half),
    entry("VRINTN.F32", _ONE.format("10", "0100 0100"), _round, np.rint),
    entry("VRINTX.F32", _ONE.format("10", "0100 1100"), _round, np.rint),
    entry("VRINTA.F32", _ONE.format("10", "0101 0100"), _round, lambda x: np.trunc(_rounded(x.astype(np.float64), 0))),
    entry("VRINTZ.F32", _ONE.format("10", "0101 1100"), _round, np.trunc),
    entry("VRINTM.F32", _ONE.format("10", "0110 1100"), _round, np.floor),
    entry("VRINTP.F32", _ONE.format("10", "0111 1100"), _round, np.ceil),
)


# ------------------------------------------------------------------------------------------ comparisons and predicates

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


def _integers(i: Instruction, s: VectorState, condition: str, register: bool) -> Operation:
    size, test, unsigned = i["s"], _TESTS[condition], condition in ("EQ", "NE", "CS", "HI")
    a, kind = s.vector(i["n"], size, unsigned), (_UNSIGNED if unsigned else _SIGNED)[size]
    if register:
        return lambda: _result(s, test(a, _other(i, s, size, kind)), size)
    b = s.vector(i["m"], size, unsigned)
    return lambda: _result(s, test(a, b), size)


def _floats(i: Instruction, s: VectorState, condition: str, register: bool) -> Operation:
    """LT and LE are the opposites of GE and GT, so that they are true of NaN."""
    test = _TESTS[{"LT": "GE", "LE": "GT"}.get(condition, condition)]
    opposite = condition in ("LT", "LE")

    def run(a: Array, b: Array) -> Array:
        return test(flushed(a), flushed(b)) ^ opposite

    a = s.floats[i["n"]]
    if register:
        zero = np.zeros(4, np.float32)
        return lambda: _result(s, run(a, zero if i["m"] == _ZERO else scalar(s, i["m"])), 2)
    b = s.floats[i["m"]]
    return lambda: _result(s, run(a, b), 2)


def _comparisons() -> Iterator[InstructionEntry]:
    """Floats first: they have the size that no integer has. b is the mask of the block; zero when none is opened."""
    for floats in (True, False):
        for condition, code in _CODES.items():
            top, middle, last = code[0], code[1], code[2]
            if floats and condition in ("CS", "HI"):
                continue
            sign, size = ("0", "11") if floats else ("1", "ss")
            vector = f"111{sign} 1110 0b{size} nnn1 bbb{top} 1111 {middle}000 mmm{last}"
            register = f"111{sign} 1110 0b{size} nnn1 bbb{top} 1111 {middle}1{last}0 mmmm"
            for drawing, with_register in ((vector, False), (register, True)):
                name, given = f"VCMP{'.F32' if floats else ''} {condition}", (condition, with_register)
                yield entry(name, drawing, _floats if floats else _integers, *given, opens_block=True)


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


COMPARISONS: tuple[InstructionEntry, ...] = (
    entry("VPNOT", "1111 1110 0011 0001 0000 1111 0100 1101", _invert),
    entry("VPST", "1111 1110 0b11 0001 bbb0 1111 0100 1101", _open, opens_block=True, outside=True),
    entry("VCTP", "1111 0000 00zz nnnn 1110 1000 0000 0001", _count),
    entry("VMRS of VPR or P0", "1110 1110 1111 110p tttt 1010 0001 0000", _read, outside=True),
    entry("VMSR of VPR or P0", "1110 1110 1110 110p tttt 1010 0001 0000", _write, outside=True),
    entry("VMRS of FPSCR_nzcvqc", "1110 1110 1111 0010 tttt 1010 0001 0000", _read_flags, outside=True),
    entry("VMSR of FPSCR_nzcvqc", "1110 1110 1110 0010 tttt 1010 0001 0000", _write_flags, outside=True),
    *_comparisons(),
)
