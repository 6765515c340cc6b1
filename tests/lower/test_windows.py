"""Windows, frames and paddings that were seen, for convolutions that ask for others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_canonical, memories
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.conv.kernel_parts import Part, axis_of, widen
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.plan.streams import Area
from atonc.compiler.request.options import Options
from atonc.machine.hw.units.convacc import ConvaccConfig
from tests.lower.harness import activation, constant, graph_of, lower
from tests.lower.test_conv import check, conv_graph

NO_PADS = (0, 0, 0, 0)
OPTIONS = Options(verify=False)


def units(graph: Graph) -> list[ConvaccConfig]:
    plans, _ = lower(graph)
    return [c for plan in plans for c in plan.units.values() if isinstance(c, ConvaccConfig)]


def kernels(graph: Graph) -> set[tuple[int, int]]:
    return {(c.kernel_width, c.kernel_height) for c in units(graph)}


def part(rows: int, columns: int, height: int, width: int, **more: Any) -> Part:
    weights = np.ones((1, rows, columns, 1), np.int16)
    return Part(Area(height, width, 1, 64, 1, 640 + 10), weights, more.pop("padding", NO_PADS), 1, **more)


class TestWiden:
    def test_one_tap_gets_zeros_on_both_sides(self) -> None:
        wide = widen(part(1, 1, 4, 5))
        assert wide.window == (3, 3) and wide.padding == (1, 1, 1, 1) and wide.out_size == (4, 5)
        assert wide.weights[0, 1, 1] == 1 == wide.weights.sum()

    def test_zeros_go_where_padding_is_free(self) -> None:
        assert widen(part(2, 2, 4, 4, padding=(1, 0, 0, 1))).padding == (1, 1, 1, 1)

    def test_frames_of_one_line_take_another_line_of_the_picture(self) -> None:
        wide = widen(part(1, 3, 1, 6, padding=(0, 1, 0, 1), room=(2, 0, 0, 0)))
        assert (wide.area.height, wide.area.offset) == (2, 650 - 64) and wide.padding == (0, 1, 1, 1)
        assert wide.weights[0, :, 1, 0].tolist() == [0, 1, 0]

    def test_borders_in_memory_become_padding(self) -> None:
        wide = widen(part(3, 3, 6, 6, spare=(2, 1, 1, 1)))
        assert wide.padding == (1, 1, 1, 1) and wide.area.height == 4 and wide.area.offset == 650 + 64 + 1

    def test_not_on_sides_alone_with_stride_1(self) -> None:
        wide = widen(part(3, 3, 6, 6, spare=(2, 0, 1, 0)))
        assert wide.padding == NO_PADS and wide.area.height == 6

    def test_a_line_behind_the_picture_makes_padding_of_stride_2_a_seen_one(self) -> None:
        wide = widen(replace(part(3, 3, 6, 5, padding=(0, 0, 1, 0)), stride=2))
        assert wide.padding == (0, 0, 1, 1) and wide.out_size == (3, 2)

    @pytest.mark.parametrize("padding", [(2, 0, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2)])
    def test_two_rows_of_padding_are_refused(self, padding: tuple[int, int, int, int]) -> None:
        with pytest.raises(Refusal):
            widen(part(3, 3, 6, 6, padding=padding))

    def test_frames_of_one_line_are_refused(self) -> None:
        with pytest.raises(Refusal):
            widen(part(3, 3, 1, 6, padding=(1, 1, 1, 1)))


def test_taps_that_only_meet_padding_are_left_out() -> None:
    """Three taps, twelve apart, on twenty pixels: the tenth output sees only the one in the middle."""
    axis = axis_of(20, 10 - 12, 12, 3, 1, 1)
    assert axis is not None and axis.taps == slice(1, 2)
    assert (axis.first, axis.count, axis.before, axis.after, axis.room) == (10, 1, 0, 0, (10, 9))


FIVE = dict(kernel=(5, 5), padding=(2, 2, 2, 2))
EVEN = dict(kernel=(5, 5), padding=(1, 1, 2, 2))
LINE = dict(height=1, width=14, channels=8, outputs=8)
DILATED = dict(height=9, width=8, channels=6, outputs=6, padding=(6, 6, 6, 6), dilation=(6, 6))
DEPTHWISE_FIVE = {
    "stride 1": dict(height=9, width=12, channels=7, outputs=7, **FIVE),
    "stride 2, even": dict(height=12, width=14, channels=6, outputs=6, stride=(2, 2), **EVEN),
    "stride 2, odd": dict(height=13, width=11, channels=6, outputs=6, stride=(2, 2), **FIVE),
    "few channels": dict(height=8, width=8, channels=1, outputs=9, **FIVE),
    "three channels": dict(height=16, width=8, channels=3, outputs=16, **FIVE),
}  # fmt: skip


@pytest.mark.parametrize("zero", [-128, -5])
@pytest.mark.parametrize("name", DEPTHWISE_FIVE)
def test_five_by_five_as_public_networks_have_it(name: str, zero: int) -> None:
    settings = DEPTHWISE_FIVE[name]
    groups = settings["channels"] if settings["channels"] == settings["outputs"] else 1
    graph = conv_graph(**settings, zero=zero, groups=groups)
    assert kernels(graph) == {(5, 3), (5, 2)}
    check(graph)


OTHERS = {
    "five by five on a small picture": dict(height=4, width=4, channels=6, outputs=6, groups=6, **FIVE),
    "five by five of many channels": dict(height=9, width=7, channels=20, outputs=6, **FIVE),
    "four by four": dict(height=9, width=7, channels=6, outputs=6, kernel=(4, 4), padding=(1, 1, 2, 2)),
    "padding all around": dict(height=5, width=6, channels=6, outputs=6, padding=(2, 2, 2, 2)),
    "more padding than kernel": dict(height=4, width=5, channels=4, outputs=6, padding=(3, 0, 1, 3)),
    "one line": dict(kernel=(1, 3), padding=(0, 1, 0, 1), **LINE),
    "one line, long kernel": dict(kernel=(1, 9), padding=(0, 4, 0, 4), **LINE),
    "one line, stride 2": dict(kernel=(1, 3), padding=(0, 1, 0, 1), stride=(1, 2), **LINE),
    "one column": dict(height=11, width=1, channels=8, outputs=8, groups=8),
    "one pixel": dict(height=1, width=1, channels=6, outputs=6, groups=6),
    "one pixel of one channel": dict(height=1, width=1, channels=1, outputs=12, kernel=(1, 1), padding=NO_PADS),
    "one channel": dict(height=5, width=7, channels=1, outputs=12, kernel=(1, 1), padding=NO_PADS),
    "two by one": dict(height=2, width=1, channels=6, outputs=9),
    "as large as the picture": dict(height=4, width=3, channels=20, outputs=9, kernel=(4, 3), padding=NO_PADS),
    "dilated beyond the picture": DILATED,
    "dilated, depthwise": dict(groups=6, **DILATED),
}  # fmt: skip


@pytest.mark.parametrize("zero", [-128, 0, 31])
@pytest.mark.parametrize("name", OTHERS)
def test_other_windows_have_forms_that_were_seen(name: str, zero: int) -> None:
    graph = conv_graph(**OTHERS[name], zero=zero)
    for c in units(graph):
        if c.kernel_height > 1:
            assert min(c.width, c.height) >= 2
            assert max(c.pad_top, c.pad_left, c.pad_bottom, c.pad_right) <= 1
        else:
            assert c.batch >= 2
    check(graph)


@pytest.mark.parametrize("zero", [-128, -5, 0])
def test_seven_by_seven_in_three_chains_of_which_the_last_adds_the_others(zero: int) -> None:
    """Nine windows: one in three lanes, four and four. Nothing but the chains themselves reads partial results; and all
    of it passes the gate of evidence, also where the zero point is 0."""
    graph = conv_graph(24, 24, 3, 24, kernel=(7, 7), padding=(3, 3, 3, 3), zero=zero)
    compiled = compile_canonical(graph, graph, OPTIONS, memories(OPTIONS))
    assert not compiled.choices.reasons
    parts = [epoch for epoch in compiled.program.epochs if any("CONVACC" in name for name in epoch.units)]
    assert [sum("CONVACC" in name for name in epoch.units) for epoch in parts] == [3, 4, 4]
    assert sum("ARITH" in name for name in parts[-1].units) == 3  # two sums and the codes
    check(graph)


def test_large_dilation_goes_tap_by_tap() -> None:
    graph = conv_graph(**OTHERS["dilated, depthwise"])
    plans, _ = lower(graph)
    assert kernels(graph) == {(1, 1)} and len(plans) <= 9


def test_very_many_phases_go_to_the_cpu() -> None:
    op = Op(
        "transpose_conv", "up", ("x", "k", ""), ("y",),
        {"stride": (40, 40), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC", "groups": 1}, ("up",),
    )  # fmt: skip
    weights = np.ones((4, 40, 40, 8), np.int8)
    graph = graph_of(op, activation("x", (1, 2, 2, 8)), constant("k", weights, 0.1), activation("y", (1, 80, 80, 4)))
    with pytest.raises(Refusal, match="1,600 parts"):
        lower(graph)
