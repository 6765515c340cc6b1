"""What calls of our own kernels cost on a Cortex-M55, and in a few words what they do.

No board has measured them. cycles = work x constant + bytes x wait. The constants are counted in the code that GCC 12
makes of atonc_kernels.c with -O2, with the double precision unit of the core; those of kernels with vectors are rounded
up from benchmarks/results/cpu_kernels.md: emulated, not yet run on a board. The waits are the machine's
(`cpu_read_byte`, `cpu_write_byte`), fitted to kernels of ST's that boards did measure: benchmarks/results/cpu_waits.md.
Every byte that a call touches is waited for once: what it reads again is in the cache. Weights come from the flash, at
most as fast as the flash gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.cpu.atonc_numbers import EXPONENTIAL, LIMITS, PLAIN, UNARY, element_type
from atonc.machine.emu.cpu.library import LibraryCall
from atonc.machine.emu.cpu.struct_view import as_int, as_number, fail
from atonc.machine.emu.files.types import CValue
from atonc.machine.hw.machine import Machine

# cycles per unit of work
BYTE_MOVED, BYTE_COPIED = 4, 1.5  # in runs of a few bytes, in runs that are worth a vector
VECTOR_RUN = 8  # bytes of a run that is
BYTE_GATHERED, WORD_GATHERED = 5, 11  # a transpose: items that end side by side
VALUE_UNPACKED = 0.6  # of 4 bits, 32 of them at a time: 9 instructions, 6 of them of two cycles
RUN_MOVED = 80  # the loops around a run
LOOKED_UP = 2
QUANTIZED, DEQUANTIZED = 3.4, 2.1  # float to byte and byte to float, without limits of a fused activation
CURVED = 4.0  # a function of a code of 16 bits, by lines
WORD_QUANTIZED, WORD_DEQUANTIZED = 7.1, 2.8  # the same for codes of 16 bits without a zero point
# softmax of bytes along the last axis: what a call prepares, rows of 16, shorter ones; longer ones, their blocks, and
# the blocks of codes whose shares are worked out for each of them
SHARES_TABLE, BOX_ROW, BOX_SHARES, FEW_SHARES = 2400, 16, 124, 143
LONG_TABLE, LONG_ROW, BLOCK_SHARES, BLOCK_CODES = 3400, 210, 86, 48
NO_SHARE = 0.49  # of a step of the result: codes below that are not worked out
PAIR_TABLE, PAIR_SHARES, PAIRS_WORTH_A_TABLE = 30000, 3.2, 512  # rows of two
PLAIN_SHARE, LEAST_SHARES = 83, 40  # an element without vectors, and from how many elements on they are used
VALUE_READ, VALUE_WRITTEN = 14, 60  # any other format: a number from memory, a rounded result to memory
NORM_VALUE = 5 * VALUE_READ + VALUE_WRITTEN + 40
# a norm of bytes: its loop and what is looked at twice, a row and its parts, and what rows share
NORM_BYTE, NORM_ROW, NORM_BLOCK, NORM_COLUMN, NORM_ROWS, NORM_COLUMNS = 15, 280, 130, 75, 32, 64
PAIR = 2 * VALUE_READ + VALUE_WRITTEN + 20
FLOAT_PAIRS, FLOAT_RUN = {0: 10, 1: 10, 2: 10, 3: 24}, 40  # sums and products of two floats, quotients; their loops
MAC_VECTOR, MAC_8, MAC_16, MAC_FLOAT = 1, 7, 8, 14
# of two tensors of bytes: products in whole vectors, results, bytes of b that are gathered, or lie in whole vectors,
# bytes of a that are gathered; a tile and its sums, and longer sums, which are made of parts
PRODUCT_MAC, PRODUCT_RESULT, PRODUCT_BYTE, PRODUCT_BYTE_IN_PLACE, ROW_BYTE = 0.36, 50, 2, 0.5, 1.4
TILE_BYTES, TILE_COLUMNS, TILE_SUMS, TILE_DEPTH, MOST_PRODUCTS = 1024, 16, 256, 256, 32768
BYTE_PACKED, CHANNEL_PACKED, BYTE_FILLED, GROUP_PACKED = 2, 10, 0.5, 60  # kernels of products, eight in a group
RUN = 30  # the taps of one row of a window
POSITION_COMPARED, BYTE_COMPARED, ROW_COMPARED = 16, 0.65, 76  # bytes side by side: with a loop of their own
BLOCK_BYTES, BLOCKS_COMPARED = 16, 44  # rows of one or two blocks of vectors
BYTE_TOGETHER, ROW_TOGETHER, ROWS_TOGETHER = 2.3, 11, 8  # shorter ones, several at a time, for places of 32 or 64 bits
BYTE_ALONE = 12  # of rows that are left over
STATE_MADE, LSTM = 20, 2  # a state in floats out of its gates; the number of that kind of layer
CELL = 1400  # of an LSTM of bytes: five functions in fixed point, nine multipliers
_PRODUCT, _SQUARE = 2, 10  # functions
_S8, _U8, _S16, _S32, _S64, _F32 = 0, 1, 2, 4, 6, 8
_IN_SINGLE = 8  # of a format's flags


@dataclass(frozen=True)
class CallPrice:
    """What a call costs: cycles of its instructions with what they rest on, and the bytes that it waits for."""

    cycles: float
    basis: str
    read_bytes: int = 0
    written_bytes: int = 0
    weight_bytes: int = 0

    def waited(self, machine: Machine) -> tuple[float, str]:
        timing, from_flash = machine.timing, machine.clocks.cpu_mhz / machine.clocks.flash_mb_per_s
        waits = self.read_bytes * timing.cpu_read_byte + self.written_bytes * timing.cpu_write_byte
        each = f"{timing.cpu_read_byte:g} per byte read and {timing.cpu_write_byte:g} per byte written"
        weights = f", {from_flash:.3g} per byte of weights" if self.weight_bytes else ""
        return self.cycles + waits + self.weight_bytes * from_flash, f"{self.basis}; waits {each}{weights}"


Work = Callable[["Reader"], CallPrice]


class Reader(LibraryCall):
    """Sizes out of the arguments of a call; whatever is damaged has no cost."""

    def size(self, index: int) -> int:
        value = self.integer(index)
        if not 0 <= value < 1 << 31:
            raise fail(f"a size of {value}", self.name)
        return value

    def product(self, first: int, count: int) -> int:
        return prod(self.size(first + k) for k in range(count))

    def type(self, index: int) -> int:
        return self.struct(index).integer("type")

    def item(self, index: int) -> int:
        """Bytes of an element, by its format."""
        return element_type(self.type(index), self.name).itemsize

    def item_of(self, index: int) -> int:
        """The same by the number of its type."""
        return element_type(self.size(index), self.name).itemsize

    def _rows(self, rank: int, table: int, width: int) -> list[list[int]]:
        rows = self.value(table)
        if not isinstance(rows, list) or len(rows) < self.size(rank) * width:
            raise fail("loops without their table", self.name)
        numbers = [as_int(n, self.name) for n in rows[: self.size(rank) * width]]
        return [numbers[k : k + width] for k in range(0, len(numbers), width)]

    def loops(self, rank: int, table: int, width: int) -> int:
        return prod(max(0, row[0]) for row in self._rows(rank, table, width))

    def run(self, rank: int, table: int, width: int) -> int:
        """Elements of the innermost loop."""
        rows = self._rows(rank, table, width)
        return rows[-1][0] if rows else 1

    def touched(self, rank: int, table: int, width: int, column: int) -> int:
        """Elements that the steps of a column visit: those along which it stands still count once."""
        return prod(max(0, row[0]) for row in self._rows(rank, table, width) if row[column])

    def numbers(self, index: int, *names: str) -> list[int]:
        found = [self.struct(index).integer(name) for name in names]
        if min(found) < 0:
            raise fail("a negative size", self.name)
        return found


def kernel_cost(name: str, args: Sequence[CValue], machine: Machine) -> tuple[float, str] | None:
    """CPU cycles and what the figure rests on; None for a function that is not ours."""
    if name not in WORK and name.startswith("atonc_"):
        # its price may stand with the kernel's twin (`@kernel(name, price)`), which is read when somebody asks
        import_module("atonc.machine.emu.cpu.families")
    work = WORK.get(name)
    return None if work is None else work(Reader(name, args)).waited(machine)


def describe_kernel(name: str, args: Sequence[CValue]) -> str:
    """Such as "Conv 64x64x24 -> 32x32x28"."""
    title = name.removeprefix("atonc_").replace("_", " ").capitalize()
    read = Reader(name, args)
    if name in _WINDOWS:
        rows = [read.numbers(_WINDOWS[name], *(f"{side}_{axis}" for axis in "hwc")) for side in ("in", "out")]
        return f"{title} {' -> '.join('x'.join(map(str, row)) for row in rows)}"
    if name in _COUNTS:
        return f"{title} {read.product(*_COUNTS[name])} values"
    return title


def _pictures(read: Reader, window: int) -> tuple[int, int]:
    """Bytes of both pictures under a window; formats are the arguments 1 and 3 everywhere."""
    source = prod(read.numbers(window, "batch", "in_h", "in_w", "in_c")) * read.item(3)
    return source, prod(read.numbers(window, "batch", "out_h", "out_w", "out_c")) * read.item(1)


def _conv(read: Reader) -> CallPrice:
    out = prod(read.numbers(8, "batch", "out_h", "out_w", "out_c"))
    k_h, k_w, in_c, groups, out_c = read.numbers(8, "k_h", "k_w", "in_c", "groups", "out_c")
    depth = in_c // max(1, groups)
    mac = {_S8: MAC_8, _U8: MAC_8, _S16: MAC_16}.get(read.type(3), MAC_FLOAT)
    if mac == MAC_8 and depth * (k_w if groups == 1 else 1) >= VECTOR_RUN:
        mac = MAC_VECTOR
    cycles = out * (VALUE_WRITTEN + k_h * (RUN + k_w * depth * mac))
    source, target = _pictures(read, 8)
    weights = out_c * k_h * k_w * depth * read.item_of(5)
    basis = f"{mac} per multiply-add, {RUN} per row of a window, {VALUE_WRITTEN} per result"
    return CallPrice(cycles, basis, source, target, weights)


def _pool(read: Reader) -> CallPrice:
    out = prod(read.numbers(4, "batch", "out_h", "out_w", "out_c"))
    taps = prod(read.numbers(4, "k_h", "k_w"))
    basis = f"{VALUE_READ} per value under a window"
    return CallPrice(out * (VALUE_WRITTEN + taps * VALUE_READ), basis, *_pictures(read, 4))


def _matmul(read: Reader) -> CallPrice:
    rows, depth, columns, batches = read.size(8), read.size(9), read.size(10), read.loops(6, 7, 3)
    results = batches * rows * columns
    left, right = (read.touched(6, 7, 3, column) for column in (1, 2))
    taken = left * rows * depth * read.item(3) + right * depth * columns * read.item(5)
    cycles: float = results * (VALUE_WRITTEN + depth * 2 * VALUE_READ)
    basis = f"{2 * VALUE_READ} per multiply-add"
    if read.type(3) in (_S8, _U8) and read.type(5) in (_S8, _U8) and depth <= MOST_PRODUCTS:
        made, byte = _product_of_bytes(read, rows, depth, columns)
        cycles = batches * made
        basis = f"{PRODUCT_MAC} per multiply-add, {PRODUCT_RESULT} per result, {byte} per byte of b"
    return CallPrice(cycles, basis, taken, results * read.item(1))


def _product_of_bytes(read: Reader, rows: int, depth: int, columns: int) -> tuple[float, float]:
    """Cycles, and those of a byte of b."""
    most = TILE_DEPTH if 2 * depth > TILE_BYTES else max(1, depth)
    parts, padded = -(-depth // most), -(-depth // BLOCK_BYTES) * BLOCK_BYTES
    tile = min(TILE_COLUMNS, TILE_BYTES // (-(-most // BLOCK_BYTES) * BLOCK_BYTES))
    times = -(-rows // (TILE_SUMS // tile)) if parts > 1 else 1  # that a tile is filled
    in_vectors = most % BLOCK_BYTES == 0
    _, step_a, step_b, _ = read.ints(11, 4)
    byte = PRODUCT_BYTE_IN_PLACE if read.type(5) == _S8 and step_b == 1 and in_vectors else PRODUCT_BYTE
    row = 0 if read.type(3) == _S8 and step_a == 1 and in_vectors else ROW_BYTE
    cycles = rows * columns * (parts * PRODUCT_RESULT + padded * PRODUCT_MAC) + times * columns * depth * byte
    return cycles + rows * depth * -(-columns // tile) * row, byte


def _pack_kernels(read: Reader) -> CallPrice:
    matrices, columns, depth, turned, kernels, channels, units = (read.size(k) for k in range(2, 9))
    whole, rest = divmod(columns, max(1, kernels))
    groups = whole * -(-kernels // 8) + -(-rest // 8)
    each = columns * BYTE_PACKED if turned else groups * CHANNEL_PACKED
    rows = read._rows(8, 9, 4)
    cycles = sum(count * (each if mask else columns * BYTE_FILLED) for _, count, mask, _ in rows)
    cycles += groups * units * GROUP_PACKED
    written = sum(-(-(-(-size * channels // 3) * 3 * units) // 16) * 16 for size in (columns - rest, rest))
    basis = f"{BYTE_PACKED} per byte, or {CHANNEL_PACKED} per channel of eight kernels that lie side by side"
    return CallPrice(matrices * cycles, basis, matrices * columns * depth, matrices * written)


def _convert(read: Reader) -> CallPrice:
    cycles: float = VALUE_READ + VALUE_WRITTEN
    if not read.struct(1).integer("flags") & LIMITS:
        kinds = (read.type(3), read.type(1))
        if kinds in ((_F32, _S8), (_F32, _U8)):
            cycles = QUANTIZED
        elif kinds in ((_S8, _F32), (_U8, _F32)):
            cycles = DEQUANTIZED
        elif kinds == (_F32, _S16) and _is_centred(read, 1) and read.struct(1).integer("flags") & _IN_SINGLE:
            cycles = WORD_QUANTIZED
        elif kinds == (_S16, _F32) and _is_centred(read, 3):
            cycles = WORD_DEQUANTIZED
    return each_value(read, cycles, read.size(4))


def _is_centred(read: Reader, index: int) -> bool:
    return read.struct(index).number("zero") == 0


def _unary(read: Reader) -> CallPrice:
    function = read.size(5)
    if function == _SQUARE and read.type(1) == read.type(3) == _F32 and not read.struct(1).integer("flags"):
        return each_value(read, FLOAT_PAIRS[_PRODUCT], read.size(4))
    own = UNARY[function].cycles if function < len(UNARY) else PLAIN
    return each_value(read, VALUE_READ + VALUE_WRITTEN + own, read.size(4))


def each_value(read: Reader, cycles: float, count: int) -> CallPrice:
    """Prices a call with as many results as values, and formats at 1 and 3."""
    return CallPrice(cycles * count, f"{cycles} per element", count * read.item(3), count * read.item(1))


def per_value(cycles: float, *where: int) -> Work:
    """So many cycles for each of the product of the arguments from `where[0]` on, `where[1]` of them."""
    return lambda read: each_value(read, cycles, read.product(*where))


def _copy(read: Reader) -> CallPrice:
    return CallPrice(BYTE_COPIED * read.size(2), f"{BYTE_COPIED} per byte", read.size(2), read.size(2))


def initial_copy_price(copied_bytes: int, flash_bytes: int) -> CallPrice:
    """Weights that go from flash into RAM when a network is initialised; packed ones have two values a byte there."""
    each = BYTE_COPIED if flash_bytes == copied_bytes else VALUE_UNPACKED
    return CallPrice(each * copied_bytes, f"{each} per byte", written_bytes=copied_bytes, weight_bytes=flash_bytes)


def _fill(read: Reader) -> CallPrice:
    count = read.product(2, 2)
    return CallPrice(BYTE_MOVED * count, f"{BYTE_MOVED} per byte", 0, count)


def _lookup(read: Reader) -> CallPrice:
    count = read.size(2)
    return CallPrice(LOOKED_UP * count, f"{LOOKED_UP} per element", count, count * read.size(4))


def _curve(read: Reader) -> CallPrice:
    count, bits = read.size(2), read.size(4)
    table = 4 << max(0, 16 - bits)
    return CallPrice(CURVED * count, f"{CURVED} per element", 2 * count, 2 * count, table)


def _softmax_8(read: Reader) -> CallPrice:
    rows, count, inner = (read.size(k) for k in (4, 5, 6))
    elements = rows * count * inner
    cycles: float = PLAIN_SHARE * elements
    basis = f"{PLAIN_SHARE} per element"
    if inner == 1 and count == 2 and rows >= PAIRS_WORTH_A_TABLE:
        cycles, basis = PAIR_TABLE + PAIR_SHARES * rows, f"{PAIR_SHARES} per row of two, {PAIR_TABLE} per call"
    elif inner == 1 and elements >= LEAST_SHARES and count > BOX_ROW:
        made = BLOCK_CODES * -(-_shares_made(read) // BLOCK_BYTES) + LONG_ROW
        cycles = LONG_TABLE + rows * (made + BLOCK_SHARES * -(-count // BLOCK_BYTES))
        basis = f"{BLOCK_SHARES} per {BLOCK_BYTES} elements, {made} per row, {LONG_TABLE} per call"
    elif inner == 1 and elements >= LEAST_SHARES:
        row = BOX_SHARES if count == BOX_ROW else FEW_SHARES
        cycles, basis = SHARES_TABLE + row * rows, f"{row} per row, {SHARES_TABLE} per call"
    return CallPrice(cycles, basis, elements, elements * read.item(1))


def _shares_made(read: Reader) -> int:
    """Codes that a row may have a share for."""
    table = read.value(7)
    if not isinstance(table, list) or len(table) < 256:
        raise fail("softmax without its 256 exponentials", read.name)
    least = NO_SHARE * read.struct(1).number("scale")
    return sum(as_number(value, read.name) >= least for value in table[:256])


def _norm(read: Reader) -> CallPrice:
    rows, count = read.size(4), read.size(5)
    limited = read.struct(1).integer("flags") & LIMITS
    if limited or not {read.type(1), read.type(3)} <= {_S8, _U8}:
        return each_value(read, NORM_VALUE, rows * count)
    shared = -(-rows // NORM_ROWS) * count * NORM_COLUMN
    row = NORM_ROW + NORM_BLOCK * -(-count // NORM_COLUMNS) + NORM_BYTE * (count & ~3) + NORM_VALUE * (count % 4)
    basis = f"{NORM_BYTE} per element, {NORM_ROW} per row, {NORM_COLUMN} per column of {NORM_ROWS} rows"
    return CallPrice(shared + row * rows, basis, rows * count, rows * count)


def _resize(read: Reader) -> CallPrice:
    results = prod(read.size(k) for k in (5, 7, 8, 10, 11))
    sources = prod(read.size(k) for k in (5, 6, 8, 9, 11))
    cycles = VALUE_WRITTEN + (4 if read.size(4) == 2 else 2) * VALUE_READ + 30
    return CallPrice(cycles * results, f"{cycles} per element", sources * read.item(3), results * read.item(1))


def _extreme(read: Reader) -> CallPrice:
    outer, count, inner = (read.size(k) for k in (4, 5, 6))
    elements = outer * count * inner
    taken, given = elements * read.item_of(3), outer * inner * read.item_of(1)
    if read.size(3) in (_S8, _U8) and inner == 1:
        return CallPrice(*_compared(read, outer, count), taken, given)
    return CallPrice(POSITION_COMPARED * elements, f"{POSITION_COMPARED} per element", taken, given)


def _compared(read: Reader, rows: int, count: int) -> tuple[float, str]:
    """Bytes side by side."""
    if count > 2 * BLOCK_BYTES:
        return rows * (ROW_COMPARED + count * BYTE_COMPARED), f"{BYTE_COMPARED} per element, {ROW_COMPARED} per row"
    if count >= BLOCK_BYTES:
        return rows * BLOCKS_COMPARED, f"{BLOCKS_COMPARED} per row"
    together = rows - rows % ROWS_TOGETHER if read.size(1) in (_S32, _S64) else 0
    cycles = together * (ROW_TOGETHER + count * BYTE_TOGETHER) + (rows - together) * count * BYTE_ALONE
    return cycles, f"{BYTE_TOGETHER if together else BYTE_ALONE} per element"


def _lstm(read: Reader) -> CallPrice:
    rows, inputs, cells = read.product(2, 2), read.size(4), read.size(5)
    cycles = rows * cells * (4 * (inputs + cells) * MAC_8 + CELL)
    basis = f"{MAC_8} per multiply-add, {CELL} per cell and step"
    return CallPrice(cycles, basis, rows * inputs, rows * cells, 4 * cells * (inputs + cells))


def _recurrent(read: Reader) -> CallPrice:
    rows, cells = read.product(5, 2), read.size(7)
    gates, functions, states = (4, 5, 2) if read.size(4) == LSTM else (3, 3, 1)
    each = gates * (cells * MAC_FLOAT + 2 * VALUE_READ) + functions * EXPONENTIAL + states * STATE_MADE
    basis = f"{MAC_FLOAT} per multiply-add, {EXPONENTIAL} per function, {STATE_MADE} per state"
    start = 0 if read.value(3) in (0, None) else 4 * states * read.size(6) * cells
    taken, weights = rows * gates * cells * read.item(2) + start, 4 * gates * cells * (cells + 1)
    return CallPrice(rows * cells * each, basis, taken, 4 * rows * states * cells, weights)


def _reduce(read: Reader) -> CallPrice:
    kept, reduced = read.loops(5, 6, 2), read.loops(7, 8, 2)
    cycles, basis = kept * (VALUE_WRITTEN + reduced * 2 * VALUE_READ), f"{2 * VALUE_READ} per element"
    return CallPrice(cycles, basis, kept * reduced * read.item(3), kept * read.item(1))


def _move(read: Reader) -> CallPrice:
    runs, item, rank = read.loops(3, 4, 3), read.size(2), read.size(3)
    rows = read.value(4)
    inner = [as_int(n, read.name) for n in rows[3 * (rank - 1) : 3 * rank]] if isinstance(rows, list) and rank else []
    taken, given = read.touched(3, 4, 3, 2) * item, runs * item
    if item in (1, 4) and inner and inner[0] >= 4 and inner[1] == item:
        cycles = BYTE_GATHERED if item == 1 else WORD_GATHERED
        basis = f"{cycles} per item, {RUN_MOVED} per row"
        return CallPrice(runs * cycles + runs // inner[0] * RUN_MOVED, basis, taken, given)
    byte = BYTE_COPIED if item >= VECTOR_RUN else BYTE_MOVED
    return CallPrice(runs * (RUN_MOVED + byte * item), f"{byte} per byte, {RUN_MOVED} per run", taken, given)


def _take(read: Reader) -> CallPrice:
    runs, item = prod(read.size(k) for k in (2, 4, 5, 7)), read.size(8)
    sources = prod(read.size(k) for k in (2, 3, 5, 6))
    byte = BYTE_COPIED if item >= VECTOR_RUN else BYTE_MOVED
    return CallPrice(runs * (12 + byte * item), f"{byte} per byte, 12 per run", min(runs, sources) * item, runs * item)


def _gather(read: Reader) -> CallPrice:
    runs, item, count = read.size(2) * read.size(7), read.size(4), read.size(7)
    taken = runs * item + count * read.item_of(6)
    return CallPrice(runs * (30 + BYTE_MOVED * item), f"{BYTE_MOVED} per byte, 30 per run", taken, runs * item)


def _gather_nd(read: Reader) -> CallPrice:
    tuples, depth, item = read.size(5), read.size(6), read.size(2)
    taken = tuples * (item + depth * read.item_of(4))
    basis = f"{BYTE_MOVED} per byte, 30 per index"
    return CallPrice(tuples * (30 * depth + BYTE_MOVED * item), basis, taken, tuples * item)


def _binary(read: Reader) -> CallPrice:
    count = read.loops(6, 7, 3)
    taken = read.touched(6, 7, 3, 1) * read.item(3) + read.touched(6, 7, 3, 2) * read.item(5)
    floats, function = {read.type(k) for k in (1, 3, 5)} == {_F32}, read.size(8)
    if not floats or function not in FLOAT_PAIRS or read.struct(1).integer("flags"):
        return CallPrice(PAIR * count, f"{PAIR} per element", taken, count * read.item(1))
    each, runs = FLOAT_PAIRS[function], count // max(1, read.run(6, 7, 3))
    basis = f"{each} per element, {FLOAT_RUN} per run"
    return CallPrice(each * count + FLOAT_RUN * runs, basis, taken, count * read.item(1))


def _select(read: Reader) -> CallPrice:
    count = read.loops(8, 9, 4)
    items = (read.item_of(3), read.item(5), read.item(7))
    taken = sum(read.touched(8, 9, 4, column) * item for column, item in enumerate(items, 1))
    return CallPrice(PAIR * count, f"{PAIR} per element", taken, count * read.item(1))


_WINDOWS = {"atonc_conv": 8, "atonc_transpose_conv": 8, "atonc_max_pool": 4, "atonc_average_pool": 4}
_COUNTS = {
    "atonc_lookup": (2, 1),
    "atonc_curve": (2, 1),
    "atonc_convert": (4, 1),
    "atonc_unary": (4, 1),
    "atonc_affine": (4, 2),
    "atonc_softmax_8": (4, 3),
    "atonc_softmax": (4, 3),
    "atonc_arg_extreme": (4, 3),
    "atonc_l2_norm": (4, 2),
    "atonc_norm": (4, 2),
    "atonc_lstm": (2, 3),
    "atonc_recurrent": (5, 3),
}
WORK: dict[str, Work] = {
    "atonc_copy": _copy,
    "atonc_fill": _fill,
    "atonc_move": _move,
    "atonc_take": _take,
    "atonc_gather": _gather,
    "atonc_gather_nd": _gather_nd,
    "atonc_lookup": _lookup,
    "atonc_curve": _curve,
    "atonc_convert": _convert,
    "atonc_unary": _unary,
    "atonc_affine": per_value(VALUE_READ + VALUE_WRITTEN + 8, 4, 2),
    "atonc_binary": _binary,
    "atonc_select": _select,
    "atonc_conv": _conv,
    "atonc_transpose_conv": _conv,
    "atonc_matmul": _matmul,
    "atonc_pack_kernels": _pack_kernels,
    "atonc_max_pool": _pool,
    "atonc_average_pool": _pool,
    "atonc_reduce": _reduce,
    "atonc_arg_extreme": _extreme,
    "atonc_softmax_8": _softmax_8,
    "atonc_softmax": per_value(3 * VALUE_READ + 2 * EXPONENTIAL + VALUE_WRITTEN + 20, 4, 3),
    "atonc_norm": _norm,
    "atonc_l2_norm": per_value(2 * VALUE_READ + VALUE_WRITTEN + 20, 4, 2),
    "atonc_resize_linear": _resize,
    "atonc_lstm": _lstm,
    "atonc_recurrent": _recurrent,
}
