"""Kernels of 5x5 as public networks compute them: three rows in one unit, two in another, each rounded by itself.

Five columns need no cutting, and padding of two pixels was seen with such windows only. The lower unit reads the whole
picture as well and leaves out the lines that none of its windows sees.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.lower.conv.chains import FeatureMode, as_seen, unit_config
from atonc.compiler.lower.conv.kernel_parts import WIDEST, WINDOW, Part, axis_of, part_of
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area
from atonc.machine.hw.limits import WINDOWS
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig

MOST_BATCH = 3  # channels of a frame
MOST_KERNELS = {simd: sizes.kernels for simd, sizes in WINDOWS.items()}

SUM = ArithConfig(
    dual_input=1, a=1, b=1, bytes_x=2, out_bytes_x=2, bytes_y=2, out_bytes_y=2, out_bytes=2, rounded=1, saturated=1,
    round_mode=1,
)  # fmt: skip


def wide_parts(layer: ConvLayer) -> tuple[Part, ...]:
    """The two parts, or none where the kernel is not of that kind."""
    size, stride = layer.weights.shape[1:3], layer.stride[0]
    if size != (WIDEST, WIDEST) or layer.stride not in ((1, 1), (2, 2)) or layer.dilation != (1, 1):
        return ()
    if layer.op.kind != "conv" or layer.ring is not None or layer.weights.min() < -128 or layer.weights.max() > 127:
        return ()
    parts = []
    for taps in (slice(0, WINDOW), slice(WINDOW, WIDEST)):
        high = taps.stop - taps.start
        rows = axis_of(layer.area.height, taps.start - layer.padding[0], 1, high, stride, layer.out.height)
        columns = axis_of(layer.area.width, -layer.padding[1], 1, WIDEST, stride, layer.out.width)
        if rows is None or columns is None:
            return ()
        part = part_of(layer.area, layer.weights[:, taps], rows, columns, stride)
        below = layer.area.height - rows.first - rows.count
        parts.append(replace(part, cropped=(rows.first, below), group=(taps.start // WINDOW, 0)))
    whole = [(WINDOW, WIDEST), (WIDEST - WINDOW, WIDEST)]
    return tuple(parts) if [part.window for part in parts] == whole else ()


def frame(part: Part) -> Area:
    """What the unit reads: the area and the lines around it that it leaves out."""
    above, below = part.cropped
    if not (above or below):
        return part.area
    taller = replace(part.area, height=part.area.height + above + below)
    return replace(taller, offset=part.area.offset - above * part.area.line)


def side_by_side(
    parts: tuple[Part, ...], mode: FeatureMode, batch: int, kernels: int
) -> tuple[ConvaccConfig, ...] | None:
    """The units, if both were seen with these settings."""
    if mode.deep or batch > MOST_BATCH or kernels > MOST_KERNELS[mode.simd]:
        return None
    found = tuple(as_seen(_config(part, mode, batch, kernels)) for part in parts)
    return tuple(config for config in found if config is not None) if None not in found else None


def _config(part: Part, mode: FeatureMode, batch: int, kernels: int) -> ConvaccConfig:
    """Padding beyond what a window can hold at its edge is a frame around the picture, as drivers set it up."""
    rows, columns = part.window
    top, left, bottom, right = (min(p, k - 1) for p, k in zip(part.padding, (rows, columns) * 2, strict=True))
    above, below = part.cropped
    height = part.area.height + above + below
    return replace(
        unit_config(part, mode, batch, kernels),
        pad_top=top,
        pad_left=left,
        pad_bottom=bottom,
        pad_right=right,
        frame_top=part.padding[0] - top,
        frame_left=(part.padding[1] - left) * batch,
        frame_bottom=part.padding[2] - bottom,
        frame_right=(part.padding[3] - right) * batch,
        height=height,
        crop_top=above,
        crop_bottom=height - below - 1,
    )


def joined(b: TaskBuilder, sums: list[str]) -> str:
    """The sum of what both units give, in 16 bits."""
    return b.unit(SUM, *sums)
