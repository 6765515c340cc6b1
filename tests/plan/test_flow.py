"""Scans and line frames against bytes counted one by one; a flow goes with the tasks that it speaks of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.compiler.plan.flow import EACH_ELEMENT, EachChannel, EachWindow, LineFrames, Scan
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine, in_turns
from atonc.compiler.plan.task import EngineUse, Task, TaskGroup
from atonc.compiler.schedule.check_means import stream_of
from atonc.machine.hw.units.stream_engine import StrengConfig

PICTURE = Area.whole(6, 5, 8)


def scan(config: StrengConfig) -> Scan:
    return EngineUse("x", config).scan


def writer(picture: Area, frames: LineFrames) -> StrengConfig:
    area = picture.rows(frames.first, frames.lines).channels_from(frames.channel, frames.depth)
    return engine(area, Frames(frames.frames, frames.step), write=True)


def bytes_of(picture: Area, frames: LineFrames) -> list[int]:
    return [
        (frames.first + y) * picture.line + x * picture.pixel + frames.channel + k * frames.step + c
        for k in range(frames.frames)
        for y in range(frames.lines)
        for x in range(picture.line // picture.pixel)
        for c in range(frames.depth)
    ]


sizes = st.integers(1, 5)


@given(sizes, sizes, sizes, sizes, sizes, st.integers(0, 3), st.integers(0, 3))
def test_line_frames_are_found_again(
    lines: int, width: int, depth: int, frames: int, step: int, first: int, channel: int
) -> None:
    step = depth + step - 1
    channels = channel + (frames - 1) * step + depth
    picture = Area.whole(first + lines, width, channels)
    reference = LineFrames(first, lines, channel, depth, frames, step if frames > 1 else depth)
    found = scan(writer(picture, reference)).line_frames(picture)
    assert found is not None and bytes_of(picture, found) == bytes_of(picture, reference)


@given(sizes, sizes, sizes, sizes, sizes, sizes, st.integers(0, 40), st.integers(0, 40), st.booleans())
def test_no_other_order_is_taken_for_lines(
    lines: int, width: int, depth: int, frames: int, more: int, channels: int, step: int, first: int, turns: bool
) -> None:
    """Whatever an engine does: what is said of it are the bytes that it touches, in their order."""
    area = Area(lines, width, depth, (width + more - 1) * (depth + more - 1), depth + more - 1, first)
    config = engine(area, Frames(frames, step), write=True)
    config = in_turns(config) if turns else config
    picture = Area.whole(64, width if turns else more, depth + more - 1 if channels > 2 else channels)
    found = scan(config).line_frames(picture)
    assert found is None or bytes_of(picture, found) == stream_of(config).tolist()


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (engine(PICTURE.columns(1, 4), write=True), "some columns"),
        (engine(PICTURE.columns(0, 4), write=True), "all but the last column"),
        (contiguous(5 * 8 + 4, write=True), "a line and a half pixel"),
        (contiguous(5 * 8, write=True, offset=8), "from the middle of a line on"),
        (contiguous(5 * 8, write=True, word_bytes=2), "words of two bytes"),
        (engine(replace(PICTURE, line=80, height=3), write=True), "every other line"),
        (engine(PICTURE.channels_from(0, 4), Frames(2, 5), write=True), "channels of the next pixel"),
        (engine(PICTURE.channels_from(0, 4), Frames(2, 0), write=True), "the same lines again"),
        (contiguous(5 * 8 + 4, write=True, offset=40), "a line and a half pixel further down"),
    ],
)
def test_what_are_no_whole_lines(config: StrengConfig, why: str) -> None:
    assert scan(config).line_frames(PICTURE) is None, why


def test_words_are_no_channels() -> None:
    assert scan(contiguous(20, write=True, word_bytes=2)).line_frames(Area.whole(2, 5, 2)) is None
    assert scan(contiguous(20, write=True)).line_frames(Area.whole(2, 5, 2)) == LineFrames(0, 2, 0, 2, 1, 2)


@given(sizes, sizes, sizes, sizes, st.integers(0, 40))
def test_a_scan_ends_behind_its_last_byte(lines: int, width: int, depth: int, frames: int, step: int) -> None:
    config = engine(Area(lines, width, depth, 100, 7, 3), Frames(frames, step), write=True)
    assert scan(config).end == 1 + int(stream_of(config).max())


def test_scans_are_equal_if_their_bytes_are() -> None:
    config = engine(PICTURE.channels_from(0, 4), write=True)
    assert in_turns(config) != config and scan(in_turns(config)) == scan(config)


@pytest.mark.parametrize(
    ("window", "stride", "first", "lines", "fits"),
    [(2, 2, 0, 6, True), (2, 2, 2, 2, True), (2, 2, 1, 2, False), (2, 2, 0, 3, False), (3, 1, 0, 6, True),
     (3, 1, 0, 4, False), (2, 2, 4, 4, False)],
)  # fmt: skip
def test_lines_are_cut_where_no_window_is(window: int, stride: int, first: int, lines: int, fits: bool) -> None:
    flow = EachWindow(PICTURE, Area.whole(3, 3, 8), window, stride)
    assert flow.takes(LineFrames(first, lines, 0, 8, 1, 8)) == fits
    unseen = replace(flow, picture=PICTURE.columns(0, 4))
    assert not unseen.takes(LineFrames(first, lines, 0, 8, 1, 8))


def test_results_of_windows_lie_below_their_lines() -> None:
    flow = EachWindow(PICTURE, Area.whole(3, 2, 8), 2, 2)
    assert flow.result_of(LineFrames(2, 4, 4, 2, 2, 2)) == Area(2, 2, 2, 16, 8, 16 + 4)


@pytest.mark.parametrize(("lines", "step", "fits"), [(6, 4, True), (3, 4, False), (6, 5, False)])
def test_means_want_all_pixels_of_channels_without_gaps(lines: int, step: int, fits: bool) -> None:
    assert EachChannel(PICTURE, (6, 5)).takes(LineFrames(0, lines, 0, 4, 2, step)) == fits


def test_a_group_of_longer_tasks_no_longer_says_what_it_does() -> None:
    tasks = [Task((), title, {}, {}, ()) for title in "abc"]
    group = TaskGroup((tasks[0], tasks[1]), band=2, flow=EACH_ELEMENT)
    assert group.longer({id(tasks[2]): tasks[0]}) == group
    longer = group.longer({id(tasks[1]): tasks[2]})
    assert longer == TaskGroup((tasks[0], tasks[2]), band=2) and longer.flow is None


def test_bytes_in_a_row_are_lines_of_all_channels() -> None:
    found = scan(contiguous(3 * 40, write=True, offset=40)).line_frames(PICTURE)
    assert found == LineFrames(1, 3, 0, 8, 1, 8)
    assert found is not None and bytes_of(PICTURE, found) == np.arange(40, 160).tolist()
