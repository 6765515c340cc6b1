"""ARITH: four elementwise units. Affine A*x + B*y + C with scalar or per-element coefficients, multiply, clip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import fields
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.stream import Array, Ints, clipped, ends_of, finish, largest_of, limits_of, low_bytes, shift_right

bits = fields.declare("ARITH")

AFFINE, MIN, MAX, MULTIPLY, CLIP = 0, 1, 2, 7, 55
OP_NAMES = {AFFINE: "affine", MIN: "min", MAX: "max", MULTIPLY: "mul", CLIP: "clip"}

ROWS = 512  # entries of the coefficient memory
WINDOW_ROWS = 384  # those that the bus sees at a time
ROW_BYTES = 6  # A, B and C, of 16 bits each
MEMORY = 256  # first register index of the bus window


@dataclass(frozen=True)
class ArithConfig(fields.UnitConfig):
    KIND = "ARITH"

    operation: int = bits("CTRL.OP")
    dual_input: int = bits("CTRL.DUALIN")
    vector_a: int = bits("CTRL.COEFFA")
    vector_b: int = bits("CTRL.COEFFB")
    vector_c: int = bits("CTRL.COEFFC")
    count1: int = bits("CTRL.CNT1")
    count2: int = bits("CTRL.CNT2")
    count3: int = bits("CTRL.CNT3")
    rounded: int = bits("CTRL.ROUND")
    saturated: int = bits("CTRL.SAT")
    logical: int = bits("CTRL.LOGICALOP")
    round_mode: int = bits("CTRL.ORNDMODE")
    out_bytes: int = bits("CTRL.OBYTES")
    combine_bc: int = bits("CTRL.COMBINEBC")
    clip_out: int = bits("CTRL.CLIPOUT")
    shift_a: int = bits("SHIFT.AX")
    shift_b: int = bits("SHIFT.BY")
    shift_c: int = bits("SHIFT.C")
    shift_out: int = bits("SHIFT.RES")
    step_every: int = bits("INCCNT.INCVAL")
    reset1_every: int = bits("RSTCNT1.RSTCNT")
    reset2_every: int = bits("RSTCNT2.RSTCNT")
    reset3_every: int = bits("RSTCNT3.RSTCNT")
    a: int = bits("COEFFAC.A", signed=True)
    c: int = bits("COEFFAC.C", signed=True)
    b: int = bits("COEFFB.B", signed=True)
    offset1: int = bits("ADDROFFSET.OFFSET1", signed=True)
    offset2: int = bits("ADDROFFSET.OFFSET2", signed=True)
    offset3: int = bits("ADDROFFSET.OFFSET3", signed=True)
    step: int = bits("INCOFFSET.VAL", signed=True)
    translate: int = bits("TRANSLATEADDR.EN")
    start_row: int = bits("COEFFADDR.ADDR")
    bytes_x: int = bits("INSHIFTER.FBYTESX")
    shift_x: int = bits("INSHIFTER.FSHIFTX")
    round_x: int = bits("INSHIFTER.FROUNDX")
    saturate_x: int = bits("INSHIFTER.FSATX")
    round_mode_x: int = bits("INSHIFTER.FRNDMODEX")
    out_bytes_x: int = bits("INSHIFTER.FOBYTESX")
    bytes_y: int = bits("INSHIFTER.FBYTESY")
    shift_y: int = bits("INSHIFTER.FSHIFTY")
    round_y: int = bits("INSHIFTER.FROUNDY")
    saturate_y: int = bits("INSHIFTER.FSATY")
    round_mode_y: int = bits("INSHIFTER.FRNDMODEY")
    out_bytes_y: int = bits("INSHIFTER.FOBYTESY")
    clip_max: int = bits("CLIPRANGE.CLIPMAX", signed=True)
    clip_min: int = bits("CLIPRANGE.CLIPMIN", signed=True)
    table: bytes = field(default=b"", repr=False)  # coefficient rows (A, B, C) of int16, empty when all are scalar

    @property
    def is_vector(self) -> bool:
        return bool(self.vector_a or self.vector_b or self.vector_c)

    @property
    def turned(self) -> ArithConfig | None:
        """The same sum of two streams of bytes with its operands at the other ports; None for anything else."""
        one_way = self.is_vector or self.combine_bc or (self.bytes_x, self.bytes_y) != (1, 1)
        if self.operation != AFFINE or not self.dual_input or one_way:
            return None
        return fields.changed(self, a=self.b, b=self.a, shift_a=self.shift_b, shift_b=self.shift_a)

    def rows(self) -> NDArray[np.int16]:
        return np.frombuffer(self.table, "<i2").reshape(-1, 3)

    @fields.derived
    def filled_rows(self) -> int:
        """Up to the last one with a number."""
        filled = len(self.table.rstrip(b"\0"))
        return -(-filled // ROW_BYTES)


def reached_rows(config: ArithConfig) -> int:
    """Rows of the table that the counters reach."""
    last = -config.offset3 if config.count3 else config.reset1_every // (config.step_every + 1)
    return last % ROWS + 1


def used_rows(config: ArithConfig) -> int:
    """Every row that the counters reach: the memory still holds the numbers of earlier epochs."""
    return max(reached_rows(config), config.filled_rows)


def memory_row(register: int, translate: bool) -> tuple[int, int] | None:
    """Coefficient row and word (0: A and B, 1: C) behind a register index; None for an ordinary register."""
    slot = register - MEMORY
    if not 0 <= slot < 2 * WINDOW_ROWS:
        return None
    return slot // 2 + (0 if translate else MEMORY // 2), slot % 2


def decode(words: Mapping[int, int], table: NDArray[np.int16] | None = None) -> ArithConfig:
    config = fields.decode(ArithConfig, words)
    if not config.is_vector:
        return config
    rows = np.zeros((ROWS, 3), "<i2") if table is None else table
    return fields.changed(config, table=rows.astype("<i2").tobytes())


def encode(config: ArithConfig) -> dict[int, int]:
    """Registers only; `table_writes` gives the coefficient memory."""
    return fields.encode(config)


def row_numbers(config: ArithConfig, elements: int) -> NDArray[np.int64]:
    """Coefficient row of each element.

    The row advances by `step` every `step_every` + 1 elements; when a reset counter expires its offset is added
    instead, the highest counter wins. Counters with CNT off do not run.
    """
    position = np.arange(1, elements, dtype=np.int64)
    change = np.where(position % (config.step_every + 1) == 0, config.step, 0)
    for enabled, every, offset in (
        (config.count1, config.reset1_every, config.offset1),
        (config.count2, config.reset2_every, config.offset2),
        (config.count3, config.reset3_every, config.offset3),
    ):
        if enabled:
            change[position % (every + 1) == 0] = offset
    rows = np.empty(elements, np.int64)
    rows[:1] = config.start_row
    np.cumsum(change, out=rows[1:])
    rows[1:] += config.start_row
    return rows & (ROWS - 1)


def execute(config: ArithConfig, x: Array, y: Array | None, unit: str = "ARITH") -> Ints:
    """The output elements for flat inputs; y is cut to the length of x (readers of Y may be overlong)."""
    check(config, unit)
    x = low_bytes(x, config.bytes_x, False)
    if y is not None:
        y = low_bytes(y[: x.size], config.bytes_y, False)
        x = x[: y.size]
    if y is None and config.bytes_x == 1 and not config.is_vector:
        return _by_table(config, x, unit)
    return _compute(config, x, y, unit)


def _by_table(config: ArithConfig, x: Array, unit: str) -> Ints:
    """A scalar function of one byte: compute its 256 values once."""
    codes = np.arange(-128, 128, dtype=np.int8)
    values = _compute(config, codes, None, unit)
    result: Ints = values[x.view(np.uint8) ^ 0x80]
    return result


def _compute(config: ArithConfig, x: Array, y: Array | None, unit: str) -> Ints:
    if config.operation == CLIP:
        result: Ints = clipped(x.astype(np.int32), config.a, config.c)
    elif config.operation == AFFINE:
        result = _affine(config, x, y)
    else:
        assert y is not None  # check() has seen DUALIN
        combine = {MULTIPLY: np.multiply, MIN: np.minimum, MAX: np.maximum}[config.operation]
        result = combine(x.astype(np.int64), y.astype(np.int64))
    result = finish(result, config.shift_out, config.out_bytes, bool(config.rounded), bool(config.saturated))
    if config.clip_out:
        result = clipped(result, config.clip_min, config.clip_max)
    return result.astype({1: np.int8, 2: np.int16}.get(config.out_bytes, np.int32))


def _affine(config: ArithConfig, x: Array, y: Array | None) -> Ints:
    """((A*x) >> AX) + ((B*y) >> BY) + (C << C_SHIFT) before the output stage."""
    n = x.size
    found = _few_coefficients(config, n) or _made_coefficients(config, regular_rows(config, n), n)
    a, b, c, wide = found.a, found.b, found.c, _wide_enough(config, x, y, found)
    grid = max((a, b, c), key=lambda values: values.ndim)
    shape = (grid.shape[0], -1, grid.shape[2]) if grid.ndim == 3 else (-1,)
    result = x.reshape(shape) * a.astype(wide)
    if config.shift_a:
        result = shift_right(result, config.shift_a, bool(config.rounded))
    if y is not None:
        result += shift_right(y.reshape(shape) * b.astype(wide), config.shift_b, bool(config.rounded))
    if c.any():
        result += c.astype(wide) << (0 if config.combine_bc else config.shift_c)
    return result.reshape(-1)


def _wide_enough(config: ArithConfig, x: Array, y: Array | None, found: AffineRows) -> type[np.signedinteger]:
    """int32 where no intermediate value can leave it: judged by the types of the streams, then by their values."""
    most_a, most_b, most_c = found.largest
    rest = (most_c << (0 if config.combine_bc else config.shift_c)) + (1 << config.shift_out)
    rest += (1 << config.shift_a) + (0 if y is None else 1 << config.shift_b)
    for ends in (limits_of, ends_of):
        total = rest + largest_of(x, ends) * most_a + (0 if y is None else largest_of(y, ends) * most_b)
        if total < 1 << 31:
            return np.int32
    return np.int64


@dataclass(frozen=True, eq=False)
class AffineRows:
    """A, B and the addend: single values, per element, or [groups, 1, run] where the rows repeat regularly."""

    a: Ints
    b: Ints
    c: Ints
    largest: tuple[int, int, int]


@memoise
def _few_coefficients(config: ArithConfig, elements: int) -> AffineRows | None:
    """A program runs for several inputs; None where it is not worth the memory."""
    numbers = regular_rows(config, elements) if config.is_vector else None
    many = config.is_vector and (numbers is None or numbers.size > ROWS)
    return None if many else _made_coefficients(config, numbers, elements)


def _made_coefficients(config: ArithConfig, numbers: NDArray[np.int64] | None, elements: int) -> AffineRows:
    scalar = [np.array([v], np.int64) for v in (config.a, config.b, config.c)]
    if config.is_vector:
        rows = config.rows()[row_numbers(config, elements) if numbers is None else numbers].astype(np.int64)
        flags = (config.vector_a, config.vector_b, config.vector_c)
        scalar = [rows[..., k] if flag else scalar[k] for k, flag in enumerate(flags)]
    a, b, c = scalar
    if config.combine_bc:
        c = (b << 16) | (c & 0xFFFF)
        b = np.zeros(1, np.int64)
    for values in (a, b, c):
        values.flags.writeable = False
    return AffineRows(a, b, c, (largest_of(a), largest_of(b), largest_of(c)))


def regular_rows(config: ArithConfig, elements: int) -> NDArray[np.int64] | None:
    """The row numbers as [groups, 1, run] for the usual broadcasts: a run of rows that starts over for every pixel,
    moves on with the next group of channels and returns to the first group at the end. None when it is not so."""
    run, group = config.reset1_every + 1, config.reset2_every + 1
    period = config.step_every + 1
    if not config.count1 or run % period or elements % run:
        return None
    inner = np.arange(run) // period * config.step
    if (inner[-1] + config.offset1) % ROWS:
        return None
    if not (config.count2 or config.count3):
        return (config.start_row + inner)[None, None, :] % ROWS
    cycle = config.reset3_every + 1
    if not (config.count2 and config.count3) or group % run or elements % group or cycle % group:
        return None
    forward, groups = int(inner[-1]) + config.offset2, cycle // group
    if ((groups - 1) * forward + inner[-1] + config.offset3) % ROWS:
        return None
    starts = config.start_row + np.arange(elements // group) % groups * forward
    return (starts[:, None, None] + inner) % ROWS


def check(config: ArithConfig, unit: str) -> None:
    config.require_modelled(unit)
    if config.operation not in OP_NAMES or config.logical:
        raise fields.not_modelled(unit, "CTRL.OP", config.operation)
    if config.shift_x != 16 or config.shift_y != 16:
        raise fields.not_modelled(unit, "INSHIFTER.FSHIFT", config.shift_x | config.shift_y << 8)
    shifts = config.shift_out or config.shift_a or (config.shift_b and config.dual_input)
    if config.round_mode > 1 or (config.rounded and config.round_mode == 0 and shifts):
        raise fields.not_modelled(unit, "CTRL.ORNDMODE", config.round_mode)
    if config.bytes_x not in (1, 2) or config.out_bytes == 0 or (config.dual_input and config.bytes_y not in (1, 2)):
        raise fields.not_modelled(unit, "INSHIFTER.FBYTES", config.bytes_x | config.bytes_y << 4)
    if config.out_bytes_x < config.bytes_x or (config.dual_input and config.out_bytes_y < config.bytes_y):
        raise fields.not_modelled(unit, "INSHIFTER.FOBYTES", config.out_bytes_x | config.out_bytes_y << 4)
    if config.combine_bc and config.dual_input:
        raise fields.not_modelled(unit, "CTRL.COMBINEBC with two inputs", 1)
    if config.operation in (MULTIPLY, MIN, MAX) and not config.dual_input:
        raise fields.not_modelled(unit, "CTRL.DUALIN for this operation", 0)
