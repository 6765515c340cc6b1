"""Values: numbers inside known modes that all public programs agree on, where the evidence grades them too kindly.

What else is never seen of single values, rule E01 finds in the data itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.base.reasons import Evidence, Severity
from atonc.machine.hw.limits import LEAST_PLAIN, MOST_RARE_SHIFT, MOST_TABLE_SHIFT
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, proven, rule
from atonc.machine.hw.units import arith
from atonc.machine.hw.units.arith import ArithConfig

_LOWEST = -(1 << 15)


@rule(
    "V04",
    f"1 x 1 units that sum have at least {LEAST_PLAIN} channels",
    proven(8700, "units", "one channel occurs in copies with padding only"),
    severity=Severity.UNPROVEN,
    remedy="give the units more channels each, and use fewer of them",
)
def summed_channels(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        if c.kernel_width * c.kernel_height > 1 or c.out_bytes == 1 or c.simd == 0:
            continue  # windows, and copies with padding
        if c.batch < LEAST_PLAIN:
            yield SafetyFinding(unit, f"{c.batch} channels", f">= {LEAST_PLAIN}")


@rule(
    "V09",
    f"coefficients of an ARITH are above {_LOWEST}, shifts behind its tables at most {MOST_TABLE_SHIFT}",
    Evidence(
        20393,
        20397,
        "units",
        "A from -128 on, B and C too where they are no halves of one number; from 16 bits to a byte two tables have a "
        "shift of 24, one 34 and one 35 (ST 4.0.0, st_yolo_x_480, tinyv8_320 and st_yolo_d_256 of Foahh/fyp-firmware "
        "46391825; the latter two ran on a board)",
    ),
    severity=Severity.UNPROVEN,
    remedy="halve the coefficients and the shift",
)
def arith_coefficients(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.ariths.items():
        lowest = int(c.rows()[: arith.reached_rows(c), 0].min(initial=0)) if c.vector_a else c.a
        if lowest == _LOWEST:
            yield SafetyFinding(unit, f"A = {_LOWEST}", f"above {_LOWEST}")
        if c.is_vector and c.shift_out > MOST_TABLE_SHIFT:
            rare = Severity.NOTE if _is_rare_shift(c) else None
            yield SafetyFinding(unit, f"RES = {c.shift_out} behind a table", f"<= {MOST_TABLE_SHIFT}", rare)


def _is_rare_shift(c: ArithConfig) -> bool:
    form = c.operation, c.dual_input, c.bytes_x, c.out_bytes
    return form == (arith.AFFINE, 0, 2, 1) and c.shift_out <= MOST_RARE_SHIFT
