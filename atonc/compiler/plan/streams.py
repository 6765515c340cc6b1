"""Stream engines in the forms that networks use: contiguous frames and rasters of channel groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.stream_engine import FARTHEST_PIXEL, LARGEST_RASTER, USUAL_LINE, StrengConfig, is_seen

Loop = tuple[int, int]  # count, bytes from one turn to the next

_SIZES = {1: (8, 0, 0), 2: (8, 8, 0), 3: (8, 8, 8)}


@dataclass(frozen=True)
class Area:
    """A picture in a buffer, channel last: steps in bytes, so that slices and interleaved parts are areas too."""

    height: int
    width: int
    channels: int
    line: int  # bytes from a line to the next
    pixel: int  # bytes from a pixel to the next
    offset: int = 0  # of the first element
    element_bytes: int = 1

    @staticmethod
    def whole(height: int, width: int, channels: int, element_bytes: int = 1) -> Area:
        pixel = channels * element_bytes
        return Area(height, width, channels, width * pixel, pixel, 0, element_bytes)

    @property
    def contiguous(self) -> bool:
        pixel = self.channels * self.element_bytes
        return self.pixel == pixel and self.line == self.width * pixel

    def channels_from(self, first: int, count: int) -> Area:
        offset = self.offset + first * self.element_bytes
        return Area(self.height, self.width, count, self.line, self.pixel, offset, self.element_bytes)

    def rows(self, first: int, count: int) -> Area:
        offset = self.offset + first * self.line
        return Area(count, self.width, self.channels, self.line, self.pixel, offset, self.element_bytes)

    def columns(self, first: int, count: int) -> Area:
        return replace(self, width=count, offset=self.offset + first * self.pixel)


@dataclass(frozen=True)
class Frames:
    """Several frames: `inner` of them `inner_step` bytes apart, all that `outer` times, `outer_step` bytes apart."""

    inner: int = 1
    inner_step: int = 0
    outer: int = 1
    outer_step: int = 0

    @property
    def count(self) -> int:
        return self.inner * self.outer


ONE = Frames()

_USUAL = StrengConfig(
    gap_cycles=0, illegal_config_event=1, address_limit_enabled=1, stop_prefetch=1, frame_limit_enabled=1
)


@lru_cache(maxsize=1 << 12)  # the forms of a layer, and layers that look alike, walk alike
def engine(
    area: Area,
    frames: Frames = ONE,
    *,
    write: bool = False,
    signed: bool = False,
    word_bytes: int = 0,
    depth: int = 0,
    looped: bool = False,
) -> StrengConfig:
    """An engine on an area. `signed`: extend the sign for a wider consumer. `word_bytes`: pack that many bytes into a
    word (then `depth` words make a pixel of a raster). `looped`: program the loop even if it turns once."""
    size = word_bytes or area.element_bytes
    base = changed(
        _USUAL,
        to_memory=int(write),
        single=int(frames.count == 1),
        size0=_SIZES[size][0],
        size1=_SIZES[size][1],
        size2=_SIZES[size][2],
        align_right=int(signed),
        sign_extend=int(signed),
        address=area.offset,
        frames=frames.count,
    )
    shaped = _raw(base, area, size) if area.contiguous and not depth else _raster(base, area, depth or area.channels)
    return _looped(shaped, frames, looped)


def _raw(base: StrengConfig, area: Area, size: int) -> StrengConfig:
    bytes_per_frame = area.height * area.width * area.channels * area.element_bytes
    elements = -(-bytes_per_frame // size)
    return changed(base, raw=1, fsize_low=elements & 0xFFFF, fsize_high=elements >> 16)


def _raster(base: StrengConfig, area: Area, depth: int) -> StrengConfig:
    given = Raster((area.height, area.line), (area.width, area.pixel), depth)
    body = merged([given.lines, given.pixels])
    found = given if given.seen(base.to_memory) else shape_raster(body, depth, base.element_bytes, base.to_memory)
    raster = found or given
    (lines, line), (pixels, pixel) = raster.lines, raster.pixels
    return changed(
        base,
        fsize_low=pixels,
        fsize_high=lines,
        depth=raster.depth,
        pixel_offset_low=pixel & 0xFFFF,
        pixel_offset_high=pixel >> 16,
        line_offset_low=line & 0xFFFF,
        line_offset_high=line >> 16 & 0xFFFF,
    )


@dataclass(frozen=True)
class Raster:
    lines: Loop
    pixels: Loop
    depth: int  # elements of a pixel

    def seen(self, write: int) -> bool:
        """Whether published programs count and step as far."""
        (lines, line), (pixels, pixel) = self.lines, self.pixels
        return is_seen((lines, pixels, self.depth), line, pixel, write)


def shape_raster(body: Sequence[Loop], depth: int, size: int, write: int) -> Raster | None:
    """The loops around `depth` elements as a raster like those that were seen; None if there is none."""
    _, width, most = LARGEST_RASTER
    loops = list(body)
    if depth > most:  # pixels without gaps
        part = _divisor(depth, most)
        loops, depth = [*loops, (depth // part, part * size)], part
    if len(loops) < 2:
        count, step = loops[0] if loops else (1, depth * size)
        if step > FARTHEST_PIXEL[write]:
            loops = [(count, step), (1, depth * size)]
        else:  # lines without gaps
            pixels = _divisor(count, min(width, max(1, USUAL_LINE[write] // max(step, 1))))
            loops = [(count // pixels, pixels * step), (pixels, step)]
    found = Raster(loops[0], loops[1], depth)
    return found if len(loops) == 2 and found.seen(write) else None


def merged(loops: Iterable[Loop]) -> list[Loop]:
    """Loops of more than one turn; neighbours that are one even walk become one loop."""
    found: list[Loop] = []
    for count, step in loops:
        if count == 1:
            continue
        if found and found[-1][1] == count * step:
            found[-1] = (found[-1][0] * count, step)
        else:
            found.append((count, step))
    return found


def _divisor(number: int, most: int) -> int:
    """The largest one up to a limit."""
    return next(n for n in range(min(number, most), 0, -1) if number % n == 0)


def _looped(config: StrengConfig, frames: Frames, looped: bool) -> StrengConfig:
    if frames.outer == 1 and not looped:
        return changed(config, frame_offset=frames.inner_step)
    return changed(
        config, frame_offset=frames.inner_step, frame_repeat=frames.inner, repeat_offset=frames.outer_step
    )


def in_frames(config: StrengConfig) -> StrengConfig:
    """A raster of one frame as several frames of lines or pixels: the same walk, and the form that copies, pools and
    readers of ARITH were seen in."""
    if config.raw or config.frames > 1:
        return config
    lines, pixels, _ = config.shape
    count, step = (lines, config.line_offset) if lines > 1 else (pixels, config.pixel_offset)
    frames = next((n for n in range(2, count + 1) if count % n == 0), 1)
    lines, pixels = (lines // frames, pixels) if lines > 1 else (1, pixels // frames)
    if lines == 1:  # a step that is never taken
        line = max(config.line_offset, pixels * config.pixel_offset)
        config = changed(config, line_offset_low=line & 0xFFFF, line_offset_high=line >> 16)
    return changed(
        config,
        fsize_high=lines,
        fsize_low=pixels,
        frames=frames,
        single=int(frames == 1),
        frame_offset=step * (count // frames),
        frame_repeat=frames,
    )


def in_turns(config: StrengConfig) -> StrengConfig:
    """The same walk as several frames in a loop."""
    if config.raw:
        return config
    found = in_frames(config)
    return changed(found, frame_repeat=found.frame_repeat or found.frames)


def as_reader(config: StrengConfig) -> StrengConfig:
    """Reads what the writer writes, in the same order. Rasters are read in the frame loop."""
    return in_turns(changed(config, to_memory=0))


def contiguous(size_bytes: int, *, write: bool = False, word_bytes: int = 1, offset: int = 0) -> StrengConfig:
    """One frame of bytes in a row."""
    return engine(
        Area(1, 1, size_bytes, size_bytes, size_bytes, offset), write=write, word_bytes=word_bytes
    )


def with_idle_steps(config: StrengConfig) -> StrengConfig:
    """Steps that a writer never takes, as all published programs set them: to the next frame behind a single one, to
    the next turn behind the only one."""
    if not config.to_memory:
        return config
    run = (config.frame_elements if config.raw else config.depth) * config.element_bytes
    if config.frames == 1:
        config = changed(config, frame_offset=run)
    if not config.raw and config.frame_repeat == config.frames:
        config = changed(config, repeat_offset=config.elements * config.element_bytes)
    return config
