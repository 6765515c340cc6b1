"""ARITH units in the settings that public networks use, filled with coefficients."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from atonc.compiler.lower.units.affine import Affine, AffinePair, Array
from atonc.machine.hw.units.arith import AFFINE, CLIP, MULTIPLY, ROWS, WINDOW_ROWS, ArithConfig


def _widths(x: int, y: int, out: int) -> dict[str, Any]:
    return {
        **{"bytes_x": x, "out_bytes_x": x, "bytes_y": y, "out_bytes_y": y, "out_bytes": out},
        **{"rounded": 1, "saturated": 1, "round_mode": 1},
    }


def affine_unit(line: Affine, elements: int, in_bytes: int = 1) -> ArithConfig:
    """One input, C of 32 bits; coefficients per channel when there are several (channel-last streams)."""
    base = {"operation": AFFINE, "combine_bc": 1, "shift_out": line.shift, **_widths(in_bytes, 1, 1)}
    if line.a.size == 1:
        a, c = int(line.a.reshape(-1)[0]), int(line.c.reshape(-1)[0])
        return ArithConfig(**base, a=a, b=c >> 16, c=_low16(c))
    addends = line.c.copy()
    if line.a[-1] == 0 == addends[-1] and line.shift > 1:
        addends[-1] = 1  # rounds to 0; programs end a table at the last row that is not zero
    rows = np.stack([line.a, addends >> 16, _low16s(addends)], axis=1)
    return ArithConfig(**base, **_per_channel(rows, elements))


def product_unit(a: Array, elements: int) -> ArithConfig:
    """Bytes times one small integer per channel, exact in 16 bits."""
    base = {"operation": AFFINE, **_widths(1, 1, 2)}
    if a.size == 1:
        return ArithConfig(**base, a=int(a[0]))
    rows = np.stack([a, np.ones_like(a), np.zeros_like(a)], axis=1)  # B has no input: the rows are just not empty
    return ArithConfig(**base, **_per_channel(rows, elements))


def _per_channel(rows: Array, elements: int) -> dict[str, Any]:
    """The row counter runs over the channels of every pixel; all counters start over at the end of the stream."""
    channels = rows.shape[0]
    back = (1 - channels + ROWS // 2) % ROWS - ROWS // 2  # 9 bits, signed
    table = np.zeros((ROWS, 3), "<i2")
    table[:channels] = rows
    return {
        **{"vector_a": 1, "vector_b": 1, "vector_c": 1, "count1": 1, "count2": 1, "count3": 1},
        **{"step": 1, "reset1_every": channels - 1, "reset2_every": elements - 1, "reset3_every": elements - 1},
        **{"offset1": back, "offset2": 1, "offset3": back, "translate": int(channels <= WINDOW_ROWS)},
        "table": table.tobytes(),
    }


def pair_unit(pair: AffinePair, bytes_x: int = 1, bytes_y: int = 1) -> ArithConfig:
    return ArithConfig(
        operation=AFFINE,
        dual_input=1,
        a=pair.a,
        b=pair.b,
        c=pair.c,
        shift_a=pair.shift_a,
        shift_b=pair.shift_b,
        shift_c=pair.shift_c,
        shift_out=pair.shift_out,
        **_widths(bytes_x, bytes_y, pair.out_bytes),
    )


def multiply_unit() -> ArithConfig:
    """The exact product of two bytes. Its coefficients take no part in it; all public programs set them to one."""
    return ArithConfig(operation=MULTIPLY, dual_input=1, a=1, b=1, c=1, **_widths(1, 1, 2))


def clip_unit(low: int, high: int) -> ArithConfig:
    return ArithConfig(operation=CLIP, a=low, c=high, **_widths(1, 1, 1))


def saturating_steps(clip: tuple[int, int] | None) -> tuple[int, ...]:
    """What is added to codes while the upper end of int8 clips them, and then while the lower one does."""
    low, high = clip or (-128, 127)
    return (127 - high,) if low <= -128 else (127 - high, -128 - low)


def moving_units(steps: tuple[int, ...]) -> list[ArithConfig]:
    """From codes with the first of these steps added to those with the next one, and at last to codes as they are."""
    moves = (after - before for before, after in pairwise((*steps, 0)))
    return [affine_unit(Affine(np.array([1 << 14]), np.array([move << 14]), 14), 0) for move in moves]


def _low16(value: int) -> int:
    return (value + 0x8000 & 0xFFFF) - 0x8000


def _low16s(values: Array) -> Array:
    return (values + 0x8000 & 0xFFFF) - 0x8000


def edge_unit() -> ArithConfig:
    """x + 128, wrapped: uint8 codes to int8 codes and back."""
    widths = {**_widths(1, 1, 1), "rounded": 0, "saturated": 0}
    return ArithConfig(operation=AFFINE, combine_bc=1, a=1 << 14, b=32, shift_out=14, **widths)
