"""Values: numbers inside known modes that all public programs agree on, although the modes would allow more."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.hw.safety.registry import Finding, proven, rule
from atonc.hw.safety.view import EpochView
from atonc.hw.units import arith, pool
from atonc.reasons import Severity

FAMILY = "values"
LEAST_DEEP = {3: 32, 1: 68}  # FBYTES in deep mode -> channels
_SINGLE_RASTERS = {"to CONVACC:0": 1, "from ARITH": 0}  # role of an engine -> FRAME_RPT


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


@rule(
    "V02",
    FAMILY,
    "OUTDIMS of a global average is one more than the frame in both directions",
    proven(195, "units"),
    severity=Severity.UNPROVEN,
    remedy="set OUTDIMS to width + 1 and height + 1; what comes out is one pixel all the same",
)
def global_average_size(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.poolings.items():
        wanted = (c.line_elements // max(1, c.batch) + 1, c.height + 1)
        if c.type == pool.GLOBAL_AVERAGE and (c.out_width, c.out_height) != wanted:
            yield Finding(unit, f"OUTDIMS {c.out_width}x{c.out_height}", f"{wanted[0]}x{wanted[1]}")


@rule(
    "V03",
    FAMILY,
    "a raster of one frame is read for a CONVACC with FRAME_RPT = 1, or written behind an ARITH with FRAME_RPT = 0",
    proven(188, "engines", "170 readers, 18 writers; all other rasters have several frames"),
    severity=Severity.UNPROVEN,
    remedy="write without a loop behind an ARITH; elsewhere cut the frame into several, line by line",
)
def single_rasters(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.engines.items():
        if c.raw or c.frames != 1:
            continue
        role = view.role(unit)
        if c.frame_repeat != _SINGLE_RASTERS.get(role):
            yield Finding(unit, f"one raster frame {role}, FRAME_RPT = {c.frame_repeat}", "several frames")


@rule(
    "V04",
    FAMILY,
    f"deep mode sums at least {LEAST_DEEP[3]} channels of packed frames, {LEAST_DEEP[1]} of packed pixels",
    proven(1731, "units"),
    severity=Severity.UNPROVEN,
    remedy="use plain 1 x 1 units for fewer channels, or one deep unit for channels that were spread over several",
)
def deep_channels(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.convaccs.items():
        least = LEAST_DEEP.get(c.feature_bytes, 0)
        if c.deep and c.batch < least:
            yield Finding(unit, f"{c.batch} channels with FBYTES = {c.feature_bytes}", f">= {least}")
