"""Questions about ARITH."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from atonc.compiler.lower.units.arith import Affine, AffinePair, affine_unit, multiply_unit, pair_unit
from atonc.compiler.plan.streams import Area, contiguous, engine
from atonc.delivery.probes.bench import ProbeBuilder
from atonc.delivery.probes.types import INPUT, OUTPUT, Probe, ProbeEpochs

_COUNT = 2048
_ROWS = 512  # of a table: all that an ARITH has
_SHIFTS = {14: "S6", 16: "S6", 22: "", 24: "", 26: ""}  # of sums, beside those that were seen: the argument for it
_WIDE = Area(1, 1, _COUNT, 2 * _COUNT, 2 * _COUNT, 0, 2)  # as many values of 16 bits


def _multiply(coefficients: int) -> ProbeEpochs:
    """Products of the two halves of the input, 16 bits each."""
    bench = ProbeBuilder(2 * _COUNT, 2 * _COUNT)
    b = bench.epoch("products")
    x, y = (b.read(INPUT, contiguous(_COUNT, offset=half * _COUNT)) for half in (0, 1))
    unit = replace(multiply_unit(), a=coefficients, b=coefficients, c=coefficients)
    b.write(b.unit(unit, x, y), OUTPUT, engine(_WIDE, write=True))
    bench.add(b)
    return bench.done()


def _affine(factor: int, addend: int, shift: int) -> ProbeEpochs:
    """Codes from values of 16 bits."""
    bench = ProbeBuilder(2 * _COUNT, _COUNT)
    unit = affine_unit(Affine(np.array([factor]), np.array([addend]), shift), _COUNT, in_bytes=2)
    b = bench.epoch("affine")
    b.write(b.unit(unit, b.read(INPUT, engine(_WIDE))), OUTPUT, contiguous(_COUNT, write=True))
    bench.add(b)
    return bench.done()


def _sum(shift: int, terms: tuple[int, int, int] = (0, 0, 0), out_bytes: int = 1) -> ProbeEpochs:
    """Codes, or values of 16 bits, from weighted sums of the two halves of the input, values of 16 bits each."""
    bench = ProbeBuilder(4 * _COUNT, out_bytes * _COUNT)
    unit = pair_unit(AffinePair(20000, -20000, 3, *terms, shift, out_bytes), 2, 2)
    b = bench.epoch("sums")
    x, y = (b.read(INPUT, engine(replace(_WIDE, offset=half * 2 * _COUNT))) for half in (0, 1))
    writer = contiguous(_COUNT, write=True) if out_bytes == 1 else engine(_WIDE, write=True)
    b.write(b.unit(unit, x, y), OUTPUT, writer)
    bench.add(b)
    return bench.done()


def _side_by_side() -> ProbeEpochs:
    """Two requantisations and a copy in one epoch."""
    bench = ProbeBuilder(5 * _COUNT, 3 * _COUNT)
    unit = affine_unit(Affine(np.array([20000]), np.array([5 << 22]), 22), _COUNT, in_bytes=2)
    b = bench.epoch("side by side")
    for half in (0, 1):
        values = b.read(INPUT, engine(replace(_WIDE, offset=half * 2 * _COUNT)))
        b.write(b.unit(unit, values), OUTPUT, contiguous(_COUNT, write=True, offset=half * _COUNT))
    copied = b.read(INPUT, contiguous(_COUNT, offset=4 * _COUNT))
    b.write(copied, OUTPUT, contiguous(_COUNT, write=True, offset=2 * _COUNT))
    bench.add(b)
    return bench.done()


def _tables(kept: bool) -> ProbeEpochs:
    """Three epochs of one ARITH: one table, a single factor, the first table again."""
    bench = ProbeBuilder(6 * _COUNT, 3 * _COUNT)
    factors, addends = bench.rng.integers(16384, 32768, _ROWS), bench.rng.integers(-20, 20, _ROWS) << 22
    table = affine_unit(Affine(factors, addends, 22), _COUNT, in_bytes=2)
    single = affine_unit(Affine(factors[:1], addends[:1], 22), _COUNT, in_bytes=2)
    for third, unit in enumerate((table, single, table)):
        b = bench.epoch("tables")
        values = b.read(INPUT, engine(replace(_WIDE, offset=third * 2 * _COUNT)))
        b.write(b.unit(unit, values), OUTPUT, contiguous(_COUNT, write=True, offset=third * _COUNT))
        bench.add(b)
    return replace(bench.done(), keep_tables=kept)


PROBES = (
    Probe(
        "control-multiply",
        "ARITH products with A = B = C = 1",
        "all 1,346 published products",
        partial(_multiply, 1),
    ),
    Probe(
        "multiply-coefficients-0",
        "ARITH products with A = B = C = 0",
        "published products write 1, 1, 1",
        partial(_multiply, 0),
        "control-multiply",
    ),
    Probe(
        "control-affine",
        "a requantisation with factor 20000 and a result shift of 22",
        "thousands of published units",
        partial(_affine, 20000, 5 << 22, 22),
    ),
    Probe(
        "affine-lowest-factor",
        "a requantisation with the factor -32768",
        "published factors of X are -128 to 32767, those of Y go down to -32768",
        partial(_affine, -32768, 3 << 22, 22),
        "control-affine",
        argument="S5",
    ),
    Probe(
        "affine-shift-24",
        "a requantisation with a result shift of 24",
        "published result shifts go up to 28",
        partial(_affine, 30000, 7 << 24, 24),
        "control-affine",
    ),
    Probe(
        "sum-16-bit-to-16-bit-shift-14",
        "a weighted sum of two streams of 16 bits, as a stream of 16 bits, with a result shift of 14",
        "published with a shift of 0 in this form, and of 18 to 20 to codes",
        partial(_sum, 14, out_bytes=2),
        "control-affine",
        argument="S6",
    ),
    *(
        Probe(
            f"sum-16-bit-shift-{shift}",
            f"a weighted sum of two streams of 16 bits with a result shift of {shift}",
            "published with 18 to 20 in this form, with up to 26 for streams of 8 bits",
            partial(_sum, shift),
            "control-affine",
            argument=argument,
        )
        for shift, argument in _SHIFTS.items()
    ),
    Probe(
        "sum-16-bit-term-shifts",
        "a weighted sum of two streams of 16 bits whose terms are shifted by 7, 5 and 9 first",
        "published with other shifts in this form",
        partial(_sum, 16, (7, 5, 9)),
        "control-affine",
    ),
    Probe(
        "chains-side-by-side",
        "two requantisations and a copy side by side in one epoch",
        "published with other chains side by side",
        _side_by_side,
        "control-affine",
        argument="S1",
    ),
    Probe(
        "control-table",
        "a table of 512 coefficients, a single one, and the table again, loaded in each epoch that uses it",
        "all 9,762 published tables are loaded in the epoch that uses them",
        partial(_tables, False),
    ),
    Probe(
        "kept-table",
        "the same, but the second use of the table relies on what the first one loaded",
        "no published program does",
        partial(_tables, True),
        "control-table",
    ),
)
