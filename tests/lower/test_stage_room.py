"""What guarantees that no stage between integers clips wrongly: the ends of every format, through what operators mean.

Sums of convolutions may be too large for their stages, so forms look at them (semantics/room.py, tests/compiler/
test_saturating.py). All others hold whatever their inputs are: here each `limited` of more than 8 bits is watched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from atonc.compiler.ir import Op
from atonc.compiler.lower.conv.chains import limits
from atonc.compiler.lower.product.plan import MODE, farthest
from atonc.compiler.lower.semantics import arithmetic, operators, sums
from atonc.compiler.ops import run_graph
from tests.lower.harness import activation, constant, graph_of, run

ENDS = (-128, 127)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every stage of more than one byte holds what comes."""
    honest, seen = arithmetic.limited, list[int]()

    def limited(values: Any, bits: int) -> Any:
        found = honest(values, bits)
        if bits > 8:
            seen.append(bits)
            assert np.abs(found - values).max() <= 1, f"{bits} bits clip {values.min()}..{values.max()}"  # a rounding
        return found

    for module in (arithmetic, operators, sums):
        if hasattr(module, "limited"):
            monkeypatch.setattr(module, "limited", limited)
    yield seen


def extremes(shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(1)
    yield from (np.full(shape, end, np.int8) for end in ENDS)
    yield rng.choice(ENDS, shape).astype(np.int8)


@pytest.mark.parametrize("size", [(3, 3), (7, 7), (16, 16), (40, 40)])
@pytest.mark.parametrize("zero", ENDS)
def test_means(size: tuple[int, int], zero: int, watched: list[int]) -> None:
    """A mean of codes with eight bits behind the point is at most 128 << 8: 16 bits hold it, sums are exact before."""
    x = activation("x", (1, *size, 8), 0.05, zero)
    graph = graph_of(Op("mean", "m", ("x",), ("y",), {"axes": (1, 2), "keepdims": True}), x,
                     activation("y", (1, 1, 1, 8), 0.05, zero))  # fmt: skip
    for values in extremes(x.shape):
        run(graph, {"x": values})
    assert 16 in watched


@pytest.mark.parametrize("scale", [0.04, 0.05, 0.2])
def test_linear_resizing(scale: float, watched: list[int]) -> None:
    """Weights of two neighbours add up to 256: 16 bits hold what comes of any two codes."""
    x, y = activation("x", (1, 4, 4, 8), 0.05), activation("y", (1, 8, 8, 8), scale)
    graph = graph_of(Op("resize_linear", "r", ("x",), ("y",), {"coordinates": "half_pixel"}), x, y)
    for values in extremes(x.shape):
        run(graph, {"x": values})
    assert 16 in watched


def test_sums_between_units_of_products_of_activations() -> None:
    """As many products as a unit has channels: whatever the zero points, no sum of terms leaves 24 bits."""
    for zero in (0, 1, 127, 128, 255):
        for kernel_zero in (-128, -127, -1, 0, 1, 127):
            assert 0 < farthest(zero, kernel_zero) * limits(MODE, 1, 1).channels < 1 << 23


@pytest.mark.parametrize("kind", ["add", "sub"])
def test_sums_of_two_tensors(kind: str, watched: list[int]) -> None:
    a, b = activation("a", (1, 4, 4, 8), 0.05, -128), activation("b", (1, 4, 4, 8), 0.002, 127)
    graph = graph_of(Op(kind, "s", ("a", "b"), ("y",), {}), a, b, activation("y", (1, 4, 4, 8), 0.05, 0))
    for left in extremes(a.shape):
        for right in extremes(b.shape):
            run(graph, {"a": left, "b": right})


def test_one_pass_may_end_beyond_16_bits_where_codes_end_too() -> None:
    """The last sum of a layer is the one that may be cut off: its code is at an end of its range anyway."""
    weights = np.full((4, 1, 1, 64), 127, np.int8)
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC", "groups": 1}
    x, y = activation("x", (1, 4, 4, 64), 0.05, -128), activation("y", (1, 4, 4, 4), 0.5, 0)
    graph = graph_of(Op("conv", "c", ("x", "w"), ("y",), attrs), x, constant("w", weights, 0.01), y)
    for values in extremes(x.shape):
        exact = run_graph(graph, {"x": values})["y"].astype(int)
        assert np.abs(run(graph, {"x": values})["y"].astype(int) - exact).max() <= 1
