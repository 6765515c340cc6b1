"""Words through every unit, counted from configurations alone."""

from __future__ import annotations

from atonc.machine.hw.cycles.flow import element_counts
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.pool import GLOBAL_AVERAGE, PoolConfig
from atonc.machine.hw.units.switch import Link
from tests.hw import cycles_epochs as e


def test_a_convolution_makes_one_frame_per_feature_frame_and_kernel_set() -> None:
    flow = element_counts(
        e.convolution(
            e.conv(10, 8, 4, 16, 3, pad=1), e.raw(e.RAM, 320, 5), e.raw(e.FLASH, 16 * 4 * 9 * 5), e.raw(e.RAM2, 1280, 5)
        )
    )
    conv = flow["CONVACC0"]
    assert (conv.input(0).frames, conv.input(1).total, conv.output.total) == (5, 2880, 5 * 10 * 8 * 16)
    assert (conv.output.frame, conv.output.frames) == (1280, 5)
    assert flow["STRENG2"].input().total == 5 * 1280
    assert conv.taken == {0: 5 * 320, 1: 2880}


def test_stationary_features_are_read_once_for_several_kernel_sets() -> None:
    config = e.conv(4, 4, 8, 8, feature_stationary=1, stationary_sets=3)
    flow = element_counts(e.convolution(config, e.raw(e.RAM, 128, 2), e.raw(e.FLASH, 64 * 6), e.raw(e.RAM2, 128, 6)))
    assert flow["CONVACC0"].output.frames == 6
    assert flow["CONVACC0"].taken[0] == 2 * 128


def test_missing_kernels_limit_the_frames() -> None:
    flow = element_counts(
        e.convolution(e.conv(4, 4, 8, 8), e.raw(e.RAM, 128, 5), e.raw(e.FLASH, 64 * 3 + 63), e.raw(e.RAM2, 128, 5))
    )
    assert flow["CONVACC0"].output.frames == 3
    assert flow["CONVACC0"].taken == {0: 3 * 128, 1: 3 * 64}
    assert flow["STRENG2"].taken[0] == 3 * 128 < 5 * 128  # this writer would wait for ever


def test_deep_words_carry_three_bytes() -> None:
    config = e.conv(3, 3, 7, 5, deep=1, kernel_set_enable=3, feature_bytes=3)
    flow = element_counts(
        e.convolution(config, e.raw(e.RAM, 21, 2, 3), e.raw(e.FLASH, 12 * 2, 1, 3), e.raw(e.RAM2, 45, 2))
    )
    assert flow["CONVACC0"].input(0).frames == 2  # 63 bytes in 21 words
    assert flow["CONVACC0"].output.total == 2 * 45  # 35 bytes of kernels, filled up to 36, in 12 words


def test_a_gate_keeps_only_the_last_frame_of_each_sum() -> None:
    units = {
        "STRENG0": e.raw(e.RAM, 128, 8), "STRENG1": e.raw(e.FLASH, 64, 8), "CONVACC0": e.conv(4, 4, 8, 8),
        "ARITH0": e.COPY, "STRENG2": e.write(e.raw(e.RAM2, 128, 2)),
    }  # fmt: skip
    gate = Link("CONVACC0", "ARITH0", 0, enabled0=False, frames0=3, enabled1=True, frames1=1)
    links = (("STRENG0", "CONVACC0", 0), ("STRENG1", "CONVACC0", 1), gate, ("ARITH0", "STRENG2", 0))
    flow = element_counts(e.epoch(units, *links))
    assert flow["CONVACC0"].output.frames == 8
    assert flow["STRENG2"].input().total == 2 * 128


def test_a_gate_before_features_counts_feature_frames() -> None:
    units = {
        "STRENG0": e.raw(e.RAM, 128 * 4, 2), "STRENG1": e.raw(e.FLASH, 64, 8), "CONVACC0": e.conv(4, 4, 8, 8),
        "STRENG2": e.write(e.raw(e.RAM2, 128, 4)),
    }  # fmt: skip
    gate = Link("STRENG0", "CONVACC0", 0, enabled0=True, frames0=1, enabled1=False, frames1=1)
    flow = element_counts(e.epoch(units, gate, ("STRENG1", "CONVACC0", 1), ("CONVACC0", "STRENG2", 0)))
    assert flow["CONVACC0"].output.frames == 4


def test_pool_and_global_average() -> None:
    halve = PoolConfig(
        window_x=2, window_y=2, stride_x=2, stride_y=2, batch=4, line_elements=32, height=6, out_width=4, out_height=3
    )
    mean = PoolConfig(type=GLOBAL_AVERAGE, batch=4, line_elements=16, height=3)
    units = {
        "STRENG0": e.raw(e.RAM, 192, 3), "POOL0": halve, "POOL1": mean, "STRENG1": e.write(e.raw(e.RAM2, 4, 3)),
    }  # fmt: skip
    flow = element_counts(e.epoch(units, ("STRENG0", "POOL0", 0), ("POOL0", "POOL1", 0), ("POOL1", "STRENG1", 0)))
    assert (flow["POOL0"].output.total, flow["POOL1"].output.total) == (3 * 48, 3 * 4)


def test_an_overlong_second_input_is_cut_to_the_work() -> None:
    add = ArithConfig(dual_input=1)
    units = {
        "STRENG0": e.raw(e.RAM, 100), "STRENG1": e.raw(e.RAM2, 4000), "ARITH0": add,
        "STRENG2": e.write(e.raw(e.RAM2, 100)),
    }  # fmt: skip
    made = e.epoch(units, ("STRENG0", "ARITH0", 0), ("STRENG1", "ARITH0", 1), ("ARITH0", "STRENG2", 0))
    flow = element_counts(made)
    assert flow["ARITH0"].output.total == 100
    assert flow.delivered(made, "STRENG1") == 100


def test_open_ports_rings_and_strangers_deliver_nothing() -> None:
    units = {"ARITH0": e.COPY, "ARITH1": e.COPY, "STRENG0": e.write(e.raw(e.RAM, 10)), "CONVACC0": e.conv(2, 2, 1, 1)}
    links = (("ARITH1", "ARITH0", 0), ("ARITH0", "ARITH1", 0), ("POOL1", "STRENG0", 0))
    flow = element_counts(e.epoch(units, *links))
    assert all(unit.output.total == 0 for name, unit in flow.units.items() if name != "STRENG0")
    assert flow["STRENG0"].input().total == 0
