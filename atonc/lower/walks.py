"""Nested loops over memory as stream engines.

An engine walks five loops: frames in two nested loops, lines, pixels, elements. Readers keep lines and pixels apart
from each other, writers may also store transposed; no engine steps backwards. Rasters always use the frame loop:
that is the form in which networks use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from atonc.hw.units.stream_engine import StrengConfig
from atonc.plan.streams import Area, Frames, engine, in_frames

Loop = tuple[int, int]  # count, bytes from one turn to the next

MOST = 0xFFFF  # of lines, pixels and elements in a raster


def walk(
    loops: Sequence[Loop], offset: int, *, write: bool, word: int = 1, signed: bool = False, raw: bool = False
) -> StrengConfig | None:
    """The engine for loops (outermost first; bytes, the last one contiguous if `word` is above 1), or None.

    `raw`: only frames without gaps will do.
    """
    merged = merge(loops)
    run = merged.pop()[0] if merged and merged[-1][1] == 1 else 1
    if run % word or len(merged) > 4 or any(step < 0 for _, step in merged):
        return None
    if raw:
        return _config(merged, [], run, offset, write, word, signed) if len(merged) < 2 else None
    for frames in range(max(0, len(merged) - 2), min(2, len(merged)) + 1):
        outer, body = merged[:frames], _lines(merged[frames:])
        if body_fits(body, run, word, write):
            return _config(outer, body, run, offset, write, word, signed)
    return None


def merge(loops: Sequence[Loop]) -> list[Loop]:
    """Loops of more than one turn; neighbours that are one even walk become one loop."""
    merged: list[Loop] = []
    for count, step in loops:
        if count == 1:
            continue
        if merged and merged[-1][1] == count * step:
            merged[-1] = (merged[-1][0] * count, step)
        else:
            merged.append((count, step))
    return merged


def _lines(body: list[Loop]) -> list[Loop]:
    """A loop that is too long for pixels, as lines of pixels."""
    if len(body) != 1 or body[0][0] <= MOST:
        return body
    count, step = body[0]
    width = next((n for n in range(MOST, 1, -1) if count % n == 0), count)
    return [(count // width, width * step), (width, step)]


def body_fits(body: Sequence[Loop], run: int, word: int, write: bool) -> bool:
    """Whether lines and pixels may be stepped like this."""
    if not body:
        return True
    if run // word > MOST or any(count > MOST for count, _ in body):
        return False
    pixels, pixel = body[-1]
    if pixel < run:
        return False
    if len(body) == 1:
        return pixels * pixel < 1 << 32
    line = body[0][1]
    return line >= pixels * pixel or (write and 0 < line < pixel)


def _config(
    outer: Sequence[Loop], body: Sequence[Loop], run: int, offset: int, write: bool, word: int, signed: bool
) -> StrengConfig | None:
    frames = _frames(outer)
    if not body and (len(outer) < 2 or run // word > MOST):
        if len(outer) > 1:
            return None  # a raw engine with two loops was never seen
        return engine(Area(1, 1, run, run, run, offset), frames, write=write, word_bytes=word, signed=signed)
    pixels, pixel = body[-1] if body else (1, run)
    lines, line = body[0] if len(body) > 1 else (1, max(pixels * pixel, 1))
    wide = signed or (word == 3 and not write)  # 24-bit rasters are read right aligned wherever they occur
    area = Area(lines, pixels, run, line, pixel, offset)
    return raster_loop(engine(area, frames, write=write, word_bytes=word, depth=run // word, signed=wide))


def raster_loop(config: StrengConfig) -> StrengConfig:
    """Rasters run in the frame loop, which has several turns wherever it was seen."""
    if config.raw or config.frame_repeat:
        return config
    return replace(in_frames(config), frame_repeat=in_frames(config).frames)


def _frames(outer: Sequence[Loop]) -> Frames:
    if not outer:
        return Frames()
    if len(outer) == 1:
        return Frames(*outer[0])
    return Frames(outer[1][0], outer[1][1], outer[0][0], outer[0][1])
