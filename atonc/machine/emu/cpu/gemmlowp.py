"""Fixed-point functions of gemmlowp on whole arrays: what TFLite's int8 softmax is made of.

Numbers are raw int32 values held in int64; "Qm" has m integer bits and 31 - m fraction bits.
"""

from __future__ import annotations

import numpy as np

from atonc.machine.emu.cpu.tensors import Array

_MAX, _MIN = (1 << 31) - 1, -(1 << 31)


def multiply_high(a: Array | int, b: Array | int) -> Array:
    """Saturating rounding doubling high multiply: (a * b) / 2^31, ties away from zero."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    # C division truncates towards zero
    result: Array = np.minimum(np.where(nudged >= 0, nudged >> 31, -(-nudged >> 31)), _MAX)
    return result


def divide_by_power_of_two(x: Array, exponent: Array | int) -> Array:
    """Rounding right shift, ties away from zero."""
    exponent = np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    result: Array = (x >> exponent) + ((x & mask) > threshold)
    return result


def shift_left_saturated(x: Array, exponent: int) -> Array:
    result: Array = np.clip(x << exponent, _MIN, _MAX)
    return result


# exp(-2^k) for k = -2 .. 4 as Q0
_EXP_OF_BIT = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def _exp_on_last_quarter(a: Array) -> Array:
    """exp(a) for a in [-1/4, 0), Q0: a Taylor series around -1/8."""
    x = a + (1 << 28)
    x2 = multiply_high(x, x)
    x3 = multiply_high(x2, x)
    x4_over_4 = divide_by_power_of_two(multiply_high(x2, x2), 2)
    third = 715827883
    tail = divide_by_power_of_two(multiply_high(x4_over_4 + x3, third) + x2, 1)
    exp_of_minus_eighth = 1895147668
    return exp_of_minus_eighth + multiply_high(exp_of_minus_eighth, x + tail)


def exp_on_negative_values(a: Array) -> Array:
    """exp(a) as Q0 for a <= 0 given as Q5."""
    quarter = 1 << 24
    last_quarter = (a & (quarter - 1)) - quarter
    result = _exp_on_last_quarter(shift_left_saturated(last_quarter, 5))
    remainder = last_quarter - a
    for bit, factor in enumerate(_EXP_OF_BIT, start=24):
        result = np.where(remainder & (1 << bit), multiply_high(result, factor), result)
    return np.where(a == 0, _MAX, result)


def _one_over_one_plus(a: Array) -> Array:
    """1 / (1 + a) as Q0 for a in [0, 1) given as Q0: three Newton steps."""
    half_denominator = (a + _MAX + 1) >> 1
    x = 1515870810 + multiply_high(half_denominator, -1010580540)  # 48/17 - 32/17 d, Q2
    for _ in range(3):
        one_minus = (1 << 29) - multiply_high(half_denominator, x)
        x = x + shift_left_saturated(multiply_high(x, one_minus), 2)
    return shift_left_saturated(x, 1)


def reciprocal(x: Array, integer_bits: int) -> tuple[Array, Array]:
    """1 / x for positive x: Q0 mantissa and how many bits x reaches over one."""
    leading_zeros = 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)
    fraction = (x << leading_zeros) - (1 << 31)
    return _one_over_one_plus(fraction), integer_bits - leading_zeros
