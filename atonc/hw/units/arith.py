"""ARITH: four elementwise units. Affine A*x + B*y + C with scalar or per-element coefficients, multiply, clip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from atonc.hw import fields
from atonc.hw.fixed import Ints, finish, shift_right, signed
from atonc.hw.stream import Array, low_bytes

bits = fields.declare("ARITH")

AFFINE, MIN, MAX, MULTIPLY, CLIP = 0, 1, 2, 7, 55
OP_NAMES = {AFFINE: "affine", MIN: "min", MAX: "max", MULTIPLY: "mul", CLIP: "clip"}

ROWS = 512  # entries of the coefficient memory
_MEMORY, _WINDOW = 256, 384  # first register index and number of rows of the bus window


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

    def rows(self) -> NDArray[np.int16]:
        return np.frombuffer(self.table, "<i2").reshape(-1, 3)


def memory_row(register: int, translate: bool) -> tuple[int, int] | None:
    """Coefficient row and word (0: A and B, 1: C) behind a register index; None for an ordinary register."""
    slot = register - _MEMORY
    if not 0 <= slot < 2 * _WINDOW:
        return None
    return slot // 2 + (0 if translate else _MEMORY // 2), slot % 2


def decode(words: Mapping[int, int], table: NDArray[np.int16] | None = None) -> ArithConfig:
    config = fields.decode(ArithConfig, words)
    if not config.is_vector:
        return config
    rows = np.zeros((ROWS, 3), "<i2") if table is None else table
    return fields.decode(ArithConfig, words, table=rows.astype("<i2").tobytes())


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
    return values[x.view(np.uint8) ^ 0x80]


def _compute(config: ArithConfig, x: Array, y: Array | None, unit: str) -> Ints:
    wide = x.astype(np.int64)
    if config.operation == CLIP:
        result: Ints = np.clip(wide, config.a, config.c)
    elif config.operation == MULTIPLY:
        assert y is not None
        result = wide * y
    elif config.operation in (MIN, MAX):
        assert y is not None
        result = (np.minimum if config.operation == MIN else np.maximum)(wide, y.astype(np.int64))
    else:
        result = _affine(config, wide, y)
    result = finish(result, config.shift_out, config.out_bytes, bool(config.rounded), bool(config.saturated))
    if config.clip_out:
        result = np.clip(result, config.clip_min, config.clip_max)
    return result.astype({1: np.int8, 2: np.int16}.get(config.out_bytes, np.int32))


def _affine(config: ArithConfig, x: Ints, y: Array | None) -> Ints:
    a, b, c = _coefficients(config, x.size)
    grid = a.shape
    result = (x.reshape(*grid[:-1], -1) if a.ndim > 1 else x) * a
    if config.shift_a:
        result = shift_right(result, config.shift_a, bool(config.rounded))
    if y is not None:
        term = y.astype(np.int64).reshape(result.shape) * b
        result += shift_right(term, config.shift_b, bool(config.rounded))
    result += c << config.shift_c if not config.combine_bc else c
    return result.reshape(-1)


def _coefficients(config: ArithConfig, elements: int) -> tuple[Ints, Ints, Ints]:
    """A, B and the addend, per element or as single values."""
    scalar = [np.array([v], np.int64) for v in (config.a, config.b, config.c)]
    if config.is_vector:
        rows = config.rows()[row_numbers(config, elements)].astype(np.int64)
        flags = (config.vector_a, config.vector_b, config.vector_c)
        scalar = [rows[:, k] if flag else scalar[k] for k, flag in enumerate(flags)]
    a, b, c = scalar
    if config.combine_bc:
        c = (b << 16) | (c & 0xFFFF)
        b = np.zeros(1, np.int64)
    return a, b, c


def check(config: ArithConfig, unit: str) -> None:
    config.require_modelled(unit)
    if config.operation not in OP_NAMES or config.logical:
        raise fields.not_modelled(unit, "CTRL.OP", config.operation)
    if config.shift_x != 16 or config.shift_y != 16:
        raise fields.not_modelled(unit, "INSHIFTER.FSHIFT", config.shift_x | config.shift_y << 8)
    if config.rounded and config.round_mode != 1 and config.shift_out:
        raise fields.not_modelled(unit, "CTRL.ORNDMODE", config.round_mode)
    if config.bytes_x not in (1, 2) or config.out_bytes == 0 or (config.dual_input and config.bytes_y not in (1, 2)):
        raise fields.not_modelled(unit, "INSHIFTER.FBYTES", config.bytes_x | config.bytes_y << 4)
    if config.operation in (MULTIPLY, MIN, MAX) and not config.dual_input:
        raise fields.not_modelled(unit, "CTRL.DUALIN for this operation", 0)


def combined(config: ArithConfig) -> int:
    """The scalar 32-bit addend when B and C are one number."""
    return signed(config.b << 16 | config.c & 0xFFFF, 32)
