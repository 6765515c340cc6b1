"""Pooling on the emulator: maxima bit for bit, means within one code of exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.pool.means import Line
from atonc.compiler.lower.pool.recipe import cascade
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.operators import divided
from atonc.compiler.ops import run_graph
from tests.lower.harness import activation, graph_of, lower, run

PADS = st.tuples(*[st.integers(0, 2)] * 4)
Shape = tuple[int, ...]


@pytest.fixture(autouse=True, scope="module")
def by_pool_units() -> Iterator[None]:
    """Pictures here are smaller than any that POOL units were seen with; they compute them all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "_require_trusted", lambda context, groups: None)
        yield


def check(kind: str, attrs: dict[str, Any], source: Tensor, target: Tensor, within: int) -> None:
    op = Op(kind, "op", (source.name,), (target.name,), attrs, ("op",))
    graph = graph_of(op, source, target)
    codes = np.random.default_rng(2).integers(-128, 128, source.shape).astype(np.int8)
    expected = run_graph(graph, {source.name: codes})[target.name].astype(int)
    distance = np.abs(run(graph, {source.name: codes})[target.name].astype(int) - expected)
    assert distance.max() <= within, f"{kind} {attrs}: {(distance > within).sum()} of {distance.size} codes differ"


def pooled(shape: Shape, window: Shape, stride: Shape, padding: Shape) -> Shape:
    rows = (shape[1] + padding[0] + padding[2] - window[0]) // stride[0] + 1
    return (1, rows, (shape[2] + padding[1] + padding[3] - window[1]) // stride[1] + 1, shape[3])


def pool(kind: str, shape: Shape, window: Shape, stride: Shape, padding: Shape, **more: Any) -> None:
    attrs = {"layout": "NHWC", "window": window, "stride": stride, "padding": padding, **more.pop("attrs", {})}
    x = activation("x", shape, 0.05, more.pop("zero", 0))
    y = activation(
        "y", pooled(shape, window, stride, padding), more.pop("scale", 0.05), more.pop("zero_out", x.zero_point)
    )
    check(kind, attrs, x, y, more.pop("within", 0))


@pytest.mark.parametrize("window", range(1, 20))
@pytest.mark.parametrize("stride", range(1, 9))
def test_cascades_have_the_window(window: int, stride: int) -> None:
    stages, rest = cascade(window, stride)
    reach = step = 1
    for size, pace in stages:
        reach, step = reach + (size - 1) * step, step * pace
    assert (reach, step * rest) == (window, stride)


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 14), st.integers(4, 14), st.integers(1, 20), st.integers(1, 4), st.integers(1, 4), PADS)
def test_square_maximum(h: int, w: int, c: int, window: int, stride: int, pads: Shape) -> None:
    pool("max_pool", (1, h, w, c), (window, window), (stride, stride), tuple(min(p, window - 1) for p in pads))


@settings(max_examples=40, deadline=None)
@given(st.integers(5, 12), st.integers(5, 12), st.integers(1, 20), st.tuples(*[st.integers(1, 5)] * 4), PADS)
def test_any_maximum(h: int, w: int, c: int, sizes: Shape, pads: Shape) -> None:
    window, stride = sizes[:2], sizes[2:]
    limits = (window[0], window[1], window[0], window[1])
    pool("max_pool", (1, h, w, c), window, stride, tuple(min(p, k - 1) for p, k in zip(pads, limits, strict=True)))


@pytest.mark.parametrize(
    ("shape", "window", "stride", "padding"),
    [
        ((1, 112, 112, 64), (3, 3), (2, 2), (0, 0, 1, 1)),
        ((1, 20, 20, 257), (5, 5), (1, 1), (2, 2, 2, 2)),
        ((1, 13, 13, 64), (13, 13), (1, 1), (6, 6, 6, 6)),
        ((1, 1, 500, 3), (1, 4), (1, 4), (0, 0, 0, 0)),
        ((1, 40, 1, 17), (4, 1), (4, 1), (1, 0, 0, 0)),
        ((1, 6, 2000, 4), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((1, 240, 320, 3), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((1, 320, 320, 16), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((1, 16, 16, 8), (8, 8), (8, 8), (0, 0, 0, 0)),
    ],
)
def test_maximum_of_real_layers(shape: Shape, window: Shape, stride: Shape, padding: Shape) -> None:
    pool("max_pool", shape, window, stride, padding)


def test_maximum_requantises_and_clips() -> None:
    pool("max_pool", (1, 8, 8, 9), (2, 2), (2, 2), (0, 0, 0, 0), scale=0.06, zero_out=4, within=1)
    pool("max_pool", (1, 8, 8, 9), (3, 3), (2, 2), (1, 1, 0, 0), attrs={"clip": (0, 90)})


@settings(max_examples=40, deadline=None)
@given(
    st.integers(5, 12), st.integers(5, 12), st.integers(1, 20), st.tuples(*[st.integers(1, 5)] * 4), PADS, st.booleans()
)
def test_any_average(h: int, w: int, c: int, sizes: Shape, pads: Shape, include: bool) -> None:
    window, stride = sizes[:2], sizes[2:]
    limits = (window[0], window[1], window[0], window[1])
    padding = tuple(min(p, k - 1) for p, k in zip(pads, limits, strict=True))
    more: dict[str, Any] = {"attrs": {"count_include_pad": include}, "zero": -20, "scale": 0.04, "zero_out": 11}
    pool("average_pool", (1, h, w, c), window, stride, padding, within=1, **more)


@pytest.mark.parametrize("scale", [0.05, 0.07])
@pytest.mark.parametrize("shape", [(1, 32, 32, 16), (1, 9, 7, 19), (1, 64, 400, 3)])
def test_average_of_two_by_two(shape: Shape, scale: float) -> None:
    pool("average_pool", shape, (2, 2), (2, 2), (0, 0, 0, 0), scale=scale, within=1)


@pytest.mark.parametrize("zero", [-128, 0, 37])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 7, 7, 1280),
        (1, 50, 11, 24),
        (1, 75, 75, 8),
        (1, 112, 112, 5),
        (1, 101, 97, 3),
        (1, 1, 5003, 2),
        (1, 8, 8, 257),
    ],
)
def test_global_mean(shape: Shape, zero: int) -> None:
    y = activation("y", (1, shape[3]), 0.02, 5)
    check("mean", {"axes": (1, 2), "keepdims": False}, activation("x", shape, 0.05, zero), y, 1)
    check("mean", {"axes": (1, 2), "keepdims": False, "clip": (-5, 9)}, activation("x", shape, 0.05, zero), y, 1)


