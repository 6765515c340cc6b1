"""How many shifts a convolution has: error against cycles; and kernels that would be left over."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.conv import channel_groups, dense
from atonc.compiler.lower.conv.tiling import _kernels, _longest_lane
from atonc.compiler.lower.semantics.sums import Layered
from atonc.compiler.ops import run_graph
from atonc.compiler.plan import policy
from atonc.machine.hw.limits import ALIGNED
from tests.lower.harness import activation, constant, graph_of, lower, run

WINDOW = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC", "groups": 1}
CLOSE = np.repeat([2.0e-4, 5.0e-4, 1.2e-3, 3.0e-3], 24)  # one shift rounds some channels more coarsely
FAR = np.repeat([2.0e-5, 1.0e-1], 24)  # one shift would be a code off and more


def one_by_one(scales: np.ndarray, size: int = 24, channels: int = 64) -> Graph:
    rng = np.random.default_rng(3)
    weights = rng.integers(-127, 128, (scales.size, 1, 1, channels)).astype(np.int8)
    return graph_of(
        Op("conv", "conv", ("x", "w", "b"), ("y",), WINDOW),
        activation("x", (1, size, size, channels), 0.05, -128),
        constant("w", weights, scales, axis=0),
        constant("b", rng.integers(-500, 500, scales.size).astype(np.int32)),
        activation("y", (1, size, size, scales.size), 0.1, -5),
    )


def shifts_of(graph: Graph, numerics: str = "best") -> list[int]:
    layered = lower(graph, numerics)[1].semantics["conv"].codes
    assert isinstance(layered, Layered)
    return [piece.rule.out_shift for piece in layered.pieces]


def furthest(graph: Graph) -> int:
    values = {"x": np.random.default_rng(4).integers(-128, -60, graph.tensors["x"].shape).astype(np.int8)}
    got, exact = run(graph, values)["y"].astype(int), run_graph(graph, values)["y"].astype(int)
    return int(np.abs(got - exact).max())


def test_scales_that_are_close_share_a_shift_and_an_epoch() -> None:
    assert len(shifts_of(one_by_one(CLOSE))) == 1
    assert len(lower(one_by_one(CLOSE))[0]) == 1
    assert furthest(one_by_one(CLOSE)) <= 1


def test_where_errors_cost_more_each_gets_a_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "ERROR_CODE_CYCLES", 1e9)
    assert len(set(shifts_of(one_by_one(CLOSE)))) > 1


def test_chains_that_run_side_by_side_anyway_have_shifts_of_their_own() -> None:
    assert len(set(shifts_of(one_by_one(CLOSE[24:72])))) == 2
    assert len(lower(one_by_one(CLOSE[24:72]))[0]) == 1


def test_scales_that_are_far_apart_never_share_one() -> None:
    assert len(set(shifts_of(one_by_one(FAR)))) == 2
    assert furthest(one_by_one(FAR)) <= 1


def test_what_is_not_good_enough_is_cut_with_few_shifts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The promise does not depend on what a form with many shifts would cost."""
    monkeypatch.setattr(policy, "ERROR_CODE_CYCLES", 0.0)
    assert len(set(shifts_of(one_by_one(FAR)))) == 2
    monkeypatch.setattr(channel_groups, "GOOD_ENOUGH", 1e9)
    assert len(shifts_of(one_by_one(FAR))) == 1, "else the test shows nothing"


def test_numbers_of_older_releases_have_one_shift() -> None:
    assert len(set(shifts_of(one_by_one(FAR), "2.x"))) == 1


@pytest.mark.parametrize(("outputs", "most", "wanted"), [(64, 24, (22, 16)), (96, 24, (24,)), (61, 24, (21, 1))])
def test_kernels_of_a_frame_leave_few_over_or_none(outputs: int, most: int, wanted: tuple[int, ...]) -> None:
    assert _kernels(outputs, most, 1) == wanted


def test_lanes_of_windows_are_as_uneven_as_their_words() -> None:
    assert _longest_lane(1, 9, 8, window=False) == _longest_lane(1, 9, 8, window=True) == 1 / 3
    assert _longest_lane(2, 6, 4, window=True) == 4 / 6, "pairs of sets fill a word: two of them, then one"
    assert _longest_lane(4, 6, 4, window=True) == 1


@pytest.mark.parametrize("outputs", [64, 128, 256])
def test_small_layers_have_no_epoch_for_kernels_that_are_left(outputs: int) -> None:
    plans, _ = lower(one_by_one(np.full(outputs, 2e-4), size=8))
    assert len(plans) == 1


def starts_of(graph: Graph) -> set[int]:
    """Where in the result its writers begin."""
    engines = [use for plan in lower(graph)[0] for use in plan.engines.values()]
    return {use.config.address for use in engines if use.config.to_memory and use.buffer == "y"}


def test_kernels_come_in_whole_words_where_that_is_faster() -> None:
    """Frames of 22 kernels are fewer, but what is left behind two of them shares a word with those, and waits."""
    many = one_by_one(np.full(64, 2e-4), size=28, channels=128)
    assert not any(start % ALIGNED for start in starts_of(many))
    assert furthest(many) <= 1


def test_kernels_come_anywhere_without_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_in_words", lambda *_: False)
    assert any(start % ALIGNED for start in starts_of(one_by_one(np.full(64, 2e-4), size=28, channels=128)))


def test_whole_words_are_no_price_of_exactness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here they would be closer and slower: more shifts are there for that."""
    graph = one_by_one(np.geomspace(5e-5, 5e-3, 44), size=14, channels=48)
    usual = shifts_of(graph)
    monkeypatch.setattr(policy, "ERROR_CODE_CYCLES", 5e5)
    assert shifts_of(graph) == usual
