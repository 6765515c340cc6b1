"""Means take few values: the addend is chosen so that each of them gets its code, rounded once or as TFLite does."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.ir import Op
from atonc.compiler.lower.pool.means import AROUND, MOST_LOOKED_AT, Line, joining, with_best_addend
from atonc.compiler.lower.semantics.operators import divided
from atonc.compiler.lower.units.pool import MOST_DIVIDED
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.rounding import ONCE, Rounding
from tests.lower.harness import activation, graph_of, run

ZERO, USUAL = -128, -112


def wrong(line: Line, rounding: Rounding, ratio: float, pixels: int) -> int:
    """Counts wrong results among the sums that are usual behind a ReLU."""
    sums = np.arange(-128 * pixels, (USUAL + AROUND) * pixels + 1)
    wanted = np.clip(rounding((sums - ZERO * pixels) * (ratio / pixels)) + ZERO, -128, 127)
    return int((divided(sums, pixels, line) != wanted).sum())


@pytest.mark.parametrize("pixels", [1, 4, 9, 16, 25, 36, 49, 64, 100, 144])
@pytest.mark.parametrize("twice", [False, True])
def test_every_usual_sum_gets_its_code(pixels: int, twice: bool) -> None:
    rounding = Rounding(np.array([float(pixels.bit_length() - 2)])) if twice and pixels > 1 else ONCE
    line = Line.of(1.0, 0.0, None, USUAL, pixels, True)
    best = with_best_addend(line, rounding, 1.0, (ZERO, ZERO), USUAL, pixels)
    assert wrong(best, rounding, 1.0, pixels) == 0
    assert wrong(line, rounding, 1.0, pixels) > 0 or not twice or pixels == 1  # without the second rounding it is off


@pytest.mark.parametrize("ratio", [0.31, 0.9, 1.7, 3.3])
def test_no_addend_is_better(ratio: float) -> None:
    for pixels in (9, 49):
        line = Line.of(ratio, ZERO - ZERO * ratio, None, USUAL, pixels, True)
        best = with_best_addend(line, ONCE, ratio, (ZERO, ZERO), USUAL, pixels)
        few = wrong(best, ONCE, ratio, pixels)
        others = (Line(best.a, best.c + step, best.shift) for step in range(-300, 301, 7))
        assert few <= min(wrong(other, ONCE, ratio, pixels) for other in others)


def test_large_means_keep_their_line() -> None:
    line = Line.of(1.0, 0.0, None, USUAL, MOST_LOOKED_AT + 1, True)
    assert with_best_addend(line, ONCE, 1.0, (ZERO, ZERO), USUAL, MOST_LOOKED_AT + 1) is line


@pytest.mark.parametrize("size", [6, 7, 12])
def test_a_picture_gives_what_tflite_gives(size: int) -> None:
    """On the emulated units, every sum of a stretch: rounded twice, as the reference kernels do."""
    channels = 512
    op = Op("mean", "m", ("x",), ("y",), {"axes": (1, 2), "keepdims": False, "rounded": "twice"}, ("m",))
    x, y = activation("x", (1, size, size, channels), 0.05, -128), activation("y", (1, channels), 0.05, -128)
    graph = graph_of(op, x, y)
    sums = np.arange(channels) + 20 * size * size  # above the zero point
    low, rest = np.divmod(sums, size * size)
    codes = low + (np.arange(size * size)[:, None] < rest)
    inputs = {"x": (codes - 128).astype(np.int8).reshape(1, size, size, channels)}
    np.testing.assert_array_equal(run(graph, inputs)["y"], run_graph(graph, inputs)["y"])


@pytest.mark.parametrize(("m", "n"), [(1, 1), (4096, 4096), (4096, 1000), (3, 5000)])
def test_parts_count_as_much_as_they_have_pixels(m: int, n: int) -> None:
    """Parts that were divided by the number of all pixels are added; means of parts are averaged."""
    x, y = (np.random.default_rng(k).integers(-16000, 16000, 500) for k in range(2))
    np.testing.assert_array_equal(joining(m, n, MOST_DIVIDED)(x, y), x + y)
    exact = (m * x + n * y) / (m + n)
    assert np.abs(joining(m, n, MOST_DIVIDED + 1)(x, y) - exact).max() <= 0.5 + 32000 * 2.0**-15
