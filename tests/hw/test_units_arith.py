"""ARITH: every operation, scalar and per-element coefficients, against the scalar model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import NotModelledError
from atonc.machine.hw.units import arith
from atonc.machine.hw.units.arith import ArithConfig
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import (
    EXAMPLES,
    MORE_EXAMPLES,
    as_words,
    data_kinds,
    flag,
    numbers,
)

int16 = st.integers(-32768, 32767)
int9 = st.integers(-256, 255)


@st.composite
def outputs(draw) -> dict[str, int]:
    """Input and output bytes, rounding, saturation, clipping."""
    low, high = sorted((draw(int16), draw(int16)))
    bytes_x, bytes_y = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return {
        "bytes_x": bytes_x,
        "out_bytes_x": bytes_x,
        "bytes_y": bytes_y,
        "out_bytes_y": bytes_y,
        "out_bytes": draw(st.integers(1, 3)),
        "rounded": draw(flag),
        "saturated": draw(flag),
        "round_mode": 1,
        "shift_out": draw(st.one_of(st.integers(0, 24), st.integers(0, 63))),
        "clip_out": draw(flag),
        "clip_min": low,
        "clip_max": high,
    }


@st.composite
def counters(draw) -> dict[str, int]:
    """Row counters with small periods, so that all of them expire within a test."""
    return {
        "count1": draw(flag),
        "count2": draw(flag),
        "count3": draw(flag),
        "step_every": draw(st.integers(0, 4)),
        "reset1_every": draw(st.integers(0, 8)),
        "reset2_every": draw(st.integers(0, 20)),
        "reset3_every": draw(st.integers(0, 60)),
        "step": draw(int9),
        "offset1": draw(int9),
        "offset2": draw(int9),
        "offset3": draw(int9),
        "start_row": draw(st.integers(0, 511)),
        "translate": draw(flag),
    }


@st.composite
def broadcasts(draw, elements: int = 96) -> dict[str, int]:
    """Counters as compilers set them: a run per pixel, groups of pixels, the whole tensor; and near misses."""
    divisors = st.sampled_from([n for n in range(1, elements + 1) if elements % n == 0])
    run, period = draw(divisors), draw(st.integers(1, 3))
    group = run * draw(st.integers(1, 4))
    groups, step = draw(st.integers(1, 4)), draw(st.sampled_from([0, 1, 1, 1, -1, 3]))
    reach = (run - 1) // period * step
    forward = draw(st.sampled_from([1, reach + 1, -3]))
    offsets = (-reach, forward - reach, -(groups - 1) * forward - reach)
    if any(not -256 <= offset <= 255 for offset in offsets):
        offsets = (0, 0, 0)
    slip = draw(st.sampled_from([0, 0, 0, 1]))
    all_counters, start_row = draw(flag), draw(st.integers(0, 511))
    return {
        "count1": 1, "count2": all_counters, "count3": all_counters, "step": step, "step_every": period - 1,
        "reset1_every": run - 1, "reset2_every": group - 1, "reset3_every": group * groups - 1 + slip,
        "offset1": offsets[0], "offset2": offsets[1], "offset3": offsets[2], "start_row": start_row,
    }  # fmt: skip


@st.composite
def affine(draw) -> ArithConfig:
    coefficients = {"a": draw(int16), "b": draw(int16), "c": draw(int16)}
    shifts = {"shift_a": draw(st.integers(0, 31)), "shift_b": draw(st.integers(0, 31))}
    if draw(st.booleans()):
        mode = {"combine_bc": 1, "dual_input": 0, "shift_c": 0}
    else:
        mode = {"dual_input": draw(flag), "shift_c": draw(st.integers(0, 31))}
    vector = {}
    if draw(st.booleans()):
        vector = {"vector_a": draw(flag), "vector_b": draw(flag), "vector_c": 1}
        vector |= draw(st.one_of(counters(), broadcasts()))
        vector["table"] = numbers(draw(data_kinds), 3 * arith.ROWS, "int16").astype("<i2").tobytes()
    return ArithConfig(operation=arith.AFFINE, **coefficients, **shifts, **mode, **vector, **draw(outputs()))


@st.composite
def two_operands(draw) -> ArithConfig:
    operation = draw(st.sampled_from([arith.MULTIPLY, arith.MIN, arith.MAX]))
    return ArithConfig(operation=operation, dual_input=1, **draw(outputs()))


@st.composite
def clips(draw) -> ArithConfig:
    low, high = sorted((draw(int16), draw(int16)))
    stage = draw(outputs())
    return ArithConfig(operation=arith.CLIP, a=low, c=high, **{**stage, "shift_out": stage["shift_out"] % 31})


configs = st.one_of(affine(), affine(), two_operands(), clips())


def _table(config: ArithConfig) -> list[tuple[int, int, int]]:
    return [(a, b, c) for a, b, c in config.rows().tolist()]


def _check(config: ArithConfig, x: np.ndarray, y: np.ndarray | None) -> None:
    words_y = None if y is None else as_words(y)
    expected = scalar.arith(config, as_words(x), words_y, _table(config))
    assert arith.execute(config, x, y).tolist() == expected


@MORE_EXAMPLES
@given(configs, data_kinds, data_kinds, st.sampled_from(["int8", "uint8", "int16"]), st.integers(-5, 5))
def test_execute_equals_the_scalar_model(
    config: ArithConfig, kind_x: tuple[str, int], kind_y: tuple[str, int], dtype: str, surplus: int
) -> None:
    """Streams may be wider or narrower than the unit reads; the reader of Y may have more or fewer elements."""
    x = numbers(kind_x, 96, dtype)
    y = numbers(kind_y, 96 + surplus, "int16" if config.bytes_y == 2 else "int8") if config.dual_input else None
    _check(config, x, y)


@MORE_EXAMPLES
@given(st.one_of(counters(), broadcasts()), st.integers(0, 200))
def test_row_counters(counter: dict[str, int], elements: int) -> None:
    config = ArithConfig(**counter, vector_a=1)
    assert arith.row_numbers(config, elements).tolist() == scalar.arith_rows(config, elements)


@MORE_EXAMPLES
@given(broadcasts(), st.integers(1, 3))
def test_regular_rows_are_the_same_rows(counter: dict[str, int], times: int) -> None:
    config, elements = ArithConfig(**counter, vector_a=1), 96 * times
    regular = arith.regular_rows(config, elements)
    if regular is not None:
        groups, _, run = regular.shape
        every = np.broadcast_to(regular, (groups, elements // groups // run, run))
        assert every.reshape(-1).tolist() == scalar.arith_rows(config, elements)


@EXAMPLES
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6))
def test_channel_broadcast(batch: int, groups: int, pixels: int) -> None:
    """C channels in batches of b over all pixels: rows repeat in a batch, move on with it, start again at the end."""
    channels = batch * groups
    config = ArithConfig(
        vector_a=1, vector_b=1, vector_c=1, count1=1, count2=1, count3=1,
        step=1, step_every=0,
        reset1_every=batch - 1, offset1=-(batch - 1),
        reset2_every=batch * pixels - 1, offset2=1,
        reset3_every=channels * pixels - 1, offset3=-(channels - 1),
    )  # fmt: skip
    one_tensor = [group * batch + channel for group in range(groups) for _ in range(pixels) for channel in range(batch)]
    assert arith.row_numbers(config, 2 * channels * pixels).tolist() == one_tensor * 2


@MORE_EXAMPLES
@given(configs)
def test_decode_restores_what_encode_wrote(config: ArithConfig) -> None:
    table = config.rows() if config.table else None
    assert arith.decode(arith.encode(config), table) == config


@EXAMPLES
@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=15, max_size=15))
def test_any_register_values_survive(values: list[int]) -> None:
    config = arith.decode({index: value for index, value in enumerate(values) if index != 1})
    assert arith.decode(arith.encode(config)) == config


@pytest.mark.parametrize("translate", [False, True])
def test_coefficient_addresses(translate: bool) -> None:
    """Entry i at byte 0x400 + 8i when addresses are translated; without, byte o is entry o / 8."""
    for register in (256, 257, 300, 256 + 2 * 383 + 1):
        entry = (4 * register - (0x400 if translate else 0)) // 8
        assert arith.memory_row(register, translate) == (entry, register % 2)
    assert arith.memory_row(255, translate) is None


def test_an_input_with_zero_point_minus_128_becomes_unsigned() -> None:
    """A = 2^14, addend 32 << 16, shift 14, neither rounded nor saturated: x + 128 modulo 256."""
    config = ArithConfig(combine_bc=1, a=1 << 14, b=32, shift_out=14, bytes_x=1, out_bytes=1)
    codes = np.arange(-128, 128, dtype=np.int8)
    assert (arith.execute(config, codes, None).astype(np.int16) & 0xFF).tolist() == list(range(256))


def test_halves_round_away_from_zero_in_both_places() -> None:
    config = ArithConfig(a=1, shift_a=1, rounded=1, round_mode=1, saturated=1, bytes_x=1, out_bytes=1)
    x = np.array([-3, -2, -1, 0, 1, 2, 3], np.int8)
    assert arith.execute(config, x, None).tolist() == [-2, -1, -1, 0, 1, 1, 2]
    config = replace(config, shift_a=0, shift_out=1)
    assert arith.execute(config, x, None).tolist() == [-2, -1, -1, 0, 1, 1, 2]


def test_the_combined_addend_is_one_32_bit_number() -> None:
    config = ArithConfig(combine_bc=1, b=-2, c=-1, bytes_x=1, out_bytes=3, saturated=1)
    assert arith.execute(config, np.zeros(3, np.int8), None).tolist() == [-65537] * 3


@pytest.mark.parametrize("shift_out", [32, 63])
def test_every_output_shift_is_computed(shift_out: int) -> None:
    config = ArithConfig(operation=arith.CLIP, a=-99, c=99, rounded=1, round_mode=1, bytes_x=1, shift_out=shift_out)
    _check(config, np.array([-128, 0, 127], np.int8), None)


PLAIN = ArithConfig(a=1, bytes_x=1, bytes_y=1, out_bytes=1, rounded=1, saturated=1, round_mode=1, shift_out=3)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        *(({"operation": code}, f"OP = {code:#x}") for code in range(64) if code not in (0, 1, 2, 7, 0x37)),
        ({"logical": 1}, "OP = 0x0"),
        ({"shift_x": 15}, "FSHIFT = 0x100f"), ({"shift_x": 17}, "FSHIFT = 0x1011"), ({"shift_y": 0}, "FSHIFT = 0x10"),
        ({"bytes_x": 0}, "FBYTES = 0x10"), ({"bytes_x": 3}, "FBYTES = 0x13"),
        ({"dual_input": 1, "bytes_y": 3}, "FBYTES = 0x31"),
        ({"round_mode": 0}, "ORNDMODE = 0x0"), ({"round_mode": 2}, "ORNDMODE = 0x2"),
        ({"round_mode": 3}, "ORNDMODE = 0x3"),
        ({"operation": 7}, "DUALIN"), ({"operation": 1}, "DUALIN"), ({"operation": 2}, "DUALIN"),
    ],
)  # fmt: skip
def test_unknown_modes_raise_with_their_value(changes: dict[str, int], shown: str) -> None:
    with pytest.raises(NotModelledError) as raised:
        arith.execute(replace(PLAIN, **changes), np.zeros(4, np.int8), np.zeros(4, np.int8), "ARITH2")
    assert shown in str(raised.value) and "ARITH2" in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        # the inner shifts round too, so their mode must be the known one
        {"shift_out": 0, "shift_a": 3, "round_mode": 0},
        {"shift_out": 0, "shift_b": 3, "round_mode": 0, "dual_input": 1},
        # ORNDMODE bit 1 (ReLU before rounding): no effect seen or excluded, whatever the shift
        {"shift_out": 0, "round_mode": 3},
        {"rounded": 0, "round_mode": 3},
        # the input stage may saturate or cut to FOBYTES: only FOBYTES = FBYTES was seen
        {"bytes_x": 2, "out_bytes_x": 1},
        {"bytes_x": 2, "out_bytes_x": 1, "saturate_x": 1},
        {"dual_input": 1, "bytes_y": 2, "out_bytes_y": 1},
        # B cannot be both a factor of y and the upper half of C
        {"dual_input": 1, "combine_bc": 1},
    ],
)
def test_combinations_that_nobody_has_observed_raise(changes: dict[str, int]) -> None:
    with pytest.raises(NotModelledError):
        arith.execute(replace(PLAIN, **changes), np.zeros(4, np.int16), np.zeros(4, np.int16), "ARITH2")


def test_each_configuration_keeps_its_own_coefficients() -> None:
    """They are laid out once for a configuration and a length: neither another table, nor another length, nor a
    configuration in the place of one that is gone may find them."""
    x = np.arange(-12, 12, dtype=np.int16)
    for seed in range(20):
        table = np.random.default_rng(seed).integers(-99, 99, (3, 3)).astype("<i2")
        rows = {"count1": 1, "step": 1, "reset1_every": 2, "offset1": -2, "table": table.tobytes()}
        config = ArithConfig(vector_a=1, vector_c=1, bytes_x=2, out_bytes_x=2, out_bytes=3, **rows)
        for elements in (12, 24, 12, 23):  # 23: no whole number of runs
            row = table.astype(np.int64)[np.arange(elements) % 3]
            assert (arith.execute(config, x[:elements], None) == x[:elements] * row[:, 0] + row[:, 2]).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_types_that_hold_too_much_are_not_trusted(dtype: type) -> None:
    """Both ends of a type: the widest product that a type of the stream allows must not wrap."""
    ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0], dtype)
    size = ends.itemsize
    config = ArithConfig(
        dual_input=1, a=-32768, b=-32768, bytes_x=size, bytes_y=size, out_bytes_x=size, out_bytes_y=size,
        out_bytes=3, shift_out=16, rounded=1, round_mode=1, saturated=1,
    )  # fmt: skip
    exact = ends.astype(np.int64) * -65536
    assert (arith.execute(config, ends, ends) == exact // 65536).all()


@pytest.mark.parametrize("channels", [1, 5, 64])
@pytest.mark.parametrize("pixels", [1, 2, 7])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_are_those_that_the_counters_reach(channels: int, pixels: int, turned: bool) -> None:
    """One row for each channel, in turns or with all pixels of a channel behind each other."""
    back, all_of_them = -(channels - 1), channels * pixels
    counters = {"count1": 1, "step": 1, "step_every": pixels - 1, "reset1_every": all_of_them - 1, "offset1": back}
    if turned:
        counters = {"count1": 1, "step": 1, "reset1_every": channels - 1, "offset1": back, "count3": 1}
        counters |= {"reset3_every": all_of_them - 1, "offset3": back}
    config = ArithConfig(vector_a=1, table=np.zeros((arith.ROWS, 3), "<i2").tobytes(), **counters)
    reached = set(scalar.arith_rows(config, 3 * all_of_them))
    assert reached == set(range(channels)) and arith.reached_rows(config) == arith.used_rows(config) == channels
    table = np.zeros((arith.ROWS, 3), "<i2")
    table[100] = 1
    assert arith.used_rows(replace(config, table=table.tobytes())) == 101
