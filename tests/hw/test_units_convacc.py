"""CONVACC: sums and output stage of every mode against the scalar model."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import AtoncError, InputError, NotModelledError
from atonc.machine.hw import regs
from atonc.machine.hw.stream import Stream
from atonc.machine.hw.units import convacc
from atonc.machine.hw.units.convacc import ConvaccConfig
from tests.hw import convacc_configs as cases
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import EXAMPLES, MORE_EXAMPLES

Strategy = st.SearchStrategy[ConvaccConfig]


def _check(data: st.DataObject, strategy: Strategy) -> None:
    config = data.draw(strategy)
    features, words, kernels, raw = data.draw(cases.inputs(config))
    sums = convacc.partial_sums(config, features, kernels)
    expected = scalar.conv_all(config, words, raw)
    assert sums.reshape(sums.shape[0], -1).tolist() == expected
    assert sums.shape[1:] == (config.out_size[0] * config.out_size[1], config.kernels)
    finished = convacc.finish(config, sums)
    assert finished.reshape(-1).tolist() == [scalar.conv_output(config, total) for frame in expected for total in frame]


@MORE_EXAMPLES
@given(st.data())
def test_ordinary_convolutions(data: st.DataObject) -> None:
    _check(data, cases.ordinary())


@EXAMPLES
@given(st.data())
def test_deep_convolutions(data: st.DataObject) -> None:
    _check(data, cases.deep())


@EXAMPLES
@given(st.data())
def test_dss2_convolutions(data: st.DataObject) -> None:
    _check(data, cases.dss2())


@EXAMPLES
@given(cases.configs)
def test_sizes_that_other_parts_rely_on(config: ConvaccConfig) -> None:
    assert config.feature_words == scalar.conv_frame_words(config)
    assert config.set_bytes == scalar.conv_set_bytes(config)


@MORE_EXAMPLES
@given(cases.configs)
def test_decode_restores_what_encode_wrote(config: ConvaccConfig) -> None:
    assert convacc.decode(convacc.encode(config)) == config


@EXAMPLES
@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=14, max_size=14))
def test_any_register_values_survive(values: list[int]) -> None:
    config = convacc.decode({index: value for index, value in enumerate(values) if index != 1})
    assert convacc.decode(convacc.encode(config)) == config


@MORE_EXAMPLES
@given(st.integers(-(1 << 40), 1 << 40), st.integers(0, 63), st.integers(1, 3), st.integers(0, 3))
def test_output_stage_of_wide_sums(total: int, out_shift: int, out_bytes: int, unsigned: int) -> None:
    config = ConvaccConfig(
        out_shift=out_shift,
        out_bytes=out_bytes,
        rounded=1,
        round_mode=1,
        saturated=1,
        features_unsigned=unsigned & 1,
        kernels_unsigned=unsigned >> 1,
    )
    assert convacc.finish(config, np.array([total], np.int64)).tolist() == [scalar.conv_output(config, total)]


def test_halves_round_away_from_zero() -> None:
    config = ConvaccConfig(out_shift=2, out_bytes=1, rounded=1, round_mode=1, saturated=1)
    assert convacc.finish(config, np.array([-6, -5, -2, -1, 0, 1, 2, 5, 6])).tolist() == [-2, -1, -1, 0, 0, 0, 1, 1, 2]


def test_sums_are_exact_beyond_single_precision() -> None:
    """2^24 + 1 has no float32: the largest 16-bit features on many channels need more."""
    batch = 24
    config = replace(PLAIN, simd=2, feature_bytes=2, batch=batch, line_elements=batch, height=1)
    features = Stream(np.full((1, batch), 32767, np.int16))
    kernels = Stream(np.full((1, batch), 127, np.int8))
    assert convacc.partial_sums(config, features, kernels).tolist() == [[[24 * 32767 * 127]]]


def test_padding_for_a_max_pool() -> None:
    """A 1x1 kernel of weight 1 with a constant frame of -128 around the picture."""
    config = replace(PLAIN, height=2, line_elements=2, frame_left=1, frame_right=1, frame_top=1, frame_bottom=1)
    config = replace(config, frame_value=-128, out_bytes=1)
    sums = convacc.partial_sums(config, Stream(np.array([[1, 2, 3, 4]], np.int8)), Stream(np.ones((1, 1), np.int8)))
    edge = [-128] * 4
    assert convacc.finish(config, sums).reshape(-1).tolist() == [*edge, -128, 1, 2, -128, -128, 3, 4, -128, *edge]


def test_unsigned_features_and_kernels_saturate_unsigned() -> None:
    config = replace(PLAIN, features_unsigned=1, kernels_unsigned=1, height=1, line_elements=3, out_bytes=1)
    sums = convacc.partial_sums(config, Stream(np.array([[0, 200, 255]], np.uint8)), Stream(np.ones((1, 1), np.uint8)))
    assert convacc.finish(config, sums).reshape(-1).tolist() == [0, 200, 255]
    assert convacc.finish(replace(config, kernels_unsigned=0), sums).reshape(-1).tolist() == [0, 127, 127]


PLAIN = ConvaccConfig(
    simd=1, feature_bytes=1, out_bytes=3, out_shift=0, rounded=1, saturated=1, round_mode=1, kernel_width=1,
    kernel_height=1, batch=1, kernels=1, height=2, line_elements=2, no_sum=1, no_first_sum=1,
)  # fmt: skip
FEATURES, KERNELS = Stream(np.zeros((1, 64), np.int8)), Stream(np.zeros((1, 64), np.int8))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"accumulator_filter": 1}, "AFILTMODE = 0x1"), ({"accumulator_filter": 2}, "AFILTMODE = 0x2"),
        ({"kernel_set_enable": 1}, "KSETEN = 0x1"), ({"kernel_set_enable": 2}, "KSETEN = 0x2"),
        ({"kernel_set_enable": 3}, "KSETEN = 0x3"), ({"deep": 1}, "KSETEN = 0x0"),
        ({"simd": 3}, "SIMD"), ({"feature_shift": 15}, "FSHIFT = 0xf"), ({"feature_shift": 17}, "FSHIFT = 0x11"),
        ({"out_shift": 3, "round_mode": 0}, "ORNDMODE = 0x0"), ({"out_shift": 3, "round_mode": 2}, "ORNDMODE = 0x2"),
        ({"out_shift": 3, "round_mode": 3}, "ORNDMODE = 0x3"),
        ({"deep": 1, "kernel_set_enable": 3, "kernel_width": 3, "kernel_height": 3}, "= 0x303"),
    ],
)  # fmt: skip
def test_unknown_modes_raise_with_their_value(changes: dict[str, int], shown: str) -> None:
    with pytest.raises(NotModelledError) as raised:
        convacc.partial_sums(replace(PLAIN, **changes), FEATURES, KERNELS, "CONVACC2")
    assert shown in str(raised.value) and "CONVACC2" in str(raised.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("CTRL.KT1", 1), ("CTRL.FC", 1), ("CTRL.FC_TSIZE", 3), ("CTRL.FC_VSIZE", 2), ("CTRL.FSTATCLEAR", 1),
        ("CTRL.FSTATOVERF", 1), ("ITER.PERIOD", 9), ("ITER.NUMBER", 2), ("ITER.OFFSET", 1),
    ],
)  # fmt: skip
def test_registers_that_nobody_has_observed_raise(field: str, value: int) -> None:
    register_name, name = field.split(".")
    register = regs.registers("CONVACC")[register_name]
    words = convacc.encode(PLAIN)
    words[register.index] = words.get(register.index, register.reset) | value << register.field(name).lsb
    with pytest.raises(NotModelledError) as raised:
        convacc.partial_sums(convacc.decode(words), FEATURES, KERNELS, "CONVACC2")
    assert f"{field} = {value:#x}" in str(raised.value) and "CONVACC2" in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        # ORNDMODE bit 1 (ReLU before rounding), whatever the shift
        {"round_mode": 3},
        # DSS2 is a 3x3 kernel with stride 2 and no window padding
        {"dss2": 1},
        {"dss2": 1, "deep": 1, "kernel_set_enable": 3},
        # 8-bit kernels go with one feature byte (SIMD 1) or two (SIMD 2)
        {"simd": 1, "feature_bytes": 3},
        {"simd": 2, "feature_bytes": 3},
        # kernels FIRST..LAST that are no whole set
        {"kernels": 2, "kernels_per_round": 4, "kernel_first": 1, "kernel_last": 2},
        {"kernels": 2, "kernels_per_round": 3, "kernel_first": 0, "kernel_last": 1},
        {"kernels": 2, "kernels_per_round": 4, "kernel_first": 2, "kernel_last": 2},
    ],
)
def test_combinations_that_nobody_has_observed_raise(changes: dict[str, int]) -> None:
    config = replace(PLAIN, height=6, line_elements=6, **changes)
    with pytest.raises(NotModelledError):
        convacc.finish(config, convacc.partial_sums(config, FEATURES, KERNELS, "CONVACC2"))


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 0}, {"kernels": 0}, {"stride_x": 0}, {"stride_y": 0},
        {"height": 0}, {"line_elements": 0}, {"kernel_width": 3}, {"kernel_height": 3},
        {"crop_left": 1, "crop_right": 0}, {"crop_top": 1, "crop_bottom": 0}, {"crop_top": 2},
        {"kernel_width": 0},
        {"kernel_height": 0},
        {"kernels_per_round": 4, "kernel_first": 4, "kernel_last": 4},
        {"batch": 2, "line_elements": 5},  # no whole number of pixels
    ],
)  # fmt: skip
def test_impossible_geometry_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InputError):
        convacc.partial_sums(replace(PLAIN, **changes), FEATURES, KERNELS, "CONVACC2")


def test_a_kernel_stream_that_is_too_short_is_refused() -> None:
    with pytest.raises(InputError, match="kernel stream"):
        convacc.partial_sums(replace(PLAIN, kernels=65), FEATURES, KERNELS)


@pytest.mark.parametrize("out_shift", [0, 31, 32, 40, 63])
@pytest.mark.parametrize("value", [-128, 0, 127])
def test_every_output_shift_is_computed(out_shift: int, value: int) -> None:
    config = replace(PLAIN, out_shift=out_shift)
    sums = convacc.partial_sums(config, Stream(np.full((1, 4), value, np.int8)), Stream(np.full((1, 1), 127, np.int8)))
    expected = [scalar.conv_output(config, 127 * value)] * 4
    assert convacc.finish(config, sums).reshape(-1).tolist() == expected


@pytest.mark.parametrize("simd", [0, 1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_random_registers_never_crash(seed: int, simd: int) -> None:
    """Small frames and kernels, everything else at random: a result or a clear error."""
    values = np.random.default_rng(seed).integers(0, 1 << 32, 14).tolist()
    config = convacc.decode({index: value for index, value in enumerate(values) if index != 1})
    small = {"height": 2, "kernels": values[2] % 4, "batch": values[3] % 4, "line_elements": values[4] % 8}
    small |= {"kernel_width": values[5] % 4, "kernel_height": values[6] % 4, "simd": simd, "kernels_per_round": 1}
    small |= {"crop_left": 0, "crop_right": 0xFFFF, "crop_top": 0, "crop_bottom": 0xFFFF, "saturated": 1}
    modelled = {"unmodelled": (), "feature_shift": 16, "round_mode": 1, "accumulator_filter": 0}
    modelled |= {"stationary_sets": values[7] % 3, "kernel_set_enable": 3 * config.deep, "dss2": 0}
    with contextlib.suppress(AtoncError):
        config = replace(config, **small, **modelled)
        convacc.finish(config, convacc.partial_sums(config, FEATURES, KERNELS))
