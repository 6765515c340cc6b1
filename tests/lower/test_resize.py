"""Resizing on the emulator against the reference kernels."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.resize import recipe as resize_linear
from atonc.compiler.ops import run_graph
from atonc.compiler.plan import policy
from atonc.machine.base.errors import ModelError
from tests.lower.harness import TARGET, activation, graph_of, lower, run

COORDINATES = ["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
ROUNDINGS = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
Shape = tuple[int, ...]


def check(kind: str, attrs: dict[str, Any], source: Tensor, target: Tensor, within: int = 0) -> None:
    graph = graph_of(Op(kind, "op", ("x",), ("y",), attrs, ("op",)), source, target)
    codes = np.random.default_rng(3).integers(-128, 128, source.shape).astype(np.int8)
    expected = run_graph(graph, {"x": codes})["y"].astype(int)
    distance = np.abs(run(graph, {"x": codes})["y"].astype(int) - expected)
    assert distance.max() <= within, f"{kind} {attrs}: {(distance > within).sum()} of {distance.size} codes differ"


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.integers(1, 9)] * 2, st.integers(1, 20)),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.sampled_from(COORDINATES),
    st.sampled_from(ROUNDINGS),
)
def test_nearest_by_integers(shape: Shape, factors: Shape, coordinates: str, rounding: str) -> None:
    h, w, c = shape
    x, y = activation("x", (1, h, w, c)), activation("y", (1, h * factors[0], w * factors[1], c))
    check("resize_nearest", {"coordinates": coordinates, "rounding": rounding}, x, y)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.integers(1, 12)] * 2, st.integers(1, 12)),
    st.tuples(*[st.integers(1, 20)] * 2),
    st.sampled_from(COORDINATES),
    st.sampled_from(ROUNDINGS),
)
def test_nearest_to_any_size(shape: Shape, size: Shape, coordinates: str, rounding: str) -> None:
    x, y = activation("x", (1, *shape)), activation("y", (1, *size, shape[2]))
    check("resize_nearest", {"coordinates": coordinates, "rounding": rounding}, x, y)


@pytest.mark.parametrize(("shape", "factor"), [((1, 40, 40, 64), 2), ((1, 13, 13, 255), 2), ((1, 20, 20, 24), 8)])
def test_nearest_of_real_layers(shape: Shape, factor: int) -> None:
    _, h, w, c = shape
    y = activation("y", (1, h * factor, w * factor, c))
    check("resize_nearest", {"coordinates": "asymmetric", "rounding": "floor"}, activation("x", shape), y)


def test_nearest_requantises() -> None:
    x, y = activation("x", (1, 6, 7, 9), 0.05, 3), activation("y", (1, 12, 14, 9), 0.04, -8)
    check("resize_nearest", {"coordinates": "half_pixel", "rounding": "round_prefer_floor"}, x, y, 1)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.integers(1, 9)] * 2, st.integers(1, 20)),
    st.tuples(*[st.sampled_from([1, 2, 3, 4, 8])] * 2),
    st.sampled_from(["half_pixel", "asymmetric", "pytorch_half_pixel"]),
    st.floats(0.6, 1.8),
)
def test_linear_by_integers(shape: Shape, factors: Shape, coordinates: str, gain: float) -> None:
    h, w, c = shape
    y = activation("y", (1, h * factors[0], w * factors[1], c), 0.05 / gain, -5)
    check("resize_linear", {"coordinates": coordinates}, activation("x", (1, h, w, c), 0.05, 9), y, 1)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.integers(1, 12)] * 2, st.integers(1, 12)),
    st.tuples(*[st.integers(1, 20)] * 2),
    st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]),
)
def test_linear_to_any_size(shape: Shape, size: Shape, coordinates: str) -> None:
    x, y = activation("x", (1, *shape)), activation("y", (1, *size, shape[2]))
    check("resize_linear", {"coordinates": coordinates}, x, y, 1)


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_linear_is_exact_where_the_weights_are(factor: int) -> None:
    """One rounding, like the reference; its real numbers are exact with a scale that is a power of two."""
    x, y = activation("x", (1, 12, 10, 16), 0.125), activation("y", (1, 12 * factor, 10 * factor, 16), 0.125)
    graph = graph_of(Op("resize_linear", "op", ("x",), ("y",), {"coordinates": "half_pixel"}, ("op",)), x, y)
    codes = np.random.default_rng(4).integers(-128, 128, x.shape).astype(np.int8)
    assert np.array_equal(run(graph, {"x": codes})["y"], run_graph(graph, {"x": codes})["y"])


def test_irregular_linear_stays_on_the_cpu() -> None:
    with pytest.raises(Refusal, match="pairs of weights"):
        check(
            "resize_linear",
            {"coordinates": "align_corners"},
            activation("x", (1, 90, 4, 3)),
            activation("y", (1, 201, 4, 3)),
        )


def test_large_results_come_in_bands_that_begin_at_aligned_places() -> None:
    x, y = activation("x", (1, 33, 33, 21)), activation("y", (1, 513, 513, 21))
    graph = graph_of(Op("resize_linear", "op", ("x",), ("y",), {"coordinates": "align_corners"}, ("op",)), x, y)
    plans, _ = lower(graph)
    uses = [use for plan in plans for use in plan.engines.values() if use.buffer == "y"]
    assert uses
    assert all(use.config.address % 16 == 0 for use in uses)
    assert len(plans) < 160  # with two writers of one buffer in an epoch


@pytest.mark.parametrize(
    ("shape", "size", "coordinates"),
    [
        ((9, 9, 5), (129, 129), "align_corners"),  # odd lines: bands of 16 rows
        ((16, 16, 8), (64, 128), "half_pixel"),  # pixels at aligned addresses
        ((7, 6, 3), (56, 48), "asymmetric"),
    ],
)
def test_bands_of_rows(shape, size, coordinates, monkeypatch: pytest.MonkeyPatch) -> None:
    small = 1 << 14
    monkeypatch.setattr(policy, "BAND_SHARE", Fraction(small, policy.whole_room(TARGET.machine).npu_ram_bytes))
    assert len(resize_linear.bands(size[0], size[1] * shape[2], size[1] * -(-shape[2] // 8) * 8, small)) > 1
    x, y = activation("x", (1, *shape), 0.1, 3), activation("y", (1, *size, shape[2]), 0.1, 3)
    check("resize_linear", {"coordinates": coordinates}, x, y, within=1)


def test_pieces_between_rows_are_all_of_them() -> None:
    whole = resize_linear.pieces(9, np.linspace(0, 8, 129).tolist())
    rows: list[tuple[int, ...]] = []
    for first in range(0, 129, 16):
        for piece in (part for p in whole for part in p.between(first, min(first + 16, 129))):
            rows += _rows(piece, first)
    assert sorted(rows) == sorted(row for piece in whole for row in _rows(piece, 0))


@pytest.mark.parametrize("size", [2, 5, 33])
def test_pieces_take_both_neighbours_by_their_distance(size: int) -> None:
    """Also from positions that real numbers leave a little short of a pixel: that pixel alone, never the one behind."""
    step = 1 / resize_linear.ONE
    short = [k - by for k in range(1, size) for by in (1e-9, step / 3, 0.6 * step)]
    positions = np.sort([*short, *np.linspace(0, size - 1, 4 * size + 1)])
    rows = sorted(row for piece in resize_linear.pieces(size, positions.tolist()) for row in _rows(piece, 0))
    assert [row[0] for row in rows] == list(range(len(positions)))
    for (_, low, high, weight), position in zip(rows, positions, strict=True):
        assert 0 <= low <= high < size
        assert abs(low + (high - low) * weight * step - position) <= step / 2


def _rows(piece: resize_linear.ResizePiece, first: int) -> list[tuple[int, ...]]:
    return [
        (first + piece.start + k * piece.ahead, piece.low + k * piece.step, piece.high + k * piece.step, piece.weight)
        for k in range(piece.count)
    ]


def test_resize_keeps_the_number_of_dimensions() -> None:
    attrs = {"coordinates": "asymmetric", "rounding": "floor"}
    op = Op("resize_nearest", "op", ("x",), ("y",), attrs, ("op",))
    with pytest.raises(ModelError, match="2 dimensions for 4"):
        lower(graph_of(op, activation("x", (1, 2, 2, 4)), activation("y", (1, 16))))
