"""Rasters stay as small as those of public networks, and walk the same bytes in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.views import walk
from atonc.compiler.lower.units.wiring import require_seen
from atonc.compiler.plan.streams import Area, Frames, engine, in_frames, shape_raster
from atonc.machine.hw.units import stream_engine
from tests.hw import scalar_models as scalar


def places(area: Area) -> Iterator[int]:
    for line in range(area.height):
        for pixel in range(area.width):
            first = area.offset + line * area.line + pixel * area.pixel
            yield from range(first, first + area.channels)


AREAS = {
    "a long line": Area(1, 4002, 3, 4002 * 5, 5),
    "a wide picture": Area(3, 2560, 2, 2560 * 8, 8, 16),
    "a few pixels far apart": Area(1, 3, 2, 3 * 200_000, 200_000),
    "many pixels far apart": Area(1, 40, 2, 40 * 40_000, 40_000),
    "a slice of many channels": Area(2, 10, 384, 10 * 700, 700),
    "one pixel": Area(1, 1, 1000, 1000, 1000, 3),
    "pixels apart": Area(1, 20, 300, 20 * 310, 310),
}


@pytest.mark.parametrize("name", AREAS)
@pytest.mark.parametrize("write", [False, True])
def test_large_areas_become_seen_rasters(name: str, write: bool) -> None:
    config = engine(AREAS[name], write=write)
    assert require_seen(config) is config
    assert list(scalar.engine_addresses(config)) == list(places(AREAS[name]))


def test_what_no_raster_walks_is_refused() -> None:
    config = engine(Area(5, 2111, 3, 2111 * 4 + 9, 4))  # a prime number of pixels in lines with gaps
    assert config.shape == (5, 2111, 3)
    with pytest.raises(Refusal, match="5 x 2111 x 3"):
        require_seen(config)


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3, 7, 521, 600, 2200]), st.integers(0, 40)), max_size=2),
    st.sampled_from([1, 3, 128, 130, 131, 700]),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_walks_keep_to_the_loops(outer: list[tuple[int, int]], run: int, write: bool) -> None:
    """Loops of (count, gap) around a run of bytes."""
    assume(run * prod(count for count, _ in outer) < 20_000)
    loops, reach = [(run, 1)], run
    for count, gap in reversed(outer):
        loops.insert(0, (count, reach + gap))
        reach = count * (reach + gap)
    config = walk(loops, 7, write=write)
    wanted = [7]
    for count, step in loops:
        wanted = [place + k * step for place in wanted for k in range(count)] if count > 1 else wanted
    if config is None:
        return
    require_seen(config)
    assert list(scalar.engine_addresses(config)) == wanted


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 3), st.booleans())
@settings(max_examples=100)
def test_shapes_are_within_those_seen(count: int, depth: int, size: int, write: bool) -> None:
    found = shape_raster([(count, depth * size + 1)] if count > 1 else [], depth, size, write)
    if found is not None:
        assert found.seen(write)
        assert found.lines[0] * found.pixels[0] * found.depth == count * depth


@pytest.mark.parametrize("size, frames", [((6, 5), 2), ((7, 4), 7), ((1, 9), 3), ((1, 5), 5), ((9, 1), 3)])
def test_one_frame_as_several_is_the_same_walk(size: tuple[int, int], frames: int) -> None:
    config = engine(Area(*size, channels=3, line=64, pixel=7, offset=11))
    several = in_frames(config)
    memory = np.random.default_rng(0).integers(0, 256, 1024).astype(np.uint8)
    assert (several.frames, several.frame_repeat, several.single) == (frames, frames, 0)
    assert several.span() == config.span()
    expected, found = (stream_engine.read(c, memory, 0).flat() for c in (config, several))
    np.testing.assert_array_equal(found, expected)


def test_frames_and_runs_stay_as_they_are() -> None:
    several, run = engine(Area(4, 4, 2, 64, 4), Frames(3, 2)), engine(Area.whole(4, 4, 2))
    assert in_frames(several) == several and in_frames(run) == run
