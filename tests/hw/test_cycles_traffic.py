"""Bytes, beats and jumps of stream engines against slow enumeration of every address."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.units.stream_engine import StrengConfig, frame_addresses
from tests.hw import cycles_epochs as e

EXAMPLES = settings(max_examples=200, deadline=None)


@st.composite
def engines(draw) -> StrengConfig:
    size = draw(st.integers(1, 3))
    depth, pixels, lines = draw(st.integers(1, 20)), draw(st.integers(1, 5)), draw(st.integers(1, 5))
    pixel = depth * size + draw(st.sampled_from([0, 0, 1, 5, 8]))
    line = pixels * pixel + draw(st.sampled_from([0, 0, 3, 16]))
    repeat = draw(st.integers(0, 3))
    frames = draw(st.integers(1, 4)) * max(1, repeat)
    raw = draw(st.integers(0, 1))
    return StrengConfig(
        raw=raw, continuous=raw and draw(st.integers(0, 1)), size0=8, size1=8 * (size > 1), size2=8 * (size > 2),
        address=draw(st.integers(0x3420_0000, 0x3420_0010)), fsize_low=depth if raw else pixels,
        fsize_high=0 if raw else lines, depth=depth, pixel_offset_low=pixel, line_offset_low=line,
        frame_offset=draw(st.integers(0, 60)), frame_repeat=repeat, repeat_offset=draw(st.integers(0, 90)),
        frames=frames, frame_limit_enabled=1,
    )  # fmt: skip


def run_starts(engine: StrengConfig) -> tuple[list[int], int]:
    """Address of every run, and its length."""
    lines, pixels, depth = engine.shape
    line, pixel, size = engine.steps
    starts, run = [], depth * size
    for frame in frame_addresses(engine).tolist():
        pixel_starts = [frame + y * line + x * pixel for y in range(lines) for x in range(pixels)]
        if engine.raw:
            starts.append(frame)
        elif pixel != depth * size:
            starts += pixel_starts
        elif line != pixels * pixel:
            starts += pixel_starts[::pixels]
            run = pixels * pixel
        else:
            starts.append(frame)
            run = lines * line
    return [engine.address + start for start in starts], run


@EXAMPLES
@given(engines())
def test_beats_are_those_that_the_runs_touch(engine: StrengConfig) -> None:
    starts, run = run_starts(engine)
    assert traffic.run_bytes(engine) == run
    assert traffic.beats(engine) == sum((start + run - 1) // 8 - start // 8 + 1 for start in starts)


@EXAMPLES
@given(engines())
def test_jumps_are_frames_that_start_elsewhere(engine: StrengConfig) -> None:
    size = engine.frame_elements * engine.element_bytes
    assert traffic.jumps(engine) == int((np.diff(frame_addresses(engine)) != size).sum())


@EXAMPLES
@given(engines())
def test_bytes_and_shares(engine: StrengConfig) -> None:
    assert traffic.distinct_bytes(engine) <= traffic.total_bytes(engine)
    assert abs(sum(share for _, share in traffic.shares(engine, traffic.secure_spans(e.POOLS[:5]))) - 1) < 1e-9


def test_a_frame_read_again_counts_once_as_distinct() -> None:
    engine = e.again(e.RAM, 100, frames=3, times=4)
    assert (traffic.total_bytes(engine), traffic.distinct_bytes(engine)) == (1200, 300)
    assert traffic.jumps(engine) == 3


def test_a_buffer_across_two_banks_is_shared_by_length() -> None:
    parts = traffic.shares(e.raw(e.RAM2 - 100, 400), traffic.secure_spans(e.POOLS[:5]))
    assert [(pool.name, share) for pool, share in parts] == [("npuRAM3", 0.25), ("npuRAM4", 0.75)]


def test_the_non_secure_alias_is_the_same_memory() -> None:
    parts = traffic.shares(e.raw(e.RAM - 0x1000_0000, 64), traffic.secure_spans(e.POOLS[:5]))
    assert [(pool.name, share) for pool, share in parts] == [("npuRAM3", 1.0)]


def test_a_last_turn_that_is_cut_short() -> None:
    engine = e.raw(e.RAM, 8, 5, continuous=0, frame_offset=8, frame_repeat=3, repeat_offset=0)
    assert traffic.beats(engine) == 5
    assert traffic.jumps(engine) == 1
