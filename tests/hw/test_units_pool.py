"""POOL: maximum, average and global average, with crop, against the scalar model."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import AtoncError, InputError, NotModelledError
from atonc.machine.hw.units import pool
from atonc.machine.hw.units.pool import PoolConfig
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import (
    EXAMPLES,
    MORE_EXAMPLES,
    as_words,
    data_kinds,
    flag,
    numbers,
)


@st.composite
def frames(draw) -> dict[str, int]:
    """A frame and the part of it that is left by the crop."""
    batch, height, width = draw(st.integers(1, 8)), draw(st.integers(1, 7)), draw(st.integers(1, 7))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    bottom, right = draw(st.integers(top, height - 1)), draw(st.integers(left, width - 1))
    feature_bytes = draw(st.integers(1, 2))
    return {
        "batch": batch,
        "height": height,
        "line_elements": width * batch,
        "crop_enable": draw(flag),
        "crop_top": top,
        "crop_bottom": bottom,
        "crop_left": left * batch,
        "crop_right": right * batch + batch - 1,
        "feature_bytes": feature_bytes,
        "feature_out_bytes": feature_bytes,
        "out_bytes": feature_bytes,
        "dual_line": 1,
        "rounded": 1,
        "saturated": 1,
        "round_mode": 1,
    }


@st.composite
def output_stage(draw) -> dict[str, int]:
    return {
        "multiplier": draw(st.integers(-32768, 32767)),
        "out_shift": draw(st.integers(0, 40)),
        "out_bytes": draw(st.integers(1, 3)),
        "rounded": draw(flag),
        "saturated": draw(flag),
    }


@st.composite
def windowed(draw) -> PoolConfig:
    frame = draw(frames())
    height, width = frame["height"], frame["line_elements"] // frame["batch"]
    if frame["crop_enable"]:
        height = frame["crop_bottom"] - frame["crop_top"] + 1
        width = (frame["crop_right"] - frame["crop_left"] + 1) // frame["batch"]
    window_y, window_x = draw(st.integers(1, min(3, height))), draw(st.integers(1, min(3, width)))
    stride_y, stride_x = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from([pool.MAX, pool.AVERAGE]))
    stage = draw(output_stage()) if kind == pool.AVERAGE else {}
    return PoolConfig(
        **{**frame, **stage},
        type=kind,
        window_x=window_x,
        window_y=window_y,
        stride_x=stride_x,
        stride_y=stride_y,
        out_width=draw(st.integers(1, (width - window_x) // stride_x + 1)),
        out_height=draw(st.integers(1, (height - window_y) // stride_y + 1)),
    )


@st.composite
def global_averages(draw) -> PoolConfig:
    return PoolConfig(**{**draw(frames()), **draw(output_stage())}, type=pool.GLOBAL_AVERAGE)


configs = st.one_of(windowed(), global_averages())


@MORE_EXAMPLES
@given(configs, data_kinds, st.integers(1, 3), st.integers(0, 5))
def test_execute_equals_the_scalar_model(config: PoolConfig, kind: tuple[str, int], count: int, rest: int) -> None:
    """An unfinished frame at the end gives nothing."""
    size = config.frame_elements
    x = numbers(kind, size * count + min(rest, size - 1), "int16" if config.feature_bytes == 2 else "int8")
    words = as_words(x)
    expected = [v for k in range(count) for v in scalar.pool_frame(config, words[k * size : (k + 1) * size])]
    assert pool.execute(config, x).tolist() == expected


@MORE_EXAMPLES
@given(configs)
def test_decode_restores_what_encode_wrote(config: PoolConfig) -> None:
    assert pool.decode(pool.encode(config)) == config


@EXAMPLES
@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=9, max_size=9))
def test_any_register_values_survive_and_none_crashes(values: list[int]) -> None:
    config = pool.decode({index: value for index, value in enumerate(values) if index != 1})
    assert pool.decode(pool.encode(config)) == config
    modelled = {"unmodelled": (), "type": (pool.MAX, pool.AVERAGE, pool.GLOBAL_AVERAGE)[values[0] % 3]}
    modelled |= {"pad_top": 0, "pad_bottom": 0, "pad_left": 0, "pad_right": 0}
    modelled |= {"feature_shift": 16, "feature_bytes": 1, "feature_out_bytes": 1, "out_bytes": 1, "round_mode": 1}
    with contextlib.suppress(AtoncError):
        pool.execute(replace(config, **modelled), np.zeros(64, np.int8))


PLAIN = PoolConfig(
    type=pool.MAX, batch=2, height=4, line_elements=8, window_x=2, window_y=2, stride_x=2, stride_y=2, out_width=2,
    out_height=2, feature_bytes=1, feature_out_bytes=1, out_bytes=1, rounded=1, saturated=1, round_mode=1,
)  # fmt: skip


def test_a_mean_has_eight_fractional_bits() -> None:
    """MULVAL = round(2^k / N) in [2^14, 2^15), OUTSHIFT = k - 8, as compilers write it."""
    config = replace(PLAIN, type=pool.GLOBAL_AVERAGE, multiplier=1 << 14, out_shift=18 - 8, out_bytes=2)
    x = np.tile(np.array([3, -5], np.int8), 16)
    assert pool.execute(config, x).tolist() == [3 * 256, -5 * 256]


def test_outdims_of_a_global_average_say_nothing() -> None:
    """Public programs have one more than the frame there."""
    config = replace(PLAIN, type=pool.GLOBAL_AVERAGE, multiplier=1 << 14, out_shift=18 - 8, out_bytes=2)
    x = np.arange(32, dtype=np.int8)
    wide = replace(config, out_width=5, out_height=5)
    np.testing.assert_array_equal(pool.execute(config, x), pool.execute(wide, x))


@pytest.mark.parametrize("kind", [pool.MAX, pool.AVERAGE, pool.GLOBAL_AVERAGE])
def test_less_than_one_frame_gives_nothing(kind: int) -> None:
    assert pool.execute(replace(PLAIN, type=kind), np.zeros(31, np.int8)).tolist() == []


def test_an_average_of_two_by_two() -> None:
    config = replace(PLAIN, type=pool.AVERAGE, multiplier=1 << 14, out_shift=16)
    x = np.arange(32, dtype=np.int8)
    assert pool.execute(config, x).tolist() == [5, 6, 9, 10, 21, 22, 25, 26]


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        *(({"type": kind}, f"TYPE = {kind:#x}") for kind in range(16) if kind not in (0, 2, 10)),
        ({"pad_top": 1}, "padding = 0x1"), ({"pad_bottom": 2}, "padding = 0x10"),
        ({"pad_left": 1}, "padding = 0x40"), ({"pad_right": 1}, "padding = 0x200"),
        ({"type": 2, "pad_left": 1}, "padding = 0x40"),
        ({"feature_shift": 15}, "FSHIFT = 0xf"), ({"feature_shift": 17}, "FSHIFT = 0x11"),
        ({"feature_bytes": 3}, "FBYTES = 0x3"), ({"feature_bytes": 0}, "FBYTES = 0x0"),
        ({"type": 2, "out_shift": 4, "round_mode": 0}, "ORNDMODE = 0x0"),
        ({"type": 2, "out_shift": 4, "round_mode": 3}, "ORNDMODE = 0x3"),
    ],
)  # fmt: skip
def test_unknown_modes_raise_with_their_value(changes: dict[str, int], shown: str) -> None:
    with pytest.raises(NotModelledError) as raised:
        pool.execute(replace(PLAIN, **changes), np.zeros(32, np.int8), "POOL1")
    assert shown in str(raised.value) and "POOL1" in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        # the input stage may cut to FOBYTES: only FOBYTES = FBYTES was seen
        {"feature_bytes": 2, "feature_out_bytes": 1},
        # a maximum that leaves with fewer bytes than it came with
        {"feature_bytes": 2, "feature_out_bytes": 2, "out_bytes": 1},
        # ORNDMODE bit 1 (ReLU before rounding)
        {"round_mode": 3},
    ],
)
def test_combinations_that_nobody_has_observed_raise(changes: dict[str, int]) -> None:
    with pytest.raises(NotModelledError):
        pool.execute(replace(PLAIN, **changes), np.zeros(32, np.int16), "POOL1")


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 0}, {"height": 0}, {"line_elements": 0}, {"out_width": 0}, {"out_height": 0}, {"stride_x": 0},
        {"out_width": 5}, {"out_height": 9},
        {"crop_enable": 1, "crop_top": 2, "crop_bottom": 1, "crop_right": 7},
        {"stride_y": 0},
        {"window_x": 0},
        {"window_y": 0},
        {"line_elements": 7},  # no whole number of pixels
        {"type": 10, "crop_enable": 1, "crop_top": 2, "crop_bottom": 1, "crop_right": 7},
    ],
)  # fmt: skip
def test_impossible_geometry_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InputError):
        pool.execute(replace(PLAIN, **changes), np.zeros(64, np.int8), "POOL1")
