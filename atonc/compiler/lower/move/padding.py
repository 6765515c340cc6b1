"""Padding: borders that are filled, borders that are copied, and the identity CONVACC that pads on the way to POOL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.move.copies import fill
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.lower.units.wiring import Wiring
from atonc.machine.hw.units.convacc import ConvaccConfig, crop_end

Pads = tuple[tuple[int, int], ...]  # before and after, by axis


def pad_view(context: Context, parts: Iterable[StridedView], code: int, source: str, source_bytes: int) -> list[Wiring]:
    """Fills views with one code; `source` is any buffer with something to read."""
    return [wiring for part in parts for wiring in fill(context, part, code, source, source_bytes)]


def borders(target: StridedView, pads: Pads) -> Iterator[StridedView]:
    """What surrounds the inside of a padded view. Rows end where the next begin, so that few pieces remain."""
    rest = target
    for axis, (before, after) in enumerate(pads):
        size = rest.shape[axis]
        if before:
            yield rest.cut(axis, 0, before)
        if after:
            yield rest.cut(axis, size - after, after)
        rest = rest.cut(axis, before, size - before - after)


def inside(target: StridedView, pads: Pads) -> StridedView:
    for axis, (before, after) in enumerate(pads):
        target = target.cut(axis, before, target.shape[axis] - before - after)
    return target


def identity_pad(
    height: int, width: int, batch: int, pads: tuple[int, int, int, int], code: int
) -> tuple[ConvaccConfig, bytes]:
    """A 1x1 CONVACC with weight 1 that puts a frame of `code` around every picture, and its kernels.

    `pads`: top, left, bottom, right.
    """
    top, left, bottom, right = pads
    config = ConvaccConfig(
        no_sum=1,
        no_first_sum=1,
        simd=1,
        kernel_width=1,
        kernel_height=1,
        batch=batch,
        kernels=batch,
        stride_x=1,
        stride_y=1,
        in_shift=0,
        out_shift=0,
        round_mode=1,
        rounded=1,
        saturated=1,
        out_bytes=1,
        feature_bytes=1,
        line_elements=width * batch,
        height=height,
        crop_right=crop_end(width, batch),
        crop_bottom=crop_end(height),
        frame_left=left * batch,
        frame_right=right * batch,
        frame_top=top,
        frame_bottom=bottom,
        frame_value=code,
    )
    return config, bytes(int(i == j) for i in range(batch) for j in range(batch))
