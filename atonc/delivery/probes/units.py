"""Questions about ARITH and POOL."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from atonc.compiler.lower.units.arith import Affine, AffinePair, affine_unit, multiply_unit, pair_unit
from atonc.compiler.lower.units.pool import global_unit, windows_unit
from atonc.compiler.plan.streams import Area, contiguous, engine
from atonc.delivery.probes.bench import INPUT, OUTPUT, Probe, ProbeBuilder, ProbeEpochs

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
    return bench.add(b).done()


def _affine(factor: int, addend: int, shift: int) -> ProbeEpochs:
    """Codes from values of 16 bits."""
    unit = affine_unit(Affine(np.array([factor]), np.array([addend]), shift), _COUNT, in_bytes=2)
    bench = ProbeBuilder(2 * _COUNT, _COUNT)
    return bench.chain("affine", engine(_WIDE), contiguous(_COUNT, write=True), unit).done()


def _sum(shift: int, terms: tuple[int, int, int] = (0, 0, 0), out_bytes: int = 1) -> ProbeEpochs:
    """Codes, or values of 16 bits, from weighted sums of the two halves of the input, values of 16 bits each."""
    bench = ProbeBuilder(4 * _COUNT, out_bytes * _COUNT)
    unit = pair_unit(AffinePair(20000, -20000, 3, *terms, shift, out_bytes), 2, 2)
    b = bench.epoch("sums")
    x, y = (b.read(INPUT, engine(replace(_WIDE, offset=half * 2 * _COUNT))) for half in (0, 1))
    writer = contiguous(_COUNT, write=True) if out_bytes == 1 else engine(_WIDE, write=True)
    b.write(b.unit(unit, x, y), OUTPUT, writer)
    return bench.add(b).done()


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
    return bench.add(b).done()


def _tables(kept: bool) -> ProbeEpochs:
    """Three epochs of one ARITH: one table, a single factor, the first table again."""
    bench = ProbeBuilder(6 * _COUNT, 3 * _COUNT)
    factors, addends = bench.rng.integers(16384, 32768, _ROWS), bench.rng.integers(-20, 20, _ROWS) << 22
    table = affine_unit(Affine(factors, addends, 22), _COUNT, in_bytes=2)
    single = affine_unit(Affine(factors[:1], addends[:1], 22), _COUNT, in_bytes=2)
    for third, unit in enumerate((table, single, table)):
        reader = engine(replace(_WIDE, offset=third * 2 * _COUNT))
        bench.chain("tables", reader, contiguous(_COUNT, write=True, offset=third * _COUNT), unit)
    return replace(bench.done(), keep_tables=kept)


ARITH = (
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
        "published with a shift of 0 in this configuration, and of 18 to 20 to int8",
        partial(_sum, 14, out_bytes=2),
        "control-affine",
        argument="S6",
    ),
    *(
        Probe(
            f"sum-16-bit-shift-{shift}",
            f"a weighted sum of two streams of 16 bits with a result shift of {shift}",
            "published with 18 to 20 in this configuration, with up to 26 for streams of 8 bits",
            partial(_sum, shift),
            "control-affine",
            argument=argument,
        )
        for shift, argument in _SHIFTS.items()
    ),
    Probe(
        "sum-16-bit-term-shifts",
        "a weighted sum of two streams of 16 bits whose terms are shifted by 7, 5 and 9 first",
        "published with other shifts in this configuration",
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
        "no ST program does",
        partial(_tables, True),
        "control-table",
    ),
)

# ---------------------------------------------------------------------------------------------------------------- POOL

_SIDE = 10


def _global_average(out_width: int, out_height: int) -> ProbeEpochs:
    """Means of a frame of eight channels, with 8 fractional bits."""
    unit = replace(global_unit(_SIDE, _SIDE, 8, _SIDE * _SIDE), out_width=out_width, out_height=out_height)
    reader, writer = contiguous(_SIDE * _SIDE * 8), engine(Area(1, 1, 8, 16, 16, 0, 2), write=True)
    return ProbeBuilder(_SIDE * _SIDE * 8, 16).chain("global average", reader, writer, unit).done()


def _maximum(batch: int, height: int = _SIDE, width: int = _SIDE) -> ProbeEpochs:
    """3x3 windows."""
    unit = windows_unit(height, width, batch, 3, 1)
    given, out = height * width * batch, unit.out_height * unit.out_width * batch
    return ProbeBuilder(given, out).chain("maximum", contiguous(given), contiguous(out, write=True), unit).done()


POOL = (
    Probe(
        "control-global-average",
        "a global average whose OUTDIMS are the input's size + 1",
        "all published global averages",
        partial(_global_average, _SIDE + 1, _SIDE + 1),
    ),
    Probe(
        "global-average-outdims-1",
        "a global average whose OUTDIMS are 1 x 1",
        "published ones write the input's size + 1",
        partial(_global_average, 1, 1),
        "control-global-average",
    ),
    Probe(
        "control-max-pool-3x3",
        "maxima of 3x3 windows, one channel at a time",
        "all 127 published ones",
        partial(_maximum, 1),
    ),
    Probe(
        "max-pool-3x3-batch-8",
        "maxima of 3x3 windows, 8 channels at a time",
        "published 3x3 maxima take one channel at a time; those of 2x2 take 8",
        partial(_maximum, 8),
        "control-max-pool-3x3",
    ),
    *(
        Probe(
            f"max-pool-3x3-{height}x{width}",
            f"maxima of 3x3 windows over frames of {height}x{width}, one channel at a time",
            "published 3x3 frames are smaller; those of 2x2 go up to 224x224, and 3x3 keeps one line more",
            partial(_maximum, 1, height, width),
            "control-max-pool-3x3",
            argument="S3",
        )
        for height, width in ((10, 224), (224, 10), (112, 112))
    ),
)
