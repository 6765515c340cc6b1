"""POOL units in the settings that public networks use, and how tensors are cut for them."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import POOL_CHANNELS, POOL_LINE
from atonc.machine.hw.units.pool import AVERAGE, GLOBAL_AVERAGE, MAX, PoolConfig

MOST_HEIGHT = 0xFFF
MOST_PIXELS = 5625  # of a global average, as seen
MOST_DIVIDED = 1 << 15  # pixels that a sum is divided by: beyond, the shift is one that was never seen
MOST_MULTIPLIER = (1 << 15) - 1
_USUAL_LINE, _USUAL_WIDTH, _USUAL_HEIGHT = 600, 75, 128  # of global averages, as seen
_USUAL = PoolConfig(
    dual_line=1, feature_bytes=1, feature_out_bytes=1, rounded=1, saturated=1, round_mode=1, stride_x=1, stride_y=1
)


def windows_unit(height: int, width: int, batch: int, window: int, stride: int, average: bool = False) -> PoolConfig:
    """Square windows over frames without padding. Averages are of 2x2 windows."""
    mean = {"type": AVERAGE, "multiplier": 1 << 14, "out_shift": 16} if average else {"type": MAX}
    square = {"window_x": window, "window_y": window, "stride_x": stride, "stride_y": stride}
    return changed(_USUAL, out_bytes=1, **mean, **square).on_frames(height, width, batch)


def global_unit(height: int, width: int, batch: int, divisor: int, most: int = MOST_MULTIPLIER) -> PoolConfig:
    """Sums of whole frames divided by `divisor`, with 8 fractional bits."""
    multiplier, shift = division(divisor, most)
    unit = changed(_USUAL, out_bytes=2, type=GLOBAL_AVERAGE, multiplier=multiplier, out_shift=shift)
    return unit.on_frames(height, width, batch)


def division(divisor: int, most: int = MOST_MULTIPLIER) -> tuple[int, int]:
    """Multiplier in [2^14, 2^15) and shift that divide and keep 8 fractional bits. Where the multiplier may not be so
    large, 7/8 of the quotient comes out."""
    power = 14 + (divisor - 1).bit_length()
    multiplier = _rounded(1 << power, divisor)
    if multiplier >= 1 << 15:
        power -= 1
        multiplier = _rounded(1 << power, divisor)
    return multiplier if multiplier <= most else _rounded(7 << power, 8 * divisor), power - 8


def quotient(divisor: int, most: int) -> float:
    """What part of the quotient comes out."""
    return 1.0 if division(divisor)[0] <= most else 7 / 8


def _rounded(a: int, b: int) -> int:
    return (2 * a + b) // (2 * b)


def channel_groups(channels: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(first channel, channels at a time, how often): even groups if they are not small, else a smaller last one."""
    most = min(most, POOL_CHANNELS, channels)
    even = max(n for n in range(1, most + 1) if channels % n == 0)
    if 2 * even > most:
        yield 0, even, channels // even
        return
    yield 0, most, channels // most
    if channels % most:
        yield channels // most * most, channels % most, 1


def frame_of(pixels: int, batch: int) -> tuple[int, int] | None:
    """Height and width for a global average of so many pixels, preferably of the sizes that networks have."""
    if pixels > MOST_PIXELS:
        return None
    widths = [n for n in range(min(pixels, POOL_LINE // batch), 0, -1) if pixels % n == 0]
    usual = [n for n in widths if n <= _USUAL_WIDTH and n * batch <= _USUAL_LINE and 2 <= pixels // n <= _USUAL_HEIGHT]
    for width in (*usual, *widths):
        if pixels // width <= MOST_HEIGHT:
            return pixels // width, width
    return None
