"""Channels whose scales are far from each other, and coefficients that are chosen for the values that occur."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.conv.requantise import (
    WHOLE_FORMAT,
    Accumulated,
    best_rules,
    requantisation,
    two_steps,
    with_shifts,
)
from atonc.compiler.lower.pool.means import Line
from atonc.compiler.lower.semantics.operators import divided
from atonc.compiler.lower.semantics.sums import requantised
from atonc.compiler.lower.units.arith import CODES, fit_sum
from atonc.compiler.lower.units.pool import quotient
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.rounding import round_half_away
from atonc.insight.evaluating.layer_kernel import finish_for
from atonc.machine.hw.units import arith
from tests.lower.harness import activation, constant, graph_of, lower, run

WINDOW = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC", "groups": 1}


def one_by_one(scales: np.ndarray) -> Graph:
    rng = np.random.default_rng(3)
    weights = rng.integers(-127, 128, (scales.size, 1, 1, 32)).astype(np.int8)
    op = Op("conv", "conv", ("x", "w", "b"), ("y",), WINDOW)
    return graph_of(
        op,
        activation("x", (1, 8, 8, 32), 0.05, -128),
        constant("w", weights, scales, axis=0),
        constant("b", rng.integers(-500, 500, scales.size).astype(np.int32)),
        activation("y", (1, 8, 8, scales.size), 0.1, -5),
    )


def off_by_one(graph: Graph) -> float:
    rng = np.random.default_rng(4)
    values = {"x": rng.integers(-128, -60, graph.tensors["x"].shape).astype(np.int8)}
    got, exact = run(graph, values)["y"].astype(int), run_graph(graph, values)["y"].astype(int)
    assert np.abs(got - exact).max() <= 1
    return float((got != exact).mean())


def test_one_outlier_costs_few_epochs() -> None:
    scales = np.full(96, 2e-4)
    scales[40] = 0.1
    plans, _ = lower(one_by_one(scales))
    assert len(plans) <= 6
    assert off_by_one(one_by_one(scales)) < 0.01


def test_sorted_scales_get_shifts_of_their_own() -> None:
    scales = np.sort(10.0 ** np.random.default_rng(1).uniform(-4.5, -2, 96))
    plans, _ = lower(one_by_one(scales))
    assert len(plans) <= 6
    assert off_by_one(one_by_one(scales)) < 0.01


@pytest.mark.parametrize("usual", [-96.0, 0.0, 60.0])
def test_factors_do_no_harm_around_usual_codes(usual: float) -> None:
    scale, offset = np.array([1.2345e-3, 3.21e-5]), np.array([-700.0, 400.0])
    rule = requantisation(scale, offset, np.full(2, 1e9), usual=np.full(2, usual))
    sums = np.rint((usual - offset) / scale).astype(np.int64)
    exact = scale * sums + offset
    made = (np.rint(sums / 2.0**rule.out_shift) * rule.factors + rule.addends) / 2.0**rule.shift
    assert np.abs(made - exact).max() <= 0.5 * scale.max() * 2.0**rule.out_shift + 2.0**-rule.shift


def test_sums_with_zero_are_exact_where_they_can_be() -> None:
    """Channels that were padded with zeros: a gain of nearly 1.5 makes every other result nearly a tie."""
    gain_x, zero_x, gain_y, zero_y, zero_out = 0.3783963937101786, -128, 1.5000984053895874, -13, -128
    pair = fit_sum(gain_x, zero_x, gain_y, zero_y, zero_out)
    exact = np.clip(round_half_away(gain_y * (CODES - zero_y)) + zero_out, -128, 127)
    assert np.array_equal(pair(np.full(256, zero_x), CODES), exact)


def test_means_of_four_by_four_round_ties_as_the_model_does() -> None:
    """Behind a ReLU, with the same format on both sides, one mean in sixteen is a tie."""
    line = Line.of(1.0, 0.0, usual=-112.0, divisor=16, ties_up=True)
    sums = np.arange(-128 * 16, 0)
    exact = round_half_away(sums / 16 + 128) - 128
    assert np.array_equal(divided(sums, 16, line), exact)


@pytest.mark.parametrize("channels", (1, 24, 300))
def test_shifts_that_are_tried_together_give_what_each_gives_alone(channels: int) -> None:
    rng = np.random.default_rng(channels)
    scale, offset = np.exp(rng.uniform(-14, 0, channels)), rng.normal(0, 60, channels)
    needed, usual = np.exp(rng.uniform(5, 17, channels)), rng.normal(0, 40, channels)
    acc = Accumulated(scale, offset, needed, usual, 2)
    (tried,) = with_shifts(acc, [(slice(0, channels), range(6))])
    for one in (tried.rule(k) for k in range(6)):
        (found,) = with_shifts(acc, [(slice(0, channels), [one.out_shift])])
        alone = found.rule(0)
        assert np.array_equal(one.factors, alone.factors) and np.array_equal(one.addends, alone.addends)
        assert (one.shift, one.error, one.mean_error, one.short) == (
            alone.shift, alone.error, alone.mean_error, alone.short,
        )  # fmt: skip


@pytest.mark.parametrize("sums", (1, 3))
def test_stretches_that_are_looked_at_together_get_the_rules_of_each_alone(sums: int) -> None:
    rng = np.random.default_rng(sums)
    for count in (2, 9, 70, 300):
        cut = int(rng.integers(1, count))
        scale, offset = np.exp(rng.uniform(-14, 0, count)), rng.normal(0, 60, count)
        needed, usual = np.exp(rng.uniform(1, 17, count)), rng.normal(0, 40, count)
        needed[:cut] *= 1e-3  # fewer shifts to try
        whole = Accumulated(scale, offset, needed, usual, sums)
        together = best_rules(whole, (-100, 90), [cut, count - cut])
        for one, some in zip(together, (slice(0, cut), slice(cut, count)), strict=True):
            own = Accumulated(scale[some], offset[some], needed[some], usual[some], sums)
            (alone,) = best_rules(own, (-100, 90), [some.stop - some.start])
            assert np.array_equal(one.factors, alone.factors) and np.array_equal(one.addends, alone.addends)
            assert replace(one, factors=0, addends=0) == replace(alone, factors=0, addends=0)


@pytest.mark.parametrize("clip", (None, (-128, 127), (-20, 50)))
@pytest.mark.parametrize("count", (1, 2, 9))
def test_units_behind_sums_are_counted_without_making_them(clip: tuple[int, int] | None, count: int) -> None:
    scale, offset = np.full(count, 0.01), np.full(count, 3.0)
    rule = requantisation(scale, offset, np.full(count, 1e5), clip=clip)
    assert rule.ariths(count) == len(rule.units(0, count, 1, 1))
    both = two_steps(scale, offset, 0.1, 0, np.full(count, 400), clip)
    assert both.ariths(count) == len(both.units(0, count, 1, 1))


@pytest.mark.parametrize("clip", [None, (-50, 60), (-128, -20), (-128, 0), (0, 30), (5, 127)])
@pytest.mark.parametrize("by_saturation", [False, True])
def test_units_compute_what_is_said_of_their_rule(clip: tuple[int, int] | None, by_saturation: bool) -> None:
    """Every sum, ties among them, also where the ends of int8 are moved to clip: on the units, in the semantics and in
    the kernel that evaluations use."""
    within = WHOLE_FORMAT._replace(lower=(6, 6), upper=(6, 6)) if by_saturation else WHOLE_FORMAT
    scale, offset = np.array([0.5, 0.03125, 0.037]), np.array([0.0, -3.5, 0.5])
    (rule,) = best_rules(Accumulated(scale, offset, np.full(3, 9e3), offset, 1), clip, [3], within)
    assert rule.saturating == (by_saturation and clip is not None) and rule.out_shift == 0
    sums = np.repeat(np.arange(-9000, 9001)[:, None], 3, axis=1)
    stream = sums.T.reshape(-1)  # a channel with all its pixels, then the next
    for unit in rule.units(0, 3, 1, len(sums)):
        stream = arith.execute(unit, stream.astype(np.int16), None)
    found = stream.reshape(3, -1).T.astype(np.int64)
    low, high = clip or (-128, 127)
    assert np.abs(found - np.clip(sums * scale + offset, low, high)).max() <= 0.5 + rule.error
    np.testing.assert_array_equal(requantised(rule, sums), found)
    finish = finish_for([(rule, 3)], np.full(3, 9000), np.float64)
    np.testing.assert_array_equal(finish(sums.astype(np.float64).reshape(-1)).reshape(found.shape), found)


@pytest.mark.parametrize("divisor", [1, 9, 16, 49])
def test_factors_of_means_have_fifteen_bits(divisor: int) -> None:
    """Any less would move means that are far from the usual one."""
    for gain in np.exp(np.random.default_rng(divisor).uniform(np.log(0.02), np.log(60), 200)):
        line = Line.of(float(gain), 0.0, divisor=divisor)
        assert abs(line.a * quotient(divisor, line.most) / 2.0**line.shift / gain - 1) <= 2.0**-15
