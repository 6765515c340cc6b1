"""What calls of our own kernels cost on a Cortex-M55, and in a few words what they do.

No board has measured them. The constants are counted in the code that GCC 12 makes of atonc_kernels.c with -O2, with
the double precision unit of the core and without waits for memory: cycles = work x constant, and nothing else. Those
of kernels with vectors are rounded up from benchmarks/results/cpu_kernels.md: emulated, not yet run on a board.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from atonc.emu.cpu.atonc_functions import EXPONENTIAL, PLAIN, UNARY
from atonc.emu.cpu.atonc_numbers import LIMITS
from atonc.emu.cpu.struct_view import StructView, argument, as_int, fail
from atonc.emu.files.types import CValue

# cycles per unit of work
BYTE_MOVED, BYTE_COPIED = 4, 1.5  # in runs of a few bytes, in runs that are worth a vector
VECTOR_RUN = 8  # bytes of a run that is
BYTE_GATHERED, WORD_GATHERED = 5, 11  # a transpose: items that end side by side
RUN_MOVED = 80  # the loops around a run
LOOKED_UP = 2
QUANTIZED, DEQUANTIZED = 9, 5  # float to byte and byte to float, without limits of a fused activation
SHARE, SHARES_TABLE = 22, 2300  # softmax of bytes along the last axis: an element, and what a call prepares
BOX_ROW, BOX_SHARE = 16, 12.5  # a row that stays in registers, and an element of it
PLAIN_SHARE, LEAST_SHARES = 98, 256  # the same without vectors, and from how many elements on they are used
VALUE_READ, VALUE_WRITTEN = 14, 60  # any other format: a number from memory, a rounded result to memory
MAC_VECTOR, MAC_8, MAC_16, MAC_FLOAT = 1, 7, 8, 14
PRODUCT_MAC, PRODUCT_RESULT, PRODUCT_BYTE = 0.6, 35, 6  # of two tensors of bytes: also each byte of b once
PRODUCT_DEPTH = 512  # the longest sum that is made of vectors
RUN = 30  # the taps of one row of a window
POSITION_COMPARED, BYTE_COMPARED, ROW_COMPARED = 16, 1.5, 105  # bytes side by side: with a loop of their own
BYTE_TOGETHER, ROW_TOGETHER = 2.3, 11  # short rows of them, several at a time, for places of 32 or 64 bits
SHORT_ROW, ROWS_TOGETHER = 128, 8
CELL = 1400  # of an LSTM: five functions in fixed point, nine multipliers
_S8, _U8, _S16, _S32, _S64, _F32 = 0, 1, 2, 4, 6, 8

Work = Callable[["_Reader"], tuple[float, str]]


class _Reader:
    """Sizes out of the arguments of a call; whatever is damaged has no cost."""

    def __init__(self, name: str, args: Sequence[CValue]) -> None:
        self.name, self.args = name, args

    def size(self, index: int) -> int:
        value = as_int(argument(self.args, index, self.name), self.name)
        if not 0 <= value < 1 << 31:
            raise fail(f"a size of {value}", self.name)
        return value

    def product(self, first: int, count: int) -> int:
        return prod(self.size(first + k) for k in range(count))

    def struct(self, index: int) -> StructView:
        return StructView.of(argument(self.args, index, self.name), self.name)

    def type(self, index: int) -> int:
        return self.struct(index).integer("type")

    def loops(self, rank: int, table: int, width: int) -> int:
        rows = argument(self.args, table, self.name)
        if not isinstance(rows, list) or len(rows) < self.size(rank) * width:
            raise fail("loops without their table", self.name)
        return prod(max(0, as_int(n, self.name)) for n in rows[: self.size(rank) * width : width])

    def numbers(self, index: int, *names: str) -> list[int]:
        found = [self.struct(index).integer(name) for name in names]
        if min(found) < 0:
            raise fail("a negative size", self.name)
        return found


def kernel_cost(name: str, args: Sequence[CValue]) -> tuple[float, str] | None:
    """CPU cycles and what the figure rests on; None for a function that is not ours."""
    work = WORK.get(name)
    return None if work is None else work(_Reader(name, args))


def describe_kernel(name: str, args: Sequence[CValue]) -> str:
    """Such as "Conv 64x64x24 -> 32x32x28"."""
    title = name.removeprefix("atonc_").replace("_", " ").capitalize()
    read = _Reader(name, args)
    if name in _WINDOWS:
        rows = [read.numbers(_WINDOWS[name], *(f"{side}_{axis}" for axis in "hwc")) for side in ("in", "out")]
        return f"{title} {' -> '.join('x'.join(map(str, row)) for row in rows)}"
    if name in _COUNTS:
        return f"{title} {read.product(*_COUNTS[name])} values"
    return title


def _conv(read: _Reader) -> tuple[float, str]:
    out = prod(read.numbers(8, "batch", "out_h", "out_w", "out_c"))
    k_h, k_w, in_c, groups = read.numbers(8, "k_h", "k_w", "in_c", "groups")
    depth = in_c // max(1, groups)
    mac = {_S8: MAC_8, _U8: MAC_8, _S16: MAC_16}.get(read.type(3), MAC_FLOAT)
    if mac == MAC_8 and depth * (k_w if groups == 1 else 1) >= VECTOR_RUN:
        mac = MAC_VECTOR
    cycles = out * (VALUE_WRITTEN + k_h * (RUN + k_w * depth * mac))
    return cycles, f"{mac} per multiply-add, {RUN} per row of a window, {VALUE_WRITTEN} per result"


def _pool(read: _Reader) -> tuple[float, str]:
    out = prod(read.numbers(4, "batch", "out_h", "out_w", "out_c"))
    taps = prod(read.numbers(4, "k_h", "k_w"))
    return out * (VALUE_WRITTEN + taps * VALUE_READ), f"{VALUE_READ} per value under a window"


def _matmul(read: _Reader) -> tuple[float, str]:
    rows, depth, columns, batches = read.size(8), read.size(9), read.size(10), read.loops(6, 7, 3)
    results = batches * rows * columns
    if read.type(3) in (_S8, _U8) and read.type(5) in (_S8, _U8) and depth <= PRODUCT_DEPTH:
        cycles = results * (PRODUCT_RESULT + depth * PRODUCT_MAC) + batches * columns * depth * PRODUCT_BYTE
        return cycles, f"{PRODUCT_MAC} per multiply-add, {PRODUCT_RESULT} per result, {PRODUCT_BYTE} per byte of b"
    return results * (VALUE_WRITTEN + read.size(9) * 2 * VALUE_READ), f"{2 * VALUE_READ} per multiply-add"


def _convert(read: _Reader) -> tuple[float, str]:
    cycles = VALUE_READ + VALUE_WRITTEN
    if not read.struct(1).integer("flags") & LIMITS:
        cycles = {
            (_F32, _S8): QUANTIZED,
            (_F32, _U8): QUANTIZED,
            (_S8, _F32): DEQUANTIZED,
            (_U8, _F32): DEQUANTIZED,
        }.get((read.type(3), read.type(1)), cycles)
    return cycles * read.size(4), f"{cycles} per element"


def _unary(read: _Reader) -> tuple[float, str]:
    function = read.size(5)
    own = UNARY[function].cycles if function < len(UNARY) else PLAIN
    cycles = VALUE_READ + VALUE_WRITTEN + own
    return cycles * read.size(4), f"{cycles} per element"


def _per_value(cycles: float, *where: int) -> Work:
    return lambda read: (cycles * read.product(*where), f"{cycles} per element")


def _softmax_8(read: _Reader) -> tuple[float, str]:
    elements = read.product(4, 3)
    if read.size(6) == 1 and elements >= LEAST_SHARES:
        share = BOX_SHARE if read.size(5) == BOX_ROW else SHARE
        return SHARES_TABLE + share * elements, f"{share} per element, {SHARES_TABLE} per call"
    return PLAIN_SHARE * elements, f"{PLAIN_SHARE} per element"


def _resize(read: _Reader) -> tuple[float, str]:
    results = prod(read.size(k) for k in (5, 7, 8, 10, 11))
    cycles = VALUE_WRITTEN + (4 if read.size(4) == 2 else 2) * VALUE_READ + 30
    return cycles * results, f"{cycles} per element"


def _extreme(read: _Reader) -> tuple[float, str]:
    outer, count, inner = (read.size(k) for k in (4, 5, 6))
    if read.size(3) in (_S8, _U8) and inner == 1:
        together = outer - outer % ROWS_TOGETHER if count <= SHORT_ROW and read.size(1) in (_S32, _S64) else 0
        each, row = (BYTE_TOGETHER, ROW_TOGETHER) if together else (BYTE_COMPARED, ROW_COMPARED)
        alone = (outer - together) * (ROW_COMPARED + count * BYTE_COMPARED)
        return together * (row + count * each) + alone, f"{each} per element, {row} per row"
    return POSITION_COMPARED * outer * count * inner, f"{POSITION_COMPARED} per element"


def _lstm(read: _Reader) -> tuple[float, str]:
    rows, inputs, cells = read.product(2, 2), read.size(4), read.size(5)
    cycles = rows * cells * (4 * (inputs + cells) * MAC_8 + CELL)
    return cycles, f"{MAC_8} per multiply-add, {CELL} per cell and step"


def _reduce(read: _Reader) -> tuple[float, str]:
    kept, reduced = read.loops(5, 6, 2), read.loops(7, 8, 2)
    return kept * (VALUE_WRITTEN + reduced * 2 * VALUE_READ), f"{2 * VALUE_READ} per element"


def _move(read: _Reader) -> tuple[float, str]:
    runs, item, rank = read.loops(3, 4, 3), read.size(2), read.size(3)
    rows = argument(read.args, 4, read.name)
    inner = [as_int(n, read.name) for n in rows[3 * (rank - 1) : 3 * rank]] if isinstance(rows, list) and rank else []
    if item in (1, 4) and inner and inner[0] >= 4 and inner[1] == item:
        cycles = BYTE_GATHERED if item == 1 else WORD_GATHERED
        return runs * cycles + runs // inner[0] * RUN_MOVED, f"{cycles} per item, {RUN_MOVED} per row"
    byte = BYTE_COPIED if item >= VECTOR_RUN else BYTE_MOVED
    return runs * (RUN_MOVED + byte * item), f"{byte} per byte, {RUN_MOVED} per run"


def _take(read: _Reader) -> tuple[float, str]:
    runs = prod(read.size(k) for k in (2, 4, 5, 7))
    byte = BYTE_COPIED if read.size(8) >= VECTOR_RUN else BYTE_MOVED
    return runs * (12 + byte * read.size(8)), f"{byte} per byte, 12 per run"


def _pairs(rank: int, table: int, width: int) -> Work:
    cycles = 2 * VALUE_READ + VALUE_WRITTEN + 20
    return lambda read: (cycles * read.loops(rank, table, width), f"{cycles} per element")


_WINDOWS = {"atonc_conv": 8, "atonc_transpose_conv": 8, "atonc_max_pool": 4, "atonc_average_pool": 4}
_COUNTS = {
    "atonc_lookup": (2, 1),
    "atonc_convert": (4, 1),
    "atonc_unary": (4, 1),
    "atonc_affine": (4, 2),
    "atonc_softmax_8": (4, 3),
    "atonc_softmax": (4, 3),
    "atonc_arg_extreme": (4, 3),
    "atonc_l2_norm": (4, 2),
    "atonc_lstm": (2, 3),
}
WORK: dict[str, Work] = {
    "atonc_copy": _per_value(BYTE_COPIED, 2, 1),
    "atonc_fill": _per_value(BYTE_MOVED, 2, 2),
    "atonc_move": _move,
    "atonc_take": _take,
    "atonc_gather": lambda read: (read.size(2) * read.size(7) * (30 + BYTE_MOVED * read.size(4)), "4 per byte"),
    "atonc_gather_nd": lambda read: (read.size(5) * (30 * read.size(6) + BYTE_MOVED * read.size(2)), "4 per byte"),
    "atonc_lookup": _per_value(LOOKED_UP, 2, 1),
    "atonc_convert": _convert,
    "atonc_unary": _unary,
    "atonc_affine": _per_value(VALUE_READ + VALUE_WRITTEN + 8, 4, 2),
    "atonc_binary": _pairs(6, 7, 3),
    "atonc_select": _pairs(8, 9, 4),
    "atonc_conv": _conv,
    "atonc_transpose_conv": _conv,
    "atonc_matmul": _matmul,
    "atonc_max_pool": _pool,
    "atonc_average_pool": _pool,
    "atonc_reduce": _reduce,
    "atonc_arg_extreme": _extreme,
    "atonc_softmax_8": _softmax_8,
    "atonc_softmax": _per_value(3 * VALUE_READ + 2 * EXPONENTIAL + VALUE_WRITTEN + 20, 4, 3),
    "atonc_l2_norm": _per_value(2 * VALUE_READ + VALUE_WRITTEN + 20, 4, 2),
    "atonc_resize_linear": _resize,
    "atonc_lstm": _lstm,
}
