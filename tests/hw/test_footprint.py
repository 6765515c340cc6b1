"""Which bytes engines touch, against the scalar model; whether two of them meet in a word of the bus."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.hw.footprint import share_word, touched
from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.units.stream_engine import StrengConfig
from tests.hw import scalar_models as scalar
from tests.hw.test_units_stream_engine import engine, readers, writers


def addresses(config: StrengConfig) -> set[int]:
    return {start + k for start in scalar.engine_addresses(config) for k in range(config.element_bytes)}


@given(st.one_of(readers(), writers()))
@settings(max_examples=150)
def test_touched_bytes_are_those_of_the_scalar_model(config: StrengConfig) -> None:
    low, high = config.span()
    flags = touched(config, low - 5, high + 3)
    assert set((np.flatnonzero(flags) + low - 5).tolist()) == addresses(config)


@given(writers(), writers(), st.integers(-40, 40))
@settings(max_examples=150)
def test_words_are_shared_where_the_scalar_model_shares_them(a: StrengConfig, b: StrengConfig, offset: int) -> None:
    b = replace(b, address=b.address + offset)
    words = [{address // BUS_BYTES for address in addresses(config)} for config in (a, b)]
    assert share_word(a, b) == share_word(b, a) == bool(words[0] & words[1])


@given(st.integers(1, 6), st.integers(1, 40), st.integers(1, 20), st.integers(1, 20), st.integers(0, 40))
@settings(max_examples=150)
def test_slices_of_the_channels_of_one_picture(width: int, pixel: int, depth: int, other: int, first: int) -> None:
    """The form in which networks have it: lines and pixels in step, channels beside each other."""
    picture = {"raw": 0, "to_memory": 1, "fsize_low": width, "fsize_high": 3}
    picture |= {"pixel_offset_low": pixel, "line_offset_low": pixel * width}
    a = engine(**picture, depth=depth)
    b = engine(**picture, depth=other, address=a.address + first)
    words = [{address // BUS_BYTES for address in addresses(config)} for config in (a, b)]
    assert share_word(a, b) == bool(words[0] & words[1])
