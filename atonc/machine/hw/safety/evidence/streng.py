"""Which features of a stream engine are compared with published programs; `port` is what it is for: `to CONVACC:0`.

How an engine counts and steps through memory does not depend on the unit at the other end of the switch, so counts and
steps are judged by direction and form (raw or raster). What the unit could notice (length of a frame that is read back,
whether frames are read again) is judged by port.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter

from atonc.machine.hw.four_bits import BITS
from atonc.machine.hw.limits import PREFETCH_BYTES
from atonc.machine.hw.safety.evidence.grades import Feature, Named
from atonc.machine.hw.safety.evidence.modes import mode
from atonc.machine.hw.units.stream_engine import StrengConfig

ANY_VALUE = {
    "address": "its alignment and pool are judged; the address itself is where the allocator found room",
    "sync_source": "engine numbers do not matter: every one occurs in every role",
    "frame_offset": "judged where a second frame follows; else readers of published programs leave anything in it",
    "repeat_offset": "judged where a second turn follows; else readers of published programs leave anything in it",
}
READ_BACK = "to CONVACC:2"
_SIZES = "SIZE0 SIZE1 SIZE2"
NARROW = Feature(f"STRENG {_SIZES}", "read raw", f"{BITS} 0 0")  # all that kernels of 4 bits have and no other engine
NARROW_DEEP = Feature(f"STRENG {_SIZES}", "read raw", f"{BITS} {BITS} {BITS}")  # three of them to a word
DECIPHERS = Feature("STRENG cipher", "read", "on")  # what `--encrypt-weights` rests on
_ALIGNMENTS = (16, 8, 4, 2, 1)


_SETTINGS = attrgetter(*(f.name for f in fields(StrengConfig) if f.name not in ("address", "address_limit")))


def likeness(c: StrengConfig) -> tuple[object, ...]:
    """What the features depend on: engines that differ only in where they are have it in common."""
    return (*_SETTINGS(c), alignment(c.address), _margin(c))


def direction(c: StrengConfig) -> str:
    return "write" if c.to_memory else "read"


def form(c: StrengConfig) -> str:
    return f"{direction(c)} {'raw' if c.raw else 'raster'}"


def features(c: StrengConfig, port: str, memory: str) -> Iterator[Named]:
    """`memory`: the kind of pool that the engine is in."""
    role, sized = form(c), f"{form(c)} {8 * c.element_bytes}"
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
    role, bits = form(c), f"{form(c)} {8 * c.element_bytes}"
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
