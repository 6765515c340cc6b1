"""Numbers of ST's layers on the CPU: scales, zero points and rounding, conversions between them, and softmax.

Published: the rounding to even (`ai_lite_math_helpers.h` of the runtime); tensors, scales and zero points, and that one
conversion routine does the work; axis and shapes of a softmax, and for int8 the multiplier, shift and smallest
difference, which are exactly the prepared parameters of TFLite's int8 kernel; that kernel takes no output scale, so it
must be TFLite's 1/256 with zero point -128.

Inferred: that the float-to-code conversion uses that rounding, and that integer layers round half away from zero, as
the reference kernels of TFLite do; the formulas of conversions, those of ONNX and TFLite: code = round(value / scale) +
zero point with ties to even, value = (code - zero point) * scale in float32; that the arithmetic of softmax is TFLite's
as well (float: exp(x - max) / sum; here in double precision by operations that give the same bits on every machine,
rounded once).
"""

from __future__ import annotations

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.atonc_numbers import exponential
from atonc.machine.emu.cpu.struct_view import StructView, fail, layer, not_modelled
from atonc.machine.emu.cpu.tensors import F32, I8, U8, Array, KernelTensor, onnx_axis, tensor, vector

_HUGE = np.float32(1 << 30)  # beyond it the conversion to int saturates; every code has been clipped long before


@dataclass(frozen=True)
class Quantization:
    """One scale and zero point, or one pair per channel (the last axis)."""

    scale: Array  # float32
    zero: Array  # int64

    @property
    def is_per_tensor(self) -> bool:
        return self.scale.size == 1 and self.zero.size == 1

    def same_as(self, other: Quantization) -> bool:
        return np.array_equal(self.scale, other.scale) and np.array_equal(self.zero, other.zero)


def quantization(
    info: StructView, scale: str, zero: str, memory: AddressSpace, channels: int = 1, *, sign_from_scale: bool = False
) -> Quantization:
    """Reads scale and zero point tensors; `channels` is the only other length allowed besides 1.

    `sign_from_scale`: the published wrapper of this layer takes the zero point's sign from the scale's description.
    """
    scales = vector(info, scale, memory, F32)
    zeros = _zero_points(info, scale if sign_from_scale else zero, zero, memory)
    for part, values in ((scale, scales), (zero, zeros)):
        if values.size not in (1, channels):
            raise fail(f"{values.size} values for {channels} channels", f"{info.where}.{part}")
    if not np.all(np.isfinite(scales)) or not np.all(scales > 0):
        raise fail("a scale must be a positive number", f"{info.where}.{scale}")
    return Quantization(scales, zeros)


_CODES = {"izp": "general.input", "ozp": "general.output", "operand_zp": "operand"}  # what a zero point is a code of


def _zero_points(info: StructView, asked: str, zero: str, memory: AddressSpace) -> Array:
    """A zero point is a code of its tensor. Where both are described alike, the description of the scale, which is a
    float, says nothing against it: releases call scales unsigned beside signed codes.

    Inferred, with these witnesses. In 34 published networks the two descriptions differ in 403 places: the zero point
    is always signed like the codes, the scale unsigned, never the other way round; in 264 the value depends on it. 48
    of those are conversions: 9 in three builds of ch_PP-OCRv4_det, 39 in a network of Compal-Project-TOM
    (NUCLEO-N657X0-Q-AI-TEST at 352302be; it stops later, at a Gather), whose conversions would saturate throughout if
    the scale's sign counted. The others are resizes, convolutions, softmax and functions, also in ST's own demos.
    """
    signed, asked_signed = (bool(info.integer(f"{part}.format.is_signed")) for part in (zero, asked))
    raw = vector(info, zero, memory, U8)
    codes = _CODES.get(zero)
    like_codes = codes is not None and bool(info.integer(f"{codes}.format.is_signed")) == signed
    if signed != asked_signed and not like_codes and np.any(raw > 127):
        raise NotModelledError(
            "the zero point is called signed in one place and unsigned in another, and its value depends on it",
            where=f"{info.where}.{zero}",
        )
    return raw.view(I8 if signed else U8).astype(np.int64)


def round_to_even_f32(values: Array) -> Array:
    """The runtime's published helper: adds half in float32, truncates, then mends ties."""
    clipped = np.clip(np.nan_to_num(values.astype(F32)), -_HUGE, _HUGE)
    moved = clipped + np.where(clipped >= 0, F32.type(0.5), F32.type(-0.5))
    whole = moved.astype(np.int64)
    odd_tie = (whole.astype(F32) == moved) & (whole & 1 == 1)
    rounded: Array = whole - np.where(odd_tie, np.where(whole < 0, -1, 1), 0)
    return rounded


def round_half_away(values: Array) -> Array:
    """Nearest integer, ties away from zero, of float64 values."""
    clipped = np.clip(np.nan_to_num(values), -(2.0**52), 2.0**52)
    rounded: Array = (np.sign(clipped) * np.floor(np.abs(clipped) + 0.5)).astype(np.int64)
    return rounded


