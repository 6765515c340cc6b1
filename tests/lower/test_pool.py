"""Pooling on the emulator: maxima bit for bit, means within one code of exact arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.ir import Op, Tensor
from atonc.lower.maxima import cascade
from atonc.ops import run_graph
from tests.lower.harness import activation, graph_of, run

PADS = st.tuples(*[st.integers(0, 2)] * 4)
Shape = tuple[int, ...]


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
        ((1, 16, 16, 8), (8, 8), (8, 8), (0, 0, 0, 0)),
    ],
)
def test_maximum_of_real_layers(shape: Shape, window: Shape, stride: Shape, padding: Shape) -> None:
    pool("max_pool", shape, window, stride, padding)


def test_maximum_requantises_and_clips() -> None:
    pool("max_pool", (1, 8, 8, 9), (2, 2), (2, 2), (0, 0, 0, 0), scale=0.06, zero_out=4, within=1)
    pool("max_pool", (1, 8, 8, 9), (3, 3), (2, 2), (1, 1, 0, 0), attrs={"clip": (0, 90)})
