"""The few things that units do to numbers, written down a second time and as simply as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from atonc.compiler.lower.elementwise.tables import FunctionTable
    from atonc.compiler.lower.units.arith import Affine, AffinePair

Ints = NDArray[np.int64]
CODES: Ints = np.arange(-128, 128, dtype=np.int64)


def ints(values: NDArray[Any]) -> Ints:
    return np.asarray(values).astype(np.int64)


def shifted(values: Ints, shift: int) -> Ints:
    """Divided by 2^shift, to the nearest integer, ties away from zero."""
    half = (1 << shift) // 2
    return np.sign(values) * ((np.abs(values) + half) >> shift)


def limited(values: Ints, bits: int) -> Ints:
    return np.clip(values, -(1 << bits - 1), (1 << bits - 1) - 1)


def clipped(values: Ints, clip: tuple[int, int] | None) -> Ints:
    return values if clip is None else np.clip(values, *clip)


def line(rule: Affine, x: NDArray[Any]) -> Ints:
    """Channels last where there are several coefficients."""
    return limited(shifted(rule.a * ints(x) + rule.c, rule.shift), 8)


def pair(rule: AffinePair, x: NDArray[Any], y: NDArray[Any]) -> Ints:
    total = shifted(rule.a * ints(x), rule.shift_a) + shifted(rule.b * ints(y), rule.shift_b)
    return limited(shifted(total + (rule.c << rule.shift_c), rule.shift_out), 8 * rule.out_bytes)


def looked_up(table: NDArray[Any], x: NDArray[Any]) -> Ints:
    return ints(table)[ints(x) + 128]


def table_codes(table: FunctionTable) -> Ints:
    """All 256 codes from the segments: A*x*x + (B << SB)*x + (C << SC), shifted and limited."""
    found = np.zeros(256, np.int64)
    shifts, cell = table.shifts, 256 // len(table.cuts)
    for number, (cut, rows) in enumerate(zip(table.cuts, table.rows, strict=True)):
        width = cell >> cut
        for k, (a, b, c) in enumerate(rows):
            first = number * cell + k * width
            x = CODES[first : first + width]
            total = a * x * x + (b << shifts.b) * x + (c << shifts.c)
            found[first : first + width] = limited(shifted(total, shifts.out), 8)
    return found
