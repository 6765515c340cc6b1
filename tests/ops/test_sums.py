"""Codes by way of single precision are those of double precision, also where sums fall on halves or next to them."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.ir import Quantisation, Tensor
from atonc.compiler.ops.rounding import ONCE, Rounding
from atonc.compiler.ops.values import ConvSums, codes_of, finish, to_codes

CHANNELS = 24


def _tensor(dtype: str, scale: float, zero: int) -> Tensor:
    return Tensor("y", (1, 40, 50, CHANNELS), dtype, Quantisation(np.array([scale]), np.array([zero])))


@pytest.mark.parametrize("zero", [-128, -37, 0, 127])
@pytest.mark.parametrize("bits", [None, 0, 1, 3, 8, 60])
@pytest.mark.parametrize("halves", [False, True])
def test_codes_are_those_of_double_precision(zero: int, bits: int | None, halves: bool) -> None:
    rng = np.random.default_rng([zero + 128, 99 if bits is None else bits, halves])
    tensor = _tensor("int8", 0.25 if halves else 0.037, zero)
    scale = 2.0 ** rng.integers(-9, -3, CHANNELS) if halves else 10.0 ** rng.uniform(-5, -1, CHANNELS)
    sums = np.rint(rng.normal(0, 60, tensor.shape) * tensor.scale / scale).astype(np.float32)
    bias = np.rint(rng.normal(0, 40, CHANNELS)) * scale if halves else rng.normal(0, 2, CHANNELS)
    rounding = ONCE if bits is None else Rounding(np.full(CHANNELS, float(bits)))
    layer = ConvSums(sums, scale, bias)
    assert np.array_equal(finish(layer, tensor, rounding).codes, finish(layer.real(), tensor, rounding).codes)
    assert np.array_equal(finish(layer, tensor, rounding).exact, finish(layer.real(), tensor, rounding).exact)


def test_few_sums_are_worked_out_twice() -> None:
    rng = np.random.default_rng(5)
    tensor, twice = _tensor("uint8", 0.037, 128), []
    scale, bias = 10.0 ** rng.uniform(-5, -1, CHANNELS), rng.normal(0, 2, CHANNELS)
    layer = ConvSums(np.rint(rng.normal(0, 60, tensor.shape) * tensor.scale / scale).astype(np.float32), scale, bias)

    def exactly(values: np.ndarray, rounding: Rounding) -> np.ndarray:
        twice.append(values.size)
        return to_codes(rounding.steps(values, np.array([tensor.scale])), tensor, rounding)

    assert codes_of(layer, tensor, ONCE, exactly) is not None
    assert sum(twice) < 0.002 * layer.sums.size


@pytest.mark.parametrize("scale,bias", [(1e-3, 1e9), (np.inf, 0.0), (1e-3, np.nan), (1e30, 0.0)])
def test_numbers_beyond_single_precision_are_left_to_double(scale: float, bias: float) -> None:
    sums = np.arange(CHANNELS, dtype=np.float32).reshape(1, 1, 1, -1)
    layer = ConvSums(sums, np.full(CHANNELS, scale), np.full(CHANNELS, bias))
    tensor = _tensor("int8", 1.0, 0)
    assert codes_of(layer, tensor, ONCE, lambda values, rounding: values) is None
    with np.errstate(all="ignore"):
        assert np.array_equal(finish(layer, tensor).codes, finish(layer.real(), tensor).codes)
