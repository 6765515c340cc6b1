"""Scales, zero points and rounding of the software layers.

Published (`ai_lite_math_helpers.h` of the runtime): the rounding to even. Inferred: that the float-to-code conversion
uses it, and that integer layers round half away from zero, as the reference kernels of TFLite do.
"""

from __future__ import annotations

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, I8, U8, Array, KernelTensor, vector

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
