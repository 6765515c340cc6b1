"""Which features of each kind of unit are compared with published programs.

The discrete settings of a unit are one word: a mode was seen as a whole or it was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from operator import attrgetter

import numpy as np

from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.four_bits import BITS
from atonc.machine.hw.limits import PREFETCH_BYTES
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence.grades import Feature, Named
from atonc.machine.hw.safety.mode_keys import broadcast, field_names, kernel_buffer, mode_key
from atonc.machine.hw.units.activ import FUNCTION, ActivConfig
from atonc.machine.hw.units.arith import AFFINE, CLIP, MULTIPLY, ROWS, WINDOW_ROWS, ArithConfig
from atonc.machine.hw.units.convacc import NO_CROP, ConvaccConfig
from atonc.machine.hw.units.pool import TYPE_NAMES, PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

MODE = "mode"


def mode(config: UnitConfig, port: str = "") -> tuple[str, str, str]:
    return MODE, "", ",".join(map(str, mode_key(config, port)))


def difference(feature: str, word: str, seen: Iterable[str]) -> str:
    """What sets a mode apart from the most similar one that was seen: the settings of that one."""
    mine = word.split(",")
    near = max((other.split(",") for other in seen), key=lambda other: sum(map(str.__eq__, mine, other)))
    triples = zip(field_names(feature.removesuffix(f" {MODE}")), mine, near, strict=True)
    return "only with " + ", ".join(f"{name} = {other}" for name, own, other in triples if own != other)


_NAMES = {AFFINE: "AFFINE", MULTIPLY: "MUL", CLIP: "CLIP"}


_ARITH_SETTINGS = attrgetter(*(f.name for f in fields(ArithConfig) if f.name != "table"))


def arith_likeness(c: ArithConfig) -> tuple[object, ...]:
    """What the features depend on: of a table only how far its numbers reach."""
    return (*_ARITH_SETTINGS(c), _extremes(c) if c.is_vector else ())


def operation(c: ArithConfig) -> str:
    name = _NAMES.get(c.operation, str(c.operation))
    return f"{name}{' dual' if c.dual_input else ''}"


def arith_features(c: ArithConfig) -> Iterator[Named]:
    yield mode(c)
    inputs = (c.shift_x, c.shift_y, c.round_y, c.saturate_y, c.round_mode_x, c.round_mode_y)
    yield "LOGICALOP, shifts and rounding of inputs", "", _words(c.logical, *inputs)
    yield from _coefficients(c)
    role = f"{operation(c)} X{c.bytes_x}{f' Y{c.bytes_y}' if c.dual_input else ''}"
    yield from (("SHIFT AX", role, c.shift_a), ("SHIFT BY", role, c.shift_b), ("SHIFT C", role, c.shift_c))
    yield "SHIFT RES", f"{role} O{c.out_bytes}", c.shift_out
    yield from _coefficient_walk(c)
    if c.clip_out or c.operation == CLIP:
        role = f"{operation(c)}{' CLIPOUT' if c.clip_out else ''}"
        yield from (("CLIPMIN", role, c.clip_min), ("CLIPMAX", role, c.clip_max))
    else:
        yield "CLIPRANGE unused", "", _words(c.clip_min, c.clip_max)


def _coefficients(c: ArithConfig) -> Iterator[Named]:
    if c.operation == MULTIPLY:
        yield "A B C", operation(c), _words(c.a, c.b, c.c)
        return
    role = f"{operation(c)} X{c.bytes_x}"
    if not c.is_vector:
        yield from (("A", role, c.a), ("B", role, c.b), ("C", role, c.c))
        return
    for letter, least, most in zip("ABC", *_extremes(c), strict=True):
        yield f"{letter} of a table", role, least
        yield f"{letter} of a table", role, most


@memoise
def _extremes(c: ArithConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The least and the greatest of each column of the table, as far as it is in use."""
    rows = c.rows()[: table_rows(c)]
    return (tuple(rows.min(axis=0).tolist()), tuple(rows.max(axis=0).tolist())) if len(rows) else ((0,) * 3,) * 2


def table_rows(c: ArithConfig) -> int:
    """Rows of coefficients in use."""
    if c.count3:
        return -c.offset3 % ROWS + 1
    return c.reset1_every + 1 if c.step else 1


