"""Which features of a CONVACC are compared with published programs."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.hw.safety.evidence.grades import Named
from atonc.machine.hw.safety.evidence.modes import mode
from atonc.machine.hw.safety.mode_keys import kernel_buffer
from atonc.machine.hw.units.convacc import NO_CROP, ConvaccConfig

ANY_VALUE: dict[str, str] = {}


def kernel(c: ConvaccConfig) -> str:
    stride = f"{c.stride_x}" if c.stride_x == c.stride_y else f"{c.stride_x},{c.stride_y}"
    return f"{c.kernel_width}x{c.kernel_height}/{stride}"


def machine(c: ConvaccConfig) -> str:
    """The settings by which lines and kernels are stored and multiplied."""
    special = " deep" if c.deep else " dss2" if c.dss2 else ""
    return f"{kernel(c)} simd{c.simd}{special} F{c.feature_bytes}"


def features(c: ConvaccConfig) -> Iterator[Named]:
    yield mode(c)
    inputs = (c.feature_shift, c.feature_round, c.feature_saturate, c.feature_round_mode)
    yield "FSHIFT FROUND FSAT FRNDMODE", "", _words(*inputs)
    yield from _sizes(c)
    yield from _padding(c)
    yield from _crop(c)
    yield from _sums(c)
    yield "FSUB", "unsigned" if c.features_unsigned else "signed", c.feature_offset
    yield "FSTATCNT", "stationary" if c.feature_stationary else "", c.stationary_sets


def _line_buffer(c: ConvaccConfig) -> str:
    """What decides how lines are kept: not the width of the kernel, not the stride; a kernel of one line keeps none."""
    if c.kernel_height == 1:
        return "one line"
    return f"several lines simd{c.simd}{' dss2' if c.dss2 else ''} F{c.feature_bytes}"


def _kernel_memory(c: ConvaccConfig) -> str:
    """What decides how kernels are kept: not the bytes of a feature, not the stride."""
    if c.deep or c.dss2:
        return "deep" if c.deep else "dss2"
    return f"simd{c.simd} {'one line' if c.kernel_height == 1 else 'several lines'}"


def _sizes(c: ConvaccConfig) -> Iterator[Named]:
    role = machine(c)
    height, width = c.out_size
    yield from (("B", role, c.batch), ("NR", role, c.kernels))
    yield "NR x B x KW x KH", _kernel_memory(c), kernel_buffer(c)
    yield from (("W", role, c.width), ("H", role, c.height), ("W x B", _line_buffer(c), c.line_elements))
    yield "W x B mod B", "", str(c.line_elements % max(1, c.batch))
    yield from (("output width", role, width), ("output height", role, height))


def _padding(c: ConvaccConfig) -> Iterator[Named]:
    role, batch = kernel(c), max(1, c.batch)
    sides = {"left": c.pad_left, "right": c.pad_right, "top": c.pad_top, "bottom": c.pad_bottom}
    for side, pad in sides.items():
        yield f"pad {side}", role, pad
    yield "pads left right top bottom", role, _words(*sides.values())
    columns = {"left": -(-c.frame_left // batch), "right": -(-c.frame_right // batch)}
    framed = columns | {"top": c.frame_top, "bottom": c.frame_bottom}
    if any(framed.values()):
        for side, pixels in framed.items():
            yield f"frame {side}", role, pixels
        yield "frame in whole pixels", "", str(not (c.frame_left % batch or c.frame_right % batch))
    yield "ZFBIAS", "framed" if any(framed.values()) else "", c.frame_value


def _crop(c: ConvaccConfig) -> Iterator[Named]:
    batch, role = max(1, c.batch), kernel(c)
    columns, lines = (c.crop_columns[1] - c.width, c.crop_rows[1] - c.height)
    yield from (("crop left", role, c.crop_left // batch), ("crop top", role, c.crop_top))
    yield from (("crop right", role, -columns), ("crop bottom", role, -lines))
    ends = ((c.crop_right, c.line_elements), (c.crop_bottom, c.height))
    yield "crop end behind the frame", "", str(any(end != NO_CROP and end + 1 > size for end, size in ends))
    whole = c.crop_left % batch == 0 and (c.crop_right == NO_CROP or (c.crop_right + 1) % batch == 0)
    yield "crop in whole pixels", "", str(whole)


def _sums(c: ConvaccConfig) -> Iterator[Named]:
    yield "OUTSHIFT", f"O{c.out_bytes}", c.out_shift
    yield "INSHIFT", "no sums" if c.no_sum else "sums", c.in_shift
    looped = "looped" if c.accumulator_filter else ""
    yield "AFILT TOT", looped, c.frames_per_sum
    yield "AFILT FIRST, TOT - LAST", looped, _words(c.sum_first, c.frames_per_sum - c.sum_last)
    filtered = (c.kernels_per_round, c.kernel_first, c.kernel_last) != (1, 0, 0)
    yield "KFILT TOT / NR", "filtered" if filtered else "", c.kernels_per_round // max(1, c.kernels) if filtered else 0
    if filtered:
        rest = (c.kernels_per_round % max(1, c.kernels), c.kernel_first % max(1, c.kernels))
        yield "KFILT whole sets", "", _words(*rest, c.kernel_last - c.kernel_first + 1 - c.kernels)


def _words(*values: int) -> str:
    return " ".join(map(str, values))
