"""Values: numbers inside known modes that all public programs agree on, although the modes would allow more."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.hw.limits import (
    LEAST_DEEP,
    LEAST_PLAIN,
    LEAST_READ_BACK,
    MOST_TABLE_SHIFT,
    frame_seen,
    most_pooled,
    padding_seen,
)
from atonc.hw.safety.registry import Finding, proven, rule
from atonc.hw.safety.view import EpochView
from atonc.hw.units import arith, pool
from atonc.hw.units.arith import ArithConfig
from atonc.reasons import Severity

FAMILY = "values"
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
    f"1 x 1 units sum at least {LEAST_PLAIN} channels, in deep mode {LEAST_DEEP[3]} of packed frames and "
    f"{LEAST_DEEP[1]} of packed pixels",
    proven(8700, "units"),
    severity=Severity.UNPROVEN,
    remedy="use plain 1 x 1 units for fewer channels, or one deep unit for channels that were spread over several",
)
def summed_channels(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.convaccs.items():
        if c.kernel_width * c.kernel_height > 1 or c.out_bytes == 1 or c.simd == 0:
            continue  # windows, and copies with padding
        least = LEAST_DEEP.get(c.feature_bytes, 0) if c.deep else LEAST_PLAIN
        if c.batch < least:
            yield Finding(unit, f"{c.batch} channels, DEEPMODE = {c.deep}, FBYTES = {c.feature_bytes}", f">= {least}")


@rule(
    "V05",
    FAMILY,
    "windows are padded by as much on each side as was seen with their size and stride",
    proven(3218, "units", "3 x 3: 0 or 1; 2 on the left of 3 x 1, above 5 x 3, beside 5 x 2 and 5 x 3, and wider ones"),
    severity=Severity.UNPROVEN,
    remedy="cut the kernel otherwise, or pad in memory",
)
def window_padding(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.convaccs.items():
        if not padding_seen(c):
            pads = (c.pad_top, c.pad_left, c.pad_bottom, c.pad_right)
            yield Finding(unit, f"{c.kernel_width}x{c.kernel_height} padded top, left, bottom, right = {pads}")


@rule(
    "V06",
    FAMILY,
    "windows of several lines run on frames of at least 2 lines and columns; of 5 columns: 5, with stride 2: 10",
    proven(3195, "units", "a 3 x 1 convolution with stride 2 on one line never ended on a board"),
    severity=Severity.UNPROVEN,
    remedy="compute the taps of the kernel one by one, as 1 x 1 convolutions, or pad in memory",
)
def window_frames(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.convaccs.items():
        if c.kernel_height > 1 and not frame_seen(c):
            yield Finding(unit, f"{c.kernel_width}x{c.kernel_height} on a frame of {c.width}x{c.height}")


@rule(
    "V07",
    FAMILY,
    f"frames of sums that return through memory have at least {LEAST_READ_BACK} elements",
    proven(1332, "readers"),
    severity=Severity.UNPROVEN,
    remedy="let smaller sums return through the switch (GEN1SUM)",
)
def read_back_frames(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.readers.items():
        if view.role(unit) == "to CONVACC:2" and c.frame_elements < LEAST_READ_BACK:
            yield Finding(unit, f"frames of {c.frame_elements} elements", f">= {LEAST_READ_BACK}")


@rule(
    "V08",
    FAMILY,
    "maxima of 3 x 3, or of 2 x 2 with stride 1, are taken of one channel at a time",
    proven(137, "units"),
    severity=Severity.UNPROVEN,
    remedy="set the batch to 1 and read channel by channel",
)
def maximum_channels(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.poolings.items():
        square = c.window_x == c.window_y
        if c.type == pool.MAX and square and c.batch > most_pooled(c.window_x, c.stride_x):
            yield Finding(unit, f"{c.batch} channels with {c.window_x}x{c.window_y} and stride {c.stride_x}", "1")


@rule(
    "V09",
    FAMILY,
    f"coefficients of an ARITH are above -32768, tables have several rows and shifts up to {MOST_TABLE_SHIFT}",
    proven(18601, "units", "A from -128 on, B and C too where they are no halves of one number"),
    severity=Severity.UNPROVEN,
    remedy="halve the coefficients and the shift; use scalar coefficients for one channel",
)
def arith_coefficients(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.ariths.items():
        rows = used_rows(c)
        lowest = int(c.rows()[:rows, 0].min(initial=0)) if c.vector_a else c.a
        if lowest == -(1 << 15):
            yield Finding(unit, "A = -32768", "-32767..32767")
        if c.is_vector and c.count3 and rows < 2:
            yield Finding(unit, "a table of one row per channel", "2..512 rows")
        if c.is_vector and c.shift_out > MOST_TABLE_SHIFT:
            yield Finding(unit, f"RES = {c.shift_out} behind a table", f"<= {MOST_TABLE_SHIFT}")


def used_rows(c: ArithConfig) -> int:
    """Rows of the table that the counters reach."""
    last = -c.offset3 if c.count3 else c.reset1_every // (c.step_every + 1)
    return last % arith.ROWS + 1


@rule(
    "V10",
    FAMILY,
    f"TRANSLATEADDR is 1 behind tables of up to {arith.WINDOW_ROWS} rows, 0 behind longer ones",
    proven(7571, "units"),
    severity=Severity.UNPROVEN,
    remedy="write the rows behind the first 384 last, and leave the window there",
)
def table_window(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.ariths.items():
        if c.is_vector and c.translate != (used_rows(c) <= arith.WINDOW_ROWS):
            yield Finding(unit, f"TRANSLATEADDR = {c.translate} with {used_rows(c)} rows")