def _coefficient_walk(c: ArithConfig) -> Iterator[Named]:
    """How the coefficient row follows the elements."""
    role = broadcast(c)
    switches = (c.vector_a, c.vector_b, c.vector_c, c.count1, c.count2, c.count3)
    yield "COEFF and CNT switches", role, _words(*switches, c.step_every, c.step, c.start_row)
    if not c.is_vector:
        rest = (c.reset1_every, c.reset2_every, c.reset3_every, c.offset1, c.offset2, c.offset3)
        yield "counters unused", "", _words(*rest, c.translate)
        return
    batch = c.reset1_every + 1
    back = (c.offset1 + c.reset1_every) % ROWS
    yield "OFFSET1 + RSTCNT1, OFFSET2", role, _words(back, c.offset2)
    yield "coefficient rows", role, table_rows(c)
    size = "more than" if table_rows(c) > WINDOW_ROWS else "at most"
    yield "TRANSLATEADDR", f"{size} {WINDOW_ROWS} rows", str(c.translate)
    if not c.count3:
        yield "RSTCNT2, RSTCNT3, OFFSET3", role, _words(c.reset2_every, c.reset3_every, c.offset3)
        return
    yield from (("batch", role, batch), ("pixels", role, (c.reset2_every + 1) // batch))
    whole = ((c.reset2_every + 1) % batch, (c.reset3_every + 1) % (c.reset2_every + 1), table_rows(c) % batch)
    yield "whole batches, groups, rows", role, _words(*(int(bool(rest)) for rest in whole))
    groups = (c.reset3_every + 1) // (c.reset2_every + 1) == -(-table_rows(c) // batch)
    yield "as many groups as rows ask for", role, str(groups)


def _words(*values: int) -> str:
    return " ".join(map(str, values))


def kernel_of(c: ConvaccConfig) -> str:
    stride = f"{c.stride_x}" if c.stride_x == c.stride_y else f"{c.stride_x},{c.stride_y}"
    return f"{c.kernel_width}x{c.kernel_height}/{stride}"


def convacc_machine(c: ConvaccConfig) -> str:
    """The settings by which lines and kernels are stored and multiplied."""
    special = " deep" if c.deep else " dss2" if c.dss2 else ""
    return f"{kernel_of(c)} simd{c.simd}{special} F{c.feature_bytes}"


def convacc_features(c: ConvaccConfig) -> Iterator[Named]:
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
    role = convacc_machine(c)
    height, width = c.out_size
    yield from (("B", role, c.batch), ("NR", role, c.kernels))
    yield "NR x B x KW x KH", _kernel_memory(c), kernel_buffer(c)
    yield from (("W", role, c.width), ("H", role, c.height), ("W x B", _line_buffer(c), c.line_elements))
    yield "W x B mod B", "", str(c.line_elements % max(1, c.batch))
    yield from (("output width", role, width), ("output height", role, height))


def _padding(c: ConvaccConfig) -> Iterator[Named]:
    role, batch = kernel_of(c), max(1, c.batch)
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
    batch, role = max(1, c.batch), kernel_of(c)
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


def activ_features(c: ActivConfig) -> Iterator[Named]:
    yield mode(c)
    yield "FSHIFT FRNDMODE", "", f"{c.feature_shift} {c.feature_round_mode}"
    role = "function" if c.type == FUNCTION else "threshold"
    yield "PARAM FUNC PARAM2", role, f"{c.parameter} {c.normalise} {c.parameter2}"
    yield from (("OUTSHIFT", role, c.out_shift), ("BSHIFT", role, c.shift_b), ("CSHIFT", role, c.shift_c))
    yield "BWIDTH", role, c.index_bits
    if c.type == FUNCTION:
        yield from _activ_tables(c)


def _activ_tables(c: ActivConfig) -> Iterator[Named]:
    selectors = np.frombuffer(c.rom0, np.uint8)[: 1 << c.index_bits].astype(int)
    inner, base = selectors >> 6, selectors & 63
    used = int((base + (1 << inner)).max(initial=0))
    yield from (("most inner bits", "", int(inner.max(initial=0))), ("segments", "", used))
    rows = np.frombuffer(c.rom1, "<i2").reshape(-1, 3)[:used]
    for number, letter in enumerate("ABC"):
        yield f"{letter} of a table", "table", int(rows[:, number].min(initial=0))
        yield f"{letter} of a table", "table", int(rows[:, number].max(initial=0))


def pool_machine(c: PoolConfig) -> str:
    name = TYPE_NAMES.get(c.type, str(c.type))
    if c.is_global:
        return name
    stride = f"{c.stride_x}" if c.stride_x == c.stride_y else f"{c.stride_x},{c.stride_y}"
    return f"{name} {c.window_x}x{c.window_y}/{stride}"


def _lines(c: PoolConfig) -> str:
    """How many lines a window needs at a time."""
    return "global" if c.is_global else f"{c.window_y} lines"


def pool_features(c: PoolConfig) -> Iterator[Named]:
    role, batch = pool_machine(c), max(1, c.batch)
    width = c.line_elements // batch
    yield mode(c)
    inputs = (c.feature_shift, c.feature_round, c.feature_saturate, c.feature_out_bytes, c.feature_round_mode)
    yield "inputs, CROPEN, ORNDMODE", "", " ".join(map(str, (*inputs, c.crop_enable, c.round_mode)))
    yield "pads", "", f"{c.pad_top} {c.pad_bottom} {c.pad_left} {c.pad_right}"
    yield from (("B", role, c.batch), ("W", role, width), ("H", role, c.height), ("W x B", _lines(c), c.line_elements))
    yield "W x B mod B", "", str(c.line_elements % batch)
    yield from (("MULVAL", role, c.multiplier), ("OUTSHIFT", role, c.out_shift))
    crop = (c.crop_left, c.line_elements - 1 - c.crop_right, c.crop_top, c.height - 1 - c.crop_bottom)
    yield "crop left right top bottom", "", " ".join(map(str, crop))
    yield "OUTDIMS - expected", role, _out_dims(c, width)


def _out_dims(c: PoolConfig, width: int) -> str:
    """Against what the frame, window and stride give; against the frame itself where the whole frame is one window."""
    if c.is_global:
        return f"{c.out_width - width} {c.out_height - c.height}"
    wide = (width - c.window_x) // max(1, c.stride_x) + 1
    tall = (c.height - c.window_y) // max(1, c.stride_y) + 1
    return f"{c.out_width - wide} {c.out_height - tall}"


# ----------------------------------------------------------------------------------------------------------------------
# Which features of a stream engine are compared with published programs; `port` is what it is for: `to CONVACC:0`.
#
# How an engine counts and steps through memory does not depend on the unit at the other end of the switch, so counts
# and steps are judged by direction and form (raw or raster). What the unit could notice (length of a frame that is read
# back, whether frames are read again) is judged by port.

ANY_VALUE = {  # fields of an engine that are not judged, or not always, each with the reason
    "address": "its alignment and pool are judged; memory planning chooses the address itself",
    "sync_source": "engine numbers do not matter: every one occurs in every role",
    "frame_offset": "judged where a second frame follows; else ST programs have arbitrary values in it",
    "repeat_offset": "judged where a second turn follows; else ST programs have arbitrary values in it",
}
READ_BACK = "to CONVACC:2"
_SIZES = "SIZE0 SIZE1 SIZE2"
NARROW = Feature(f"STRENG {_SIZES}", "read raw", f"{BITS} 0 0")  # all that kernels of 4 bits have and no other engine
NARROW_DEEP = Feature(f"STRENG {_SIZES}", "read raw", f"{BITS} {BITS} {BITS}")  # three of them to a word
DECIPHERS = Feature("STRENG cipher", "read", "on")  # what `--encrypt-weights` rests on
_ALIGNMENTS = (16, 8, 4, 2, 1)


_STRENG_SETTINGS = attrgetter(
    *(one.name for one in fields(StrengConfig) if one.name not in ("address", "address_limit"))
)


def streng_likeness(c: StrengConfig) -> tuple[object, ...]:
    """What the features depend on: engines that differ only in where they are have it in common."""
    return (*_STRENG_SETTINGS(c), alignment(c.address), _margin(c))


def direction(c: StrengConfig) -> str:
    return "write" if c.to_memory else "read"


def engine_form(c: StrengConfig) -> str:
    return f"{direction(c)} {'raw' if c.raw else 'raster'}"


def streng_features(c: StrengConfig, port: str, memory: str) -> Iterator[Named]:
    """`memory`: the kind of pool that the engine is in."""
    role, sized = engine_form(c), f"{engine_form(c)} {8 * c.element_bytes}"
    yield mode(c, port)
    yield _SIZES, role, f"{c.size0} {c.size1} {c.size2}"
    yield "LSBMODE SIGNEXT", direction(c), f"{c.align_right} {c.sign_extend}"
    yield "SINGLE with one frame", role, f"{c.single} {int(c.frames == 1)}"
    enables = (c.illegal_config_event, c.address_limit_enabled, c.stop_prefetch, c.frame_limit_enabled, c.gap_cycles)
    yield "ILLCFG, limits, GAPCYCLES", "", " ".join(map(str, enables))
    yield "EN_OFLOW_FRM", direction(c), str(c.overflow_event)
    yield "CACHEABLE ALLOC", f"{direction(c)} {memory}", f"{c.cacheable} {c.cache_allocate}"
    if c.ciphers:
        yield "cipher", direction(c), "on"  # never off: then it is every published engine
    yield "frames", role, c.frames
    if port == READ_BACK:
        yield "read-back frame elements", "sync" if c.sync else "no sync", c.frame_elements
    yield from _raw(c) if c.raw else _raster(c)
    yield from _frames(c, port)
    yield "address alignment", sized, alignment(c.address)
    yield "limit behind the last byte", sized, _margin(c)


def _raw(c: StrengConfig) -> Iterator[Named]:
    yield "elements of a raw frame", "", c.frame_elements
    yield "raster registers of a raw engine", "", f"{c.depth} {c.pixel_offset} {c.line_offset}"


def _raster(c: StrengConfig) -> Iterator[Named]:
    role = direction(c)
    lines, pixels, depth = c.shape
    yield from (("raster width", "", pixels), ("raster height", "", lines), ("raster depth", "", depth))
    yield from (("pixel step", role, c.pixel_offset), ("line step", role, c.line_offset))
    bits = f"{role} {8 * c.element_bytes}"
    yield "pixel step alignment", bits, alignment(c.pixel_offset)
    yield "pixels", role, _step(c.pixel_offset, depth * c.element_bytes)
    if lines > 1:
        yield "line step alignment", bits, alignment(c.line_offset)
        yield "lines", role, _step(c.line_offset, pixels * c.pixel_offset)


def _step(step: int, size: int) -> str:
    return "packed" if step == size else "gaps" if step > size else "below its size"


def _frames(c: StrengConfig, port: str) -> Iterator[Named]:
    role, bits = engine_form(c), f"{engine_form(c)} {8 * c.element_bytes}"
    yield "FRAME_RPT", role, _repeat(c)
    size = c.frame_bytes
    if c.frames > 1 and not c.continuous:
        yield "frame after frame", f"{role} {port}" if c.to_memory else role, _follows(c.frame_offset, size)
        yield "frame offset", direction(c), c.frame_offset
        yield "frame offset alignment", bits, alignment(c.frame_offset)
    elif c.to_memory:
        run = (c.frame_elements if c.raw else c.depth) * c.element_bytes
        yield "FOFFSET without a second frame", role, _size(c.frame_offset, run)
    if 0 < c.frame_repeat < c.frames:
        yield "repeat offset", direction(c), c.repeat_offset
        yield "repeat offset alignment", bits, alignment(c.repeat_offset)
        yield "frames in a turn", direction(c), c.frame_repeat
        yield "turns", direction(c), c.frames // c.frame_repeat
        yield "whole turns", role, str(c.frames % c.frame_repeat == 0)
    elif c.to_memory or not c.frame_repeat:
        used = "one turn" if c.frame_repeat else "no turns"
        yield "FRPTOFF without a second turn", f"{role}, {used}", _size(c.repeat_offset, c.frames * size)


def _follows(offset: int, size: int) -> str:
    return "same" if offset == 0 else _step(offset, size)


def _size(value: int, size: int) -> str:
    return "0" if value == 0 else "its size" if value == size else "other"


def _repeat(c: StrengConfig) -> str:
    """FRAME_RPT against the number of frames."""
    many = "one frame" if c.frames == 1 else "frames"
    if not c.frame_repeat:
        return f"0, {many}"
    relation = "=" if c.frame_repeat == c.frames else "<" if c.frame_repeat < c.frames else ">"
    return f"{relation}, {many}{', continuous' if c.continuous else ''}"


def alignment(value: int) -> int:
    """The largest power of two up to 16 that divides it."""
    return next(step for step in _ALIGNMENTS if value % step == 0)


def _margin(c: StrengConfig) -> str:
    margin = c.address_limit - (c.span()[1] - 1)
    return "negative" if margin < 0 else "below 64" if margin < PREFETCH_BYTES else "64 or more"


def any_value() -> dict[str, dict[str, str]]:
    """Fields that are not judged, or not always, by kind of unit, each with the reason."""
    return {kind: ANY_VALUE if kind == "STRENG" else {} for kind in ("STRENG", "CONVACC", "ARITH", "ACTIV", "POOL")}
