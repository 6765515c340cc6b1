"""Engines in the forms that networks use."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.hw.units import stream_engine
from atonc.plan.streams import Area, Frames, engine, in_frames


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
