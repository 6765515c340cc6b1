"""`--numerics 2.x` against a plain function that says what networks of ST's releases 2.x compute."""

from __future__ import annotations

from math import ceil, floor, log2
from typing import Any

import numpy as np
import pytest

from atonc.ir import Graph
from tests.lower.harness import run
from tests.lower.test_conv import conv_graph


def half_away(value: Any) -> Any:
    return np.sign(value) * np.floor(np.abs(value) + 0.5)


def shifted(value: Any, bits: int, limit: int) -> Any:
    """Half away from zero, then saturated."""
    return np.clip(half_away(value / 2.0**bits), -limit - 1, limit)


def sums(x: Any, weights: Any, graph: Graph, rows: slice, columns: slice) -> Any:
    """Sums of products of some rows and columns of the kernel, on features without their zero point."""
    attrs = graph.ops[0].attrs
    (top, left, bottom, right), (down, across) = attrs["padding"], attrs["stride"]
    _, height, width, outputs = graph.tensors["y"].shape
    padded = np.pad(x[0].astype(float), ((top, bottom), (left, right), (0, 0)))
    total = np.zeros((height, width, outputs))
    for i in range(*rows.indices(weights.shape[1])):
        for j in range(*columns.indices(weights.shape[2])):
            seen = padded[i:][: (height - 1) * down + 1 : down, j:][:, : (width - 1) * across + 1 : across]
            if attrs["groups"] > 1:
                repeated = np.repeat(seen, outputs // seen.shape[2], axis=2)
                total += repeated * weights[:, i, j, 0]
            else:
                total += seen @ weights[:, i, j].T
    return total


def as_releases_2(graph: Graph, codes: Any, pieces: list[tuple[slice, slice]]) -> Any:
    """Each piece of the kernel is rounded to 16 bits, then the scale, then bias and zero point."""
    x, w, b, y = (graph.tensors[name] for name in ("x", "w", "b", "y"))
    weights = w.data.astype(float)
    per_kernel = np.abs(weights.sum(axis=(1, 2, 3))).max()
    out_shift = max(0, int(per_kernel).bit_length() - 7)
    accumulated = 0.0
    for rows, columns in pieces:
        part = shifted(sums(codes.astype(float) - x.zero_point, weights, graph, rows, columns), out_shift, 32767)
        accumulated = np.clip(accumulated + part, -32768, 32767)
    middle = ceil(log2(y.scale) - 6)
    real = x.scale * w.quant.scales * 2.0 ** (out_shift - middle)
    shift = 14 - floor(log2(real.max()))
    scaled = shifted(half_away(real * 2.0**shift) * accumulated, shift, 32767)
    factor = half_away(2.0 ** (middle + 20) / y.scale)
    addend = half_away((b.data * x.scale * w.quant.scales / y.scale + y.zero_point) * 2.0**20)
    return shifted(factor * scaled + addend, 20, 127)


def check(graph: Graph, pieces: list[tuple[slice, slice]]) -> None:
    codes = np.random.default_rng(4).integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    got = run(graph, {"x": codes}, numerics="2.x")["y"]
    assert np.array_equal(got[0], as_releases_2(graph, codes, pieces))


WHOLE = [(slice(None), slice(None))]


@pytest.mark.parametrize("zero", [-128, -5, 0])
@pytest.mark.parametrize(("stride", "padding"), [((1, 1), (1, 1, 1, 1)), ((2, 2), (0, 0, 1, 1))])
def test_depthwise_channels_share_one_shift(stride: Any, padding: Any, zero: int) -> None:
    """Also where some blocks of channels would need a smaller one."""
    graph = conv_graph(10, 12, 24, 24, groups=24, stride=stride, padding=padding, zero=zero)
    graph.tensors["w"].data[8:] //= 8
    check(graph, WHOLE)
