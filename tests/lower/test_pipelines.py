"""Pipelines share epochs as long as units last and no two of them write into the same word of the bus."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest

from atonc.hw import regs
from atonc.hw.footprint import share_word
from atonc.hw.units.stream_engine import StrengConfig
from atonc.ir import Op
from atonc.lower.bands import bands
from atonc.lower.convolution import Part
from atonc.lower.copies import SAME
from atonc.lower.pipelines import Pipeline, pack
from atonc.ops import run_graph
from atonc.plan.build import TaskBuilder
from atonc.plan.streams import Area, contiguous, engine
from atonc.plan.task import Task, TaskGroup
from atonc.plan.types import EpochPlan, StepPlan
from atonc.schedule.assign import assign_epoch
from atonc.schedule.pack import packed
from tests.lower import harness


def copies(*slices: tuple[int, int], pixel: int = 16, cost: int = 0) -> list[Pipeline]:
    """Each fills some channels (first, count) of a picture of 3 x 5 pixels."""

    def build(area: Area, epoch: TaskBuilder) -> None:
        stream = epoch.unit(SAME[0], epoch.read("source", contiguous(15 * area.channels)))
        epoch.write(stream, "target", engine(area, write=True, looped=True))

    whole = Area.whole(3, 5, pixel)
    return [Pipeline(partial(build, whole.channels_from(*part)), cost) for part in slices]


def writes(groups: list[TaskGroup]) -> list[list[tuple[int, int]]]:
    """First channel and channels that each epoch writes."""
    return [
        [(use.config.address, use.config.depth) for task in tasks for use in task.writers()] for tasks in packed(groups)
    ]


def test_slices_in_words_of_their_own_share_an_epoch() -> None:
    assert writes(pack(copies((0, 8), (8, 4)), ("a",), "t")) == [[(0, 8), (8, 4)]]


def test_slices_in_the_same_words_take_turns() -> None:
    found = writes(pack(copies((0, 4), (4, 4), (8, 4), (12, 4)), ("a",), "t"))
    assert found == [[(0, 4), (8, 4)], [(4, 4), (12, 4)]]


def test_pixels_that_end_inside_of_words_keep_slices_apart() -> None:
    assert writes(pack(copies((0, 8), (8, 4), pixel=12), ("a",), "t")) == [[(0, 8)], [(8, 4)]]


def test_no_more_units_than_there_are() -> None:
    plans = pack(copies(*((8 * k, 8) for k in range(6)), pixel=48), ("a",), "t")
    assert [len(epoch) for epoch in writes(plans)] == [4, 2]  # ARITHs


def test_tasks_side_by_side_get_units_of_their_own_and_keep_their_wiring() -> None:
    def loop() -> Task:
        b = TaskBuilder(("a",), "t")
        first = b.unit(SAME[0], b.read("source", contiguous(8)), drop=2, keep=1)
        writer = b.write(first, "sums", contiguous(8, write=True))
        b.read("sums", contiguous(8), follows=writer)
        return b.done()

    plan = assign_epoch([loop(), loop()])
    assert list(plan.units) == ["ARITH0", "ARITH1"] and len(plan.engines) == 6
    mine, theirs = plan.links[:2], plan.links[2:]
    assert [(k.source, k.destination) for k in theirs] == [("STRENG3", "ARITH1"), ("ARITH1", "STRENG4")]
    assert [k.other_source for k in plan.links] == [regs.SOURCES["STRENG0"], 0, regs.SOURCES["STRENG3"], 0]
    assert [replace(k, source="", destination="", other_source=0) for k in mine] == [
        replace(k, source="", destination="", other_source=0) for k in theirs
    ]
    assert [plan.engines[name].config.sync_source for name in ("STRENG2", "STRENG5")] == [1, 4]


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


@pytest.mark.parametrize("channels, pipelines", [(8, 1), (12, 1), (16, 2), (24, 3), (28, 1), (32, 2), (40, 3)])
def test_depthwise_layers_write_words_of_their_own(channels: int, pipelines: int) -> None:
    """Pictures too low for bands: slices of channels, in up to three pipelines."""
    plans, _ = harness.lower(depthwise(6, 5, channels))
    epochs = written(plans)
    assert not any(share_word(a, b) for epoch in epochs for a, b in combinations(epoch, 2))
    assert max(map(len, epochs)) == pipelines


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [8, 28, 32])
def test_depthwise_layers_in_bands_of_rows(channels: int, stride: int) -> None:
    """Where slices would leave pipelines idle."""
    graph = depthwise(54, 60, channels, stride)
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
    (one,), (two,), (three,) = (parts for parts, _ in bands((part,), Area.whole(20, 6, 4), 3, 8, 1))
    assert [(p.area.offset // 24, p.area.height, p.padding) for p in (one, two, three)] == [
        (0, 8, (1, 1, 0, 1)),
        (6, 9, (0, 1, 0, 1)),
        (13, 7, (0, 1, 1, 1)),
    ]
    assert bands((part,), Area.whole(9, 6, 4), 3, 8, 1) == []