@pytest.mark.parametrize(("channels", "pools"), [(32, 2), (24, 2), (40, 2), (8, 1), (12, 1)])
def test_both_pools_share_a_long_mean(channels: int, pools: int) -> None:
    """Where their results lie in words of their own: 12 channels are two groups of six."""
    x, y = activation("x", (1, 64, 64, channels)), activation("y", (1, channels))
    graph = graph_of(Op("mean", "op", ("x",), ("y",), {"axes": (1, 2), "keepdims": False}, ("op",)), x, y)
    (plan,) = lower(graph)[0]
    assert sum(config.KIND == "POOL" for config in plan.units.values()) == pools
    check("mean", {"axes": (1, 2), "keepdims": False}, x, y, 1)


@settings(max_examples=30, deadline=None)
@given(st.tuples(st.just(1), *[st.integers(1, 12)] * 3), st.sets(st.integers(1, 3), min_size=1), st.booleans())
def test_mean_over_any_axes(shape: Shape, axes: set[int], keep: bool) -> None:
    out = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    check("mean", {"axes": tuple(axes), "keepdims": keep}, activation("x", shape), activation("y", out, 0.03, 2), 1)


def test_sum_and_reduce_max() -> None:
    check("sum", {"axes": (1, 2)}, activation("x", (1, 5, 6, 9), 0.05, 3), activation("y", (1, 9), 0.5), 1)
    check("reduce_max", {"axes": (1, 2)}, activation("x", (1, 7, 9, 19)), activation("y", (1, 19)), 0)


@pytest.mark.parametrize("pixels", [1, 2, 49, 550, 5625])
def test_units_compute_the_mapped_integers(pixels: int) -> None:
    x, y = activation("x", (1, pixels, 1, 4), 0.05, 7), activation("y", (1, 4), 0.04, -3)
    graph = graph_of(Op("mean", "op", ("x",), ("y",), {"axes": (1, 2), "keepdims": False}, ("op",)), x, y)
    codes = np.random.default_rng(pixels).integers(-128, 128, x.shape).astype(np.int8)
    line = Line.of(0.05 / 0.04, -3 - 7 * 0.05 / 0.04)
    expected = divided(codes.astype(np.int64).sum(axis=(0, 1, 2)), pixels, line)
    assert np.array_equal(run(graph, {"x": codes})["y"][0], expected)


def test_pyramid_pools_what_is_pooled_already() -> None:
    names = ["x", "a", "b", "c"]
    tensors = {name: activation(name, (1, 10, 9, 16)) for name in names}
    ops = tuple(
        Op("max_pool", name, ("x",), (name,), _same_size(window), (name,))
        for name, window in (("a", 5), ("b", 9), ("c", 13))
    )
    graph = Graph(tensors, ops, ("x",), ("a", "b", "c"))
    codes = np.random.default_rng(5).integers(-128, 128, (1, 10, 9, 16)).astype(np.int8)
    found, expected = run(graph, {"x": codes}), run_graph(graph, {"x": codes})
    assert all(np.array_equal(found[name], expected[name]) for name in names[1:])
    assert len(lower(graph)[0]) == 3


def _same_size(window: int) -> dict[str, Any]:
    half = window // 2
    return {"layout": "NHWC", "window": (window, window), "stride": (1, 1), "padding": (half, half, half, half)}


def test_only_signed_codes_are_pooled() -> None:
    x, y = Tensor("x", (1, 4, 4, 8), "uint8"), Tensor("y", (1, 2, 2, 8), "uint8")
    attrs = {"layout": "NHWC", "window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0)}
    with pytest.raises(Refusal, match="CODES"):
        lower(graph_of(Op("max_pool", "op", ("x",), ("y",), attrs, ("op",)), x, y))


@pytest.mark.parametrize("gain", [0.7, 40.0, 90.0])
@pytest.mark.parametrize(("zero", "shape"), [(-128, (1, 50, 48)), (7, (1, 33, 144)), (-20, (1, 4, 6, 384))])
def test_mean_over_channels_is_a_convolution(zero: int, shape: Shape, gain: float) -> None:
    """Exact sums: a mean so steep that eight bits behind the point would not do is no reason for the CPU either."""
    x, y = activation("x", shape, 0.05, zero), activation("y", (*shape[:-1], 1), 0.05 / gain, 3)
    check("mean", {"axes": (len(shape) - 1,), "keepdims": True}, x, y, 1)
    check("mean", {"axes": (len(shape) - 1,), "keepdims": True, "clip": (-5, 90)}, x, y, 1)
    graph = graph_of(Op("mean", "op", ("x",), ("y",), {"axes": (-1,), "keepdims": True}, ("op",)), x, y)
    plans, _ = lower(graph)
    assert any("CONVACC" in unit for plan in plans for unit in plan.units) == (shape[1] * shape[-1] > 1000)
