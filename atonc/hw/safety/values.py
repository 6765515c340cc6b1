"""Values: numbers inside known modes that all public programs agree on, although the modes themselves would allow more."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.hw.safety.registry import Finding, proven, rule
from atonc.hw.safety.view import EpochView
from atonc.hw.units import arith
from atonc.reasons import Severity

FAMILY = "values"


@rule(
    "V01",
    FAMILY,
    "an ARITH that multiplies has A = B = C = 1",
    proven(1346, "units"),
    severity=Severity.UNPROVEN,
    remedy="set the three coefficients to 1; they take no part in the product",
)
def product_coefficients(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.ariths.items():
        if c.operation == arith.MULTIPLY and (c.a, c.b, c.c) != (1, 1, 1):
            yield Finding(unit, f"A, B, C = {c.a}, {c.b}, {c.c}", "1, 1, 1")
