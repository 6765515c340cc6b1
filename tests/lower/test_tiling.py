"""How channels are spread over units and passes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.lower.conv.tiling import _slots


@given(st.integers(1, 700), st.integers(1, 4), st.integers(1, 128), st.sampled_from([1, 2, 8]))
@settings(max_examples=300)
def test_every_channel_is_read_once_and_nothing_behind_the_last(
    channels: int, units: int, most: int, aligned: int
) -> None:
    for slots in _slots(channels, units, most, None, aligned):
        assert 0 < slots.batch <= most
        next_channel = 0
        for number in range(slots.passes):
            for unit in range(units):
                start, (first, end) = slots.start(unit, number), slots.own(unit, number)
                assert start % aligned == 0 and start >= 0 and start + slots.batch <= channels
                assert first == next_channel and (first == end or start <= first < end <= start + slots.batch)
                next_channel = end
        assert next_channel == channels


def test_batches_are_hardly_larger_than_an_even_share() -> None:
    for channels in range(1, 300):
        for units in (1, 2, 3, 4):
            for slots in _slots(channels, units, 128, None, 1):
                assert slots.batch <= -(-channels // units // slots.passes) + slots.passes


def test_the_cut_of_older_releases_is_exact() -> None:
    (slots,) = _slots(96, 2, 128, 32, 1)
    assert (slots.batch, slots.passes, slots.reach, slots.step) == (16, 3, 32, 32)
    assert _slots(96, 3, 128, 32, 1) == ()
