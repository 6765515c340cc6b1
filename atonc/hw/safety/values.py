"""Values: numbers inside known modes that all public programs agree on, although the modes would allow more."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.hw.safety.registry import Finding, proven, rule
from atonc.hw.safety.view import EpochView
from atonc.hw.units import arith, pool
from atonc.hw.units.convacc import ConvaccConfig
from atonc.reasons import Severity

FAMILY = "values"
LEAST_FRAME = 2
LEAST_DEEP = {3: 32, 1: 68}  # FBYTES in deep mode -> channels
# kernel width, height and stride of windows -> (top, left, bottom, right) of SAMPLE -> units of 96 programs
WINDOW_PADDING = {
    (2, 2, 1): {(1, 1, 1, 1): 40},
    (3, 1, 1): {(0, 1, 0, 1): 8, (0, 2, 0, 0): 8},
    (3, 3, 1): {(1, 1, 1, 1): 2324, (0, 0, 0, 0): 10},
    (3, 3, 2): {(0, 0, 1, 1): 196, (1, 1, 0, 0): 222, (1, 1, 1, 1): 7, (1, 0, 1, 1): 1, (0, 0, 0, 0): 40},
    (4, 1, 1): {(0, 1, 0, 2): 1},
    (4, 3, 1): {(0, 1, 2, 2): 1, (1, 1, 1, 2): 1, (2, 1, 0, 2): 1},
    (5, 2, 1): {(0, 2, 1, 2): 130},
    (5, 2, 2): {(0, 1, 1, 2): 35, (0, 2, 1, 1): 1, (0, 2, 1, 2): 1},
    (5, 3, 1): {(2, 2, 0, 2): 130},
    (5, 3, 2): {(1, 1, 0, 2): 35, (2, 2, 0, 1): 1, (2, 2, 0, 2): 1},
    (6, 1, 1): {(0, 0, 0, 0): 5},
    (6, 3, 1): {(0, 0, 0, 0): 10},
    (6, 3, 2): {(0, 2, 2, 2): 1, (2, 2, 0, 2): 1},
    (7, 1, 2): {(0, 2, 0, 2): 1},
    (7, 3, 2): {(0, 2, 2, 2): 3, (2, 2, 0, 2): 3},
}
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


@rule(
    "V05",
    FAMILY,
    "windows are padded by as much on each side as was seen with their size and stride",
    proven(2889, "units", "3 x 3: 0 or 1; 2 on the left of 3 x 1, above 5 x 3, beside 5 x 2 and 5 x 3, and wider ones"),
    severity=Severity.UNPROVEN,
    remedy="cut the kernel otherwise, or pad in memory",
)
def window_padding(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.convaccs.items():
        if not padding_seen(c):
            pads = (c.pad_top, c.pad_left, c.pad_bottom, c.pad_right)
            yield Finding(unit, f"{c.kernel_width}x{c.kernel_height} padded top, left, bottom, right = {pads}")


def padding_seen(c: ConvaccConfig) -> bool:
    """Whether each side was seen, with whatever else on the other sides."""
    seen = WINDOW_PADDING.get((c.kernel_width, c.kernel_height, c.stride_x))
    if seen is None:
        return True  # 1 x 1, or a size that another rule complains about
    pads = (c.pad_top, c.pad_left, c.pad_bottom, c.pad_right)
    return all(min(side) <= pad <= max(side) for pad, side in zip(pads, zip(*seen, strict=True), strict=True))


@rule(
    "V06",
    FAMILY,
    f"windows of several lines run on frames of at least {LEAST_FRAME} lines and columns",
    proven(3092, "units", "a 3 x 1 convolution with stride 2 on one line never ended on a board"),
    severity=Severity.UNPROVEN,
    remedy="compute the taps of the kernel one by one, as 1 x 1 convolutions",
)
def window_frames(view: EpochView) -> Iterator[Finding]:
    for unit, c in view.convaccs.items():
        if c.kernel_height > 1 and min(c.width, c.height) < LEAST_FRAME:
            yield Finding(unit, f"{c.kernel_width}x{c.kernel_height} on a frame of {c.width}x{c.height}")
