"""Operators that only the passes make: tables, shifted edges, gains and offsets per channel."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.ops.activation import fused_activation
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.values import OpCall, Real
from atonc.machine.base.errors import ModelError

TABLE_SIZE = 256


def lookup(codes: Array, table: Array) -> Array:
    """`table` holds the results for the codes -128 .. 127."""
    return table[codes.astype(np.int64) + 128]


@computes("table")
def table(call: OpCall) -> list[Real]:
    """Any function of int8 codes: attribute `table`, 256 codes of the output, or values where it is real."""
    entries = np.asarray(call.attrs["table"], np.float64)
    if entries.shape != (TABLE_SIZE,) or call.arg(0).tensor.dtype != "int8":
        raise ModelError("a table maps 256 int8 codes", where=call.op.name)
    found = lookup(call.arg(0).codes, entries)
    return [found if call.out.is_float else (found - call.out.zero_point) * call.out.scale]


@computes("recode")
def recode(call: OpCall) -> list[Real]:
    """The same codes in another format: what a kernel gives that looks at codes only; an activation limits them."""
    codes = call.arg(0).codes.astype(np.float64)
    return [fused_activation((codes - call.out.zero_point) * call.out.scale, call)]


@computes("uint8_to_int8", "int8_to_uint8")
def shift_edge(call: OpCall) -> list[Real]:
    """The same real values: the scale stays, code and zero point move by 128."""
    return [call.arg(0).real]


@computes("affine")
def affine(call: OpCall) -> list[Real]:
    """x * gain + offset; gain and offset are real constants, one value or one per channel (last axis)."""
    gain, offset = call.arg(1).real, call.arg(2).real
    return [call.arg(0).real * gain + offset]
