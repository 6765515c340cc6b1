"""The arithmetic of atonc_kernels.c in NumPy, operation by operation: element types, number formats, functions.

Written from the C file on purpose and not shared with the compiler's exact kernels: two witnesses are better than one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import Array

DTYPES = tuple(np.dtype(code) for code in ("i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8", "u1"))
BOOL = 10
_HAS_LEAST, _HAS_MOST, _CLIP_FLOAT, _IN_SINGLE, _TO_EVEN = 1, 2, 4, 8, 16
LIMITS = _HAS_LEAST | _HAS_MOST | _CLIP_FLOAT


def element_type(number: int, where: str) -> np.dtype[Any]:
    if not 0 <= number < len(DTYPES):
        raise fail(f"element type {number} is unknown", where)
    return DTYPES[number]


@dataclass(frozen=True)
class Format:
    """`atonc_format`: real = (code - zero) * scale, with limits for outputs."""

    type: int
    dtype: np.dtype[Any]
    flags: int
    scale: float
    zero: float
    low: float
    high: float
    least: float
    most: float
    middle: float  # halves are rounded away from here
    first_bits: tuple[float, ...]  # behind the point, left by an earlier rounding: one number or one per channel

    @classmethod
    def of(cls, info: StructView) -> Format:
        kind, flags = info.integer("type"), info.integer("flags")
        numbers = {name: info.number(name) for name in ("scale", "zero", "low", "high", "least", "most")}
        bits = info.numbers("first_bits") if info.value("first_bits") != 0 else ()
        if not all(0 <= n <= 255 for n in bits):
            raise fail("bits behind the point are bytes", info.where)
        middle = float(info.integer("middle"))
        return cls(kind, element_type(kind, info.where), flags, middle=middle, first_bits=bits, **numbers)

    def below(self) -> Format:
        """For the other side of zero, where a kernel has two: the second number of bits."""
        if len(self.first_bits) == 1:
            raise fail("bits of one side where there are two", "atonc_format")
        return replace(self, first_bits=self.first_bits[1:])

    def centred(self, codes: Array) -> Array:
        result: Array = codes.astype(np.float64) - self.zero
        return result

    def real(self, codes: Array) -> Array:
        result: Array = self.centred(codes) * self.scale
        return result

    def codes(self, values: Array, channels: int = 1) -> Array:
        """The rounding at the end of every kernel; `channels` are the last axis."""
        values = at_least(values, self.least) if self.flags & _HAS_LEAST else values
        values = at_most(values, self.most) if self.flags & _HAS_MOST else values
        values = self._steps(values)
        if self.dtype.kind == "f":
            values = at_most(at_least(values, self.low), self.high) if self.flags & _CLIP_FLOAT else values
            return np.asarray(values.astype(self.dtype))
        if self.type == BOOL:
            return np.where(values != 0, 1, 0).astype(self.dtype)
        rounded = self._narrow(values, channels) if self.dtype.itemsize <= 2 else round_half_away(values)
        rounded = np.where(np.isnan(values), 0.0, rounded)
        return stored(at_most(at_least(rounded + self.zero, self.low), self.high), self.dtype)

    def _steps(self, values: Array) -> Array:
        """Divides by the scale, as the source of the network does."""
        if not self.flags & _IN_SINGLE:
            return np.asarray(values / np.float64(self.scale))
        quotient = values.astype(np.float32) / np.float32(self.scale)
        return np.asarray(np.rint(quotient) if self.flags & _TO_EVEN else quotient).astype(np.float64)

    def _narrow(self, values: Array, channels: int) -> Array:
        """Rounds as the source of the network does."""
        if self.first_bits:
            if channels > len(self.first_bits):
                raise fail(f"bits of {len(self.first_bits)} channels where {channels} are read", "atonc_format")
            unit = np.ldexp(1.0, np.array(self.first_bits[:channels], np.int32))
            values = np.floor(values * unit + 0.5) / unit
        result: Array = round_half_away(values - self.middle) + self.middle
        return result


def round_half_away(values: Array) -> Array:
    result: Array = np.copysign(np.floor(np.abs(values) + 0.5), values)
    return result


def stored(values: Array, dtype: np.dtype[Any]) -> Array:
    """Whole numbers that fit, except that 2^63 and 2^64 stand for the largest integers."""
    if dtype.itemsize < 8 or dtype.kind == "f":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    fits = values < float(limits.max)
    return np.where(fits, np.where(fits, values, 0.0).astype(dtype), dtype.type(limits.max))


def at_least(values: Array, bound: float) -> Array:
    return np.where((values > bound) | np.isnan(values), values, bound)


def at_most(values: Array, bound: float) -> Array:
    return np.where((values < bound) | np.isnan(values), values, bound)


def larger(a: Array, b: Array) -> Array:
    return np.where((a >= b) | np.isnan(a), a, b)


def smaller(a: Array, b: Array) -> Array:
    return np.where((a <= b) | np.isnan(a), a, b)


# --- functions -----------------------------------------------------------------------------------------------------

_FACTORIALS = (
    1.6059043836821613e-10, 2.08767569878681e-09, 2.505210838544172e-08, 2.755731922398589e-07, 2.7557319223985893e-06,
    2.48015873015873e-05, 0.0001984126984126984, 0.001388888888888889, 0.008333333333333333, 0.041666666666666664,
    0.16666666666666666, 0.5, 1.0,
)  # fmt: skip
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_TOO_LARGE, _TOO_SMALL = 709.782712893384, -745.2


def _exp_series(r: Array) -> Array:
    total: Array = np.zeros(r.shape) + _FACTORIALS[0]
    for factor in _FACTORIALS[1:]:
        total = total * r + factor
    return total


def exponential(x: Array) -> Array:
    regular = (x <= _TOO_LARGE) & (x >= _TOO_SMALL)
    y = np.where(regular, x, 0.0)
    k = np.floor(y * 1.4426950408889634 + 0.5)
    r = (y - k * _LN2_HIGH) - k * _LN2_LOW
    half = np.floor(k * 0.5)
    value = 1.0 + _exp_series(r) * r
    value = value * np.ldexp(1.0, half.astype(np.int32)) * np.ldexp(1.0, (k - half).astype(np.int32))
    return np.where(regular, value, np.where(x > 0, np.inf, np.where(x < 0, 0.0, x)))


def exponential_minus_one(x: Array) -> Array:
    small = np.abs(x) < 0.34
    return np.where(small, _exp_series(np.where(small, x, 0.0)) * x, exponential(x) - 1.0)


def _log_series(f: Array) -> Array:
    s = f / (2.0 + f)
    square, total = s * s, np.zeros(f.shape) + 1.0 / 21.0
    for k in range(19, 0, -2):
        total = total * square + 1.0 / k
    result: Array = 2.0 * s * total
    return result


def logarithm(x: Array) -> Array:
    regular = (x > 0) & (x <= 1.7976931348623157e308)
    fraction, exponent = np.frexp(np.where(regular, x, 1.0))
    halve = fraction < 0.7071067811865476
    fraction, exponent = np.where(halve, fraction * 2.0, fraction), np.where(halve, exponent - 1, exponent)
    value = exponent * _LN2_HIGH + (_log_series(fraction - 1.0) + exponent * _LN2_LOW)
    return np.where(regular, value, np.where(x == 0, -np.inf, np.where(x > 0, x, np.nan)))


def power(a: Array, b: Array) -> Array:
    whole, odd = b == np.floor(b), np.abs(np.fmod(b, 2.0)) == 1.0
    size = np.where(np.abs(a) == 1.0, 1.0, exponential(b * logarithm(np.abs(a))))
    value = np.where((a < 0) & ~whole, np.nan, np.where(np.signbit(a) & odd, -size, size))
    return np.where((b == 0) | (a == 1.0), 1.0, value)


def logistic(x: Array) -> Array:
    small = exponential(-np.abs(x))
    result: Array = np.where(x >= 0, 1.0, small) / (1.0 + small)
    return result


def hyperbolic_tangent(x: Array) -> Array:
    e = exponential_minus_one(-2.0 * np.abs(x))
    size = -e / (2.0 + e)
    return np.where(x < 0, -size, size)


def error_function(x: Array) -> Array:
    regular = np.abs(x) < 6.0
    y = np.where(regular, x, 0.0)
    square = y * y
    a, total = 2.0 * square, np.ones(y.shape)
    for k in range(100, 0, -1):
        total = 1.0 + total * a / (2.0 * k + 1.0)
    value = 1.1283791670955126 * y * exponential(-square) * total
    return np.where(regular, value, np.where(x > 0, 1.0, np.where(x < 0, -1.0, x)))


def gelu(x: Array) -> Array:
    result: Array = 0.5 * x * (1.0 + error_function(x / 1.4142135623730951))
    return result


def gelu_by_tanh(x: Array) -> Array:
    inner = 0.7978845608028654 * (x + 0.044715 * (x * x * x))
    result: Array = 0.5 * x * (1.0 + hyperbolic_tangent(inner))
    return result


def softplus(x: Array) -> Array:
    small = exponential(-np.abs(x))
    few = small < 0.4
    tail = np.where(few, _log_series(np.where(few, small, 0.0)), logarithm(1.0 + small))
    result: Array = np.where((x > 0) | np.isnan(x), x, 0.0) + tail
    return result


# --- atonc_unary: what each function computes and what a value takes, in the order of atonc_kernels.h. Written from the
# C file and not from the compiler's table (`ops/functions.py`); a test compares the two.

PLAIN, EXPONENTIAL, ERF = 20, 120, 4000  # cycles of a Cortex-M55; the last one makes a hundred divisions


@dataclass(frozen=True)
class Unary:
    name: str
    of: Callable[[Array, float, float], Array]  # of values, alpha and beta
    cycles: int = PLAIN
    jumps: bool = False  # sees what is quantised in single precision


def _one(name: str, of: Callable[[Array], Array], cycles: int = PLAIN, jumps: bool = False) -> Unary:
    return Unary(name, lambda x, alpha, beta: of(x), cycles, jumps)


def _sign(x: Array) -> Array:
    return np.where(x > 0, 1.0, np.where(x < 0, -1.0, np.where(np.isnan(x), x, 0.0)))


def _elu(x: Array, alpha: float, beta: float) -> Array:
    return np.where(x >= 0, x, alpha * exponential_minus_one(x))


UNARY: tuple[Unary, ...] = (
    _one("logistic", logistic, EXPONENTIAL),
    _one("tanh", hyperbolic_tangent, EXPONENTIAL),
    _one("hard_swish", lambda x: x * at_most(at_least(x + 3.0, 0.0), 6.0) / 6.0),
    _one("silu", lambda x: x * logistic(x), EXPONENTIAL),
    _one("mish", lambda x: x * hyperbolic_tangent(softplus(x)), EXPONENTIAL),
    _one("softplus", softplus, EXPONENTIAL),
    _one("exp", exponential, EXPONENTIAL),
    _one("log", logarithm, EXPONENTIAL),
    _one("sqrt", np.sqrt),
    _one("rsqrt", lambda x: 1.0 / np.sqrt(x)),
    _one("square", lambda x: x * x),
    _one("abs", np.abs),
    _one("neg", np.negative),
    _one("sign", _sign),
    _one("floor", np.floor, jumps=True),
    _one("ceil", np.ceil, jumps=True),
    _one("round", np.rint, jumps=True),
    _one("reciprocal", lambda x: 1.0 / x),
    _one("logical_not", lambda x: (x == 0).astype(np.float64)),
    Unary("leaky_relu", lambda x, alpha, beta: np.where(x >= 0, x, x * alpha)),
    Unary("elu", _elu, EXPONENTIAL),
    Unary("hard_sigmoid", lambda x, alpha, beta: at_most(at_least(x * alpha + beta, 0.0), 1.0)),
    _one("trunc", np.trunc),
    _one("erf", error_function, ERF),
    _one("gelu", gelu, ERF),
    _one("gelu_tanh", gelu_by_tanh, EXPONENTIAL),
)
