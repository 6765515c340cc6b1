"""Depthwise layers side by side: slices of channels or bands of rows."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from atonc.compiler.ir import Op
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.lanes import row_tiles
from atonc.compiler.ops import run_graph
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.types import EpochPlan, StepPlan
from atonc.machine.hw.footprint import share_word
from atonc.machine.hw.units.stream_engine import StrengConfig
from tests.lower import harness


def depthwise(height: int, width: int, channels: int, stride: int = 1) -> harness.Graph:
    """The zero point needs 16-bit features, so blocks have four channels."""
    weights = np.random.default_rng(channels).integers(-127, 128, (channels, 3, 3, 1)).astype(np.int8)
    pads = (1, 1, 1, 1) if stride == 1 else (0, 0, 1, 1)
    tensors = (
        harness.activation("x", (1, height, width, channels), zero_point=3),
        harness.constant("w", weights, np.full(channels, 0.01), axis=0),
        harness.activation("y", (1, -(-height // stride), -(-width // stride), channels), scale=0.3),
    )
    attrs = {"groups": channels, "padding": pads, "stride": (stride, stride), "dilation": (1, 1), "layout": "NHWC"}
    return harness.graph_of(Op("conv", "dw", ("x", "w"), ("y",), attrs), *tensors)


def written(plans: list[StepPlan]) -> list[list[StrengConfig]]:
    return [
        [use.config for use in plan.engines.values() if use.config.to_memory]
        for plan in plans
        if isinstance(plan, EpochPlan)
    ]


@pytest.mark.parametrize("channels, chains", [(8, 1), (12, 1), (16, 2), (24, 2), (28, 1), (32, 2), (40, 2)])
def test_depthwise_layers_write_words_of_their_own(channels: int, chains: int) -> None:
    """Pictures too low for bands: slices of channels, in up to two chains, as published."""
    plans, _ = harness.lower(depthwise(6, 5, channels))
    epochs = written(plans)
    assert not any(share_word(a, b) for epoch in epochs for a, b in combinations(epoch, 2))
    assert max(map(len, epochs)) == chains


@pytest.mark.parametrize("channels", [8, 28, 32])
def test_depthwise_layers_in_bands_of_rows(channels: int) -> None:
    """Where slices would leave chains idle; with stride 2, since padding on one side alone was not seen with 1."""
    graph = depthwise(54, 60, channels, 2)
    plans, _ = harness.lower(graph)
    epochs = written(plans)
    assert max(map(len, epochs)) == 3
    for epoch in epochs:
        spans = sorted(config.span() for config in epoch)
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
    values = np.random.default_rng(1).integers(-128, 128, (1, 54, 60, channels)).astype(np.int8)
    got, exact = harness.run(graph, {"x": values})["y"], run_graph(graph, {"x": values})["y"]
    assert np.abs(got.astype(int) - exact).max() <= 1


def test_bands_see_the_rows_around_them() -> None:
    part = Part(Area.whole(20, 6, 4), np.zeros((4, 3, 3, 1), np.int8), (1, 1, 1, 1), 1)
    (one,), (two,), (three,) = (parts for parts, _ in row_tiles((part,), Area.whole(20, 6, 4), 3, 8, 1))
    assert [(p.area.offset // 24, p.area.height, p.padding) for p in (one, two, three)] == [
        (0, 8, (1, 1, 0, 1)),
        (6, 9, (0, 1, 0, 1)),
        (13, 7, (0, 1, 1, 1)),
    ]
    assert row_tiles((part,), Area.whole(9, 6, 4), 3, 8, 1) == []
