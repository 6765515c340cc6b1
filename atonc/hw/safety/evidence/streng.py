"""What of a stream engine is compared with published programs; `role` is what it is for: `to CONVACC:0`."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.hw.safety.evidence.grades import Feature, Value
from atonc.hw.safety.mode_keys import mode_key
from atonc.hw.units.stream_engine import StrengConfig

ANY_VALUE: dict[str, str] = {
    "sync_source": "engine numbers do not matter: every one occurs in every role",
}
MARGIN = 64  # bytes that ST leaves between the last byte touched and the limit


def features(c: StrengConfig, port: str, memory: str) -> Iterator[Feature]:
    """`memory`: the kind of pool that the engine is in."""
    for name, role, value in _features(c, port, memory):
        yield Feature(f"STRENG {name}", role, value)


def form(c: StrengConfig) -> str:
    return f"{'write' if c.to_memory else 'read'} {'raw' if c.raw else 'raster'}"


def _features(c: StrengConfig, port: str, memory: str) -> Iterator[tuple[str, str, Value]]:
    role = form(c)
    sized = f"{role} {8 * c.element_bytes}"
    used = f"{role} {port}"
    yield "mode", "", " ".join(map(str, mode_key(c, port)))
    yield "SIZE0 SIZE1 SIZE2", role, f"{c.size0} {c.size1} {c.size2}"
    yield "SINGLE with one frame", role, f"{c.single} {int(c.frames == 1)}"
    enables = (c.illegal_config_event, c.address_limit_enabled, c.stop_prefetch, c.frame_limit_enabled, c.gap_cycles)
    yield "ILLCFG, limits, GAPCYCLES", "", " ".join(map(str, enables))
    yield "EN_OFLOW_FRM", "write" if c.to_memory else "read", str(c.overflow_event)
    yield "CACHEABLE ALLOC", f"{'write' if c.to_memory else 'read'} {memory}", f"{c.cacheable} {c.cache_allocate}"
    yield from (("frames", used, c.frames), ("frame elements", used, c.frame_elements))
    yield "elements", used, c.elements
    if port == "to CONVACC:2":
        yield "read-back frame elements", "sync" if c.sync else "no sync", c.frame_elements
    if c.raw:
        rest = (c.depth, c.pixel_offset, c.line_offset)
        yield "raster registers of a raw engine", "", " ".join(map(str, rest))
    else:
        yield from _raster(c, used)
    yield from _frames(c, role, used)
    yield "address alignment", f"{sized} {memory}", alignment(c.address)
    yield "limit margin", sized, _margin(c)


def _raster(c: StrengConfig, used: str) -> Iterator[tuple[str, str, Value]]:
    role = "write" if c.to_memory else "read"
    lines, pixels, depth = c.shape
    yield from (("raster width", role, pixels), ("raster height", role, lines), ("raster depth", role, depth))
    yield from (("pixel step", role, c.pixel_offset), ("line step", role, c.line_offset))
    bits = f"{role} {8 * c.element_bytes}"
    yield "pixel step alignment", bits, alignment(c.pixel_offset)
    yield "line step alignment", bits, alignment(c.line_offset)
    yield "pixels", used, _step(c.pixel_offset, depth * c.element_bytes)
    if lines > 1:
        yield "lines", used, _step(c.line_offset, pixels * c.pixel_offset)


def _step(step: int, size: int) -> str:
    return "packed" if step == size else "gaps" if step > size else "below its size"


def _frames(c: StrengConfig, role: str, used: str) -> Iterator[tuple[str, str, Value]]:
    yield "FRAME_RPT", role, _repeat(c)
    if c.frames > 1 and not c.continuous:
        bytes_ = c.frame_elements * c.element_bytes
        step = "same" if c.frame_offset == 0 else _step(c.frame_offset, bytes_)
        yield "frame offset", used, step
        yield "frame offset bytes", role, c.frame_offset
        yield "frame offset alignment", f"{role} {8 * c.element_bytes}", alignment(c.frame_offset)
    if c.frame_repeat:
        yield "repeat offset bytes", role, c.repeat_offset
        yield "repeat offset alignment", f"{role} {8 * c.element_bytes}", alignment(c.repeat_offset)
        yield "FRAME_RPT frames", used, c.frame_repeat
        if c.frame_repeat < c.frames:
            yield "whole turns", role, str(c.frames % c.frame_repeat == 0)
            yield "turns", used, c.frames // c.frame_repeat
    else:
        yield "FRPTOFF without FRAME_RPT", role, str(c.repeat_offset)


def _repeat(c: StrengConfig) -> str:
    """FRAME_RPT against the number of frames."""
    many = "one frame" if c.frames == 1 else "frames"
    if not c.frame_repeat:
        return f"0, {many}"
    relation = "=" if c.frame_repeat == c.frames else "<" if c.frame_repeat < c.frames else ">"
    return f"{relation}, {many}{', continuous' if c.continuous else ''}"


def alignment(value: int) -> str:
    """The largest power of two up to 16 that divides it."""
    return str(next(step for step in (16, 8, 4, 2, 1) if value % step == 0))


def _margin(c: StrengConfig) -> str:
    margin = c.address_limit - (c.span()[1] - 1)
    return "negative" if margin < 0 else "below 64" if margin < MARGIN else "64" if margin == MARGIN else "more than 64"