def clip_codes(codes: Array, signed: bool) -> Array:
    low, high = (-128, 127) if signed else (0, 255)
    clipped: Array = np.clip(codes, low, high).astype(I8 if signed else U8)
    return clipped


def dequantize(codes: Array, by: Quantization) -> Array:
    """float32, as the runtime has it: (code - zero point) * scale."""
    result: Array = (codes.astype(np.int64) - by.zero).astype(F32) * by.scale
    return result


def real_values(codes: Array, by: Quantization) -> Array:
    """The same in float64, for integer layers whose exact order of operations is not published."""
    result: Array = (codes.astype(np.int64) - by.zero) * by.scale.astype(np.float64)
    return result


def requantize(values: Array, by: Quantization, signed: bool) -> Array:
    """float64 values to codes, one rounding."""
    codes = round_half_away(values / by.scale.astype(np.float64)) + by.zero
    return clip_codes(codes, signed)


def read_real(source: KernelTensor, by: Quantization, memory: AddressSpace) -> Array:
    return real_values(source.read(memory, source.code_type), by)


def write_codes(target: KernelTensor, values: Array, by: Quantization, memory: AddressSpace) -> None:
    target.write(memory, requantize(values, by, target.signed), target.code_type)


@layer("quantizelinear")
def quantizelinear(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    by = quantization(info, "os", "ozp", memory, target.shape[3], sign_from_scale=True)
    codes = round_to_even_f32(source.read(memory, F32) / by.scale) + by.zero
    target.write(memory, clip_codes(codes, target.signed), target.code_type)


@layer("dequantizelinear")
def dequantizelinear(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    by = quantization(info, "is", "izp", memory, source.shape[3], sign_from_scale=True)
    target.write(memory, dequantize(source.read(memory, source.code_type), by), F32)


@layer("requantizelinear")
def requantizelinear(info: StructView, memory: AddressSpace) -> None:
    """Rounds half away from zero, as TFLite's integer requantisation does (inferred; at most 1 apart)."""
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    before = quantization(info, "is", "izp", memory, source.shape[3], sign_from_scale=True)
    after = quantization(info, "os", "ozp", memory, target.shape[3], sign_from_scale=True)
    write_codes(target, read_real(source, before, memory), after, memory)


# Fixed-point functions of gemmlowp on whole arrays: what TFLite's int8 softmax is made of. Numbers are raw int32 values
# held in int64; "Qm" has m integer bits and 31 - m fraction bits.

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


_SUM_BITS = 12  # integer bits of the accumulated exponentials


@layer("softmax")
def softmax(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    target.write(memory, softmax_float(source.read(memory, F32), onnx_axis(info)), F32)


def softmax_float(values: Array, axis: int) -> Array:
    wide = values.astype(np.float64)
    exps = exponential(wide - wide.max(axis=axis, keepdims=True))
    result: Array = (exps / np.add.accumulate(exps, axis=axis).take([-1], axis=axis)).astype(F32)
    return result


@layer("softmax_integer")
def softmax_integer(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    if source.signed != target.signed:
        raise not_modelled("a softmax between int8 and uint8", info)
    _require_tflite_output(info, target.signed, memory)
    multiplier, shift = info.integer("quantized_multiplier"), info.integer("left_shift")
    diff_min = info.integer("diff_min")
    if not 0 < multiplier < 1 << 31 or not 0 <= shift <= 31 or not -(1 << 31) <= diff_min <= 0:
        raise fail("impossible softmax parameters", info.where)
    codes = source.read(memory, source.code_type).astype(np.int64)
    result = softmax_codes(codes, onnx_axis(info), multiplier, shift, diff_min, target.signed)
    target.write(memory, result, target.code_type)


def _require_tflite_output(info: StructView, signed: bool, memory: AddressSpace) -> None:
    if not info.has("os.mem.start_offset"):
        return
    after = quantization(info, "os", "ozp", memory)
    if abs(float(after.scale[0]) * 256 - 1) > 1e-4 or int(after.zero[0]) != (-128 if signed else 0):
        raise not_modelled("an integer softmax whose output is not scaled by 1/256 from the lowest code", info)


def softmax_codes(codes: Array, axis: int, multiplier: int, shift: int, diff_min: int, signed: bool) -> Array:
    """TFLite's reference integer softmax. The exponential depends on the difference only: one table of 256 entries."""
    differences = np.arange(256, dtype=np.int64) * -1
    rescaled = multiply_high(np.clip(differences << shift, -(1 << 31), 0), multiplier)
    table = np.where(differences >= diff_min, exp_on_negative_values(rescaled), 0)
    exps = table[codes.max(axis=axis, keepdims=True) - codes]
    sums = divide_by_power_of_two(exps, _SUM_BITS).sum(axis=axis, keepdims=True)
    if int(sums.max()) >= 1 << 31:
        raise fail(f"{codes.shape[axis]} elements are too many for one softmax", "softmax_integer")
    scale, bits_over_unit = reciprocal(sums, _SUM_BITS)
    outputs = divide_by_power_of_two(multiply_high(scale, exps), bits_over_unit + 31 - 8)
    return clip_codes(np.where(exps == 0, 0, outputs) - (128 if signed else 0), signed)
