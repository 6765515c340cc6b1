"""How two engines lie to each other, against a list of every byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.safety.evidence.epochs import (
    ONE_CHAIN,
    Relation,
    distance,
    of_copy,
    reader_and_writer,
    relation,
    shorter_run,
)
from atonc.machine.hw.units.stream_engine import StrengConfig, frame_addresses
from tests.hw.safety_parts import NPU_RAM3, writer


def touched(config: StrengConfig) -> set[int]:
    lines, pixels, depth = config.shape
    line_step, pixel_step, element_step = config.steps
    return {
        config.address + int(frame) + line * line_step + pixel * pixel_step + element * element_step + byte
        for frame in frame_addresses(config)
        for line in range(lines)
        for pixel in range(pixels)
        for element in range(depth)
        for byte in range(config.element_bytes)
    }


def by_listing(one: StrengConfig, other: StrengConfig) -> Relation:
    mine, theirs = touched(one), touched(other)
    if mine & theirs:
        return Relation.OVERLAP
    words = {byte // BUS_BYTES for byte in mine} & {byte // BUS_BYTES for byte in theirs}
    apart = max(mine) < min(theirs) or max(theirs) < min(mine)
    if apart:
        return Relation.BORDER if words else Relation.APART
    return Relation.SHARED_WORDS if words else Relation.OWN_WORDS


@st.composite
def engines(draw: st.DrawFn, pixel: int) -> StrengConfig:
    """Slices of a tensor of `pixel` bytes a pixel, in one or several frames, raw or raster."""
    depth = draw(st.integers(1, max(1, pixel // 2)))
    width, height, frames = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    address = NPU_RAM3 + draw(st.integers(0, 3 * pixel))
    if draw(st.booleans()):
        return writer(address, draw(st.integers(1, 60)), frames)
    line = draw(st.sampled_from([width * pixel, width * pixel + pixel, 8 * pixel]))
    raster = {"raw": 0, "fsize_low": width, "fsize_high": height, "depth": depth}
    steps = {"pixel_offset_low": pixel, "line_offset_low": line, "frame_offset": draw(st.sampled_from([depth, 64, 0]))}
    return writer(address, 1, frames, frame_repeat=frames, **raster, **steps)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_like_a_list_of_every_byte(data: st.DataObject) -> None:
    pixel = data.draw(st.sampled_from([3, 4, 8, 12, 16, 24]))
    one = data.draw(engines(pixel))
    other = data.draw(st.one_of(engines(pixel), engines(data.draw(st.sampled_from([5, 8, 24])))))
    assert relation(one, other) == by_listing(one, other) == relation(other, one)


def test_long_walks_are_not_listed() -> None:
    """A tensor of 40 million pixels, in no time."""
    raster = {"raw": 0, "fsize_low": 20000, "fsize_high": 2000, "depth": 12, "pixel_offset_low": 32}
    raster |= {"line_offset_low": 640000 & 0xFFFF, "line_offset_high": 640000 >> 16}
    one = writer(NPU_RAM3, 1, **raster)
    assert relation(one, replace(one, address=one.address + 16)) == Relation.OWN_WORDS
    assert relation(one, replace(one, address=one.address + 12)) == Relation.SHARED_WORDS
    assert relation(one, replace(one, address=one.address + 4)) == Relation.OVERLAP


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_distance_like_a_list_of_every_byte(data: st.DataObject) -> None:
    pixel = data.draw(st.sampled_from([3, 8, 12, 24]))
    one, other = data.draw(engines(pixel)), data.draw(st.one_of(engines(pixel), engines(16)))
    mine, theirs = touched(one), touched(other)
    if mine.isdisjoint(theirs):
        nearest = np.abs(np.subtract.outer(list(mine), list(theirs))).min()
        assert distance(one, other) == distance(other, one) == nearest - 1


def test_slices_of_a_pixel() -> None:
    """12 of every 32 bytes, and 8 more behind a gap of 4."""
    raster = {"raw": 0, "fsize_low": 100, "fsize_high": 100, "pixel_offset_low": 32, "line_offset_low": 3200}
    one, other = writer(NPU_RAM3, 1, **raster, depth=12), writer(NPU_RAM3 + 16, 1, **raster, depth=8)
    assert (distance(one, other), shorter_run(one, other)) == (4, 8)


def test_what_a_copy_onto_itself_does_first() -> None:
    """Only bytes in a row that go down by a word or more are read before their place is written, whoever is faster."""
    target = writer(NPU_RAM3, 640, 1)
    for moved, seen in ((64, Relation.BEHIND), (4, Relation.AHEAD), (-64, Relation.AHEAD), (0, Relation.OVERLAP)):
        source = replace(target, to_memory=0, address=target.address + moved)
        found = relation(source, target)
        assert of_copy(source, target, found, "to STRENG:0") == seen
        assert of_copy(source, target, found, "to ARITH:0") == Relation.OVERLAP
        graded = Trust().grade(reader_and_writer(seen, ONE_CHAIN, "to STRENG:0"))
        assert Trust().allows(graded) == (seen != Relation.AHEAD)
        assert (graded.argument == "S7") == (seen == Relation.BEHIND)
    rows = replace(target, raw=0, fsize_low=10, fsize_high=1, depth=64, pixel_offset_low=64)
    source = replace(rows, to_memory=0, address=target.address + 64)
    assert of_copy(source, rows, relation(source, rows), "to STRENG:0") == Relation.AHEAD
