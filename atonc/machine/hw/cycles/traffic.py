"""What a stream engine asks of the memories: bytes, 8-byte beats, jumps, and how they fall on neighbouring memories."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, TypeVar

from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.machine import secure
from atonc.machine.hw.units.stream_engine import StrengConfig


class MemoryPlace(Protocol):
    @property
    def base(self) -> int: ...
    @property
    def end(self) -> int: ...


P = TypeVar("P", bound=MemoryPlace)
Spans = tuple[tuple[P, int, int], ...]  # memories, each with its first and its one-past-last secure address


def total_bytes(engine: StrengConfig) -> int:
    return engine.frames * engine.frame_bytes


def distinct_frames(engine: StrengConfig) -> int:
    """Frames at different addresses: a loop that does not move reads the same frame again."""
    return min(engine.frames, math.prod(count for count, step in engine.frame_loops() if step))


def distinct_bytes(engine: StrengConfig) -> int:
    return distinct_frames(engine) * engine.frame_bytes


def run_bytes(engine: StrengConfig) -> int:
    """Bytes that follow each other in memory: a pixel's elements, a line, or the frame."""
    return engine.runs[0]


def beats(engine: StrengConfig) -> int:
    """Bus transfers: each run pays for the beats that it touches, given where it starts within a beat."""
    return _beats(engine.address % BUS_BYTES, engine.runs[0], engine.bus_loops)


@lru_cache(maxsize=1 << 14)
def _beats(start: int, length: int, loops: tuple[tuple[int, int], ...]) -> int:
    """Counts beats for runs of one length; remembered, since engines of most layers walk alike."""
    starts = [0] * BUS_BYTES  # how many runs start at each position within a beat
    starts[start] = 1
    for count, step in loops:
        starts = _spread(starts, count, step) if step else [runs * count for runs in starts]
    return sum(runs * ((position + length + BUS_BYTES - 1) // BUS_BYTES) for position, runs in enumerate(starts))


def jumps(engine: StrengConfig) -> int:
    """Frames that do not begin where the one before ended."""
    size = engine.frame_bytes
    loops = engine.frame_loops()
    if len(loops) == 1:
        return max(0, engine.frames - 1) if loops[0][1] != size else 0
    (turns, outer), (count, inner) = loops
    within = engine.frames - turns if inner != size else 0
    between = turns - 1 if outer - (count - 1) * inner != size else 0
    return within + between


def secure_spans(places: Iterable[P]) -> Spans[P]:
    """Where memories begin and end at their secure addresses."""
    return tuple((place, secure(place.base), secure(place.base) + place.end - place.base) for place in places)


def shares(engine: StrengConfig, spans: Spans[P]) -> list[tuple[P, float]]:
    """Which part of the engine's traffic each memory gets; buffers may lie across neighbouring ones."""
    low, high = engine.span()
    high += secure(low) - low
    low = secure(low)
    size = max(1, high - low)
    return [
        (place, part / size)
        for place, base, end in spans
        if (part := (high if high < end else end) - (low if low > base else base)) > 0  # min and max take their time
    ]


def _spread(starts: list[int], count: int, step: int) -> list[int]:
    """Start positions within a beat after a loop of `count` equal steps: they repeat after eight."""
    turns, rest = divmod(count, BUS_BYTES)
    spread = [0] * BUS_BYTES
    for k in range(BUS_BYTES):
        times = turns + (k < rest)
        for position, runs in enumerate(starts):
            spread[(position + k * step) % BUS_BYTES] += runs * times
    return spread
