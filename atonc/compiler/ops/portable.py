"""Functions and sums whose results are the same bits on every machine and in atonc_kernels.c.

Libraries differ in the last digit of exp or tanh and in the order in which they add; here every operation of IEEE
double precision is written down. Errors stay below two units in the last place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_SQRT_HALF = 0.7071067811865476
_LARGEST, _SMALLEST = 709.782712893384, -745.2  # beyond, exp is infinite or zero
_TWO_OVER_SQRT_PI, _ERF_IS_ONE, _ERF_TERMS = 1.1283791670955126, 6.0, 100
_EXP_FACTORS = (
    1.6059043836821613e-10, 2.08767569878681e-09, 2.505210838544172e-08, 2.755731922398589e-07, 2.7557319223985893e-06,
    2.48015873015873e-05, 0.0001984126984126984, 0.001388888888888889, 0.008333333333333333, 0.041666666666666664,
    0.16666666666666666, 0.5, 1.0,
)  # fmt: skip


def _exp_series(r: Real) -> Real:
    """(exp(r) - 1) / r for |r| <= 0.36."""
    total = np.full(r.shape, _EXP_FACTORS[0])
    for factor in _EXP_FACTORS[1:]:
        total = total * r + factor
    return total


def exp(x: Real) -> Real:
    x = np.asarray(x, np.float64)
    inner = np.where((x <= _LARGEST) & (x >= _SMALLEST), x, 0.0)
    k = np.floor(inner * _LOG2_E + 0.5)
    r = (inner - k * _LN2_HIGH) - k * _LN2_LOW
    half = np.floor(k * 0.5)
    value = 1.0 + _exp_series(r) * r
    scaled = value * np.ldexp(1.0, half.astype(np.int32)) * np.ldexp(1.0, (k - half).astype(np.int32))
    return np.where(x > _LARGEST, np.inf, np.where(x < _SMALLEST, 0.0, np.where(np.isnan(x), x, scaled)))


def expm1(x: Real) -> Real:
    small = np.abs(x) < 0.34
    return np.where(small, _exp_series(np.where(small, x, 0.0)) * x, exp(x) - 1.0)


def _log_series(f: Real) -> Real:
    """log(1 + f) = 2 atanh(f / (2 + f)) for f between sqrt(1/2) - 1 and sqrt(2) - 1."""
    s = f / (2.0 + f)
    square = s * s
    total = np.full(f.shape, 1.0 / 21.0)
    for k in range(19, 0, -2):
        total = total * square + 1.0 / k
    return 2.0 * s * total


def log(x: Real) -> Real:
    x = np.asarray(x, np.float64)
    regular = (x > 0) & np.isfinite(x)
    fraction, exponent = np.frexp(np.where(regular, x, 1.0))
    low = fraction < _SQRT_HALF
    fraction, power = np.where(low, fraction * 2.0, fraction), np.where(low, exponent - 1, exponent).astype(np.float64)
    value = power * _LN2_HIGH + (_log_series(fraction - 1.0) + power * _LN2_LOW)
    return np.where(regular, value, np.where(x == 0, -np.inf, np.where(x > 0, x, np.nan)))


def power(a: Real, b: Real) -> Real:
    """a to the power b, by logarithms; negative numbers have whole powers only."""
    size = np.where(np.abs(a) == 1.0, 1.0, exp(b * log(np.abs(a))))
    odd = np.abs(np.fmod(b, 2.0)) == 1.0
    value = np.where(np.signbit(a) & odd, -size, size)
    value = np.where((a < 0) & (b != np.floor(b)), np.nan, value)
    return np.where((b == 0) | (a == 1.0), 1.0, value)


def logistic(x: Real) -> Real:
    small = exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def tanh(x: Real) -> Real:
    e = expm1(-2.0 * np.abs(x))
    size = -e / (2.0 + e)
    return np.where(x < 0, -size, size)


def softplus(x: Real) -> Real:
    small = exp(-np.abs(x))
    few = small < 0.4
    tail = np.where(few, _log_series(np.where(few, small, 0.0)), log(1.0 + small))
    return np.where((x > 0) | np.isnan(x), x, 0.0) + tail


def erf(x: Real) -> Real:
    """2 x / sqrt(pi) exp(-x^2) (1 + a/3 (1 + a/5 (1 + a/7 ...))) with a = 2 x^2: only positive terms."""
    inner = np.where(np.abs(x) < _ERF_IS_ONE, x, 0.0)
    square = inner * inner
    double, total = 2.0 * square, np.ones(inner.shape)
    for k in range(_ERF_TERMS, 0, -1):
        total = 1.0 + total * double / (2.0 * k + 1.0)
    value = _TWO_OVER_SQRT_PI * inner * exp(-square) * total
    return np.where(np.abs(x) < _ERF_IS_ONE, value, np.where(x > 0, 1.0, np.where(x < 0, -1.0, x)))


# --- limits: ties give the bound, so that -0.0 has one outcome -----------------------------------------------------


def limited(x: Real, low: float, high: float) -> Real:
    x = np.where((x > low) | np.isnan(x), x, low)
    return np.where((x < high) | np.isnan(x), x, high)


def larger(a: Real, b: Real) -> Real:
    return np.where((a >= b) | np.isnan(a), a, b)


def smaller(a: Real, b: Real) -> Real:
    return np.where((a <= b) | np.isnan(a), a, b)


# --- sums in the order of memory -----------------------------------------------------------------------------------


def ordered_sum(values: Real, axes: tuple[int, ...]) -> Real:
    """Along some axes, one value after the other; the summed axes are gone."""
    axes = tuple(sorted(axis % values.ndim for axis in axes))
    front = np.moveaxis(values, axes, range(len(axes)))
    rest = front.shape[len(axes) :]
    if front.size == 0:
        return np.zeros(rest)
    sums = np.add.accumulate(front.reshape(-1, *rest), axis=0)[-1]  # each result is the one before plus one value
    return sums + 0.0  # a sum starts at 0.0, also one of -0.0 only


def ordered_product(left: Real, right: Real) -> Real:
    """left @ right, products added one after the other."""
    shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    total = np.zeros((*shape, left.shape[-2], right.shape[-1]))
    add_products(total, left, right)
    return total


def add_products(total: Real, left: Real, right: Real) -> None:
    """total += left @ right, in order."""
    product = np.empty_like(total)
    for k in range(left.shape[-1]):
        np.multiply(left[..., :, k, None], right[..., k, None, :], out=product)
        total += product
