"""Softmax on the CPU, float and int8.

Published: axis and shapes, and for int8 the multiplier, shift and smallest difference, which are exactly the prepared
parameters of TFLite's int8 kernel; the kernel takes no output scale, so it must be TFLite's 1/256 with zero point -128.
Inferred: that the arithmetic is TFLite's as well (float: exp(x - max) / sum; here in double precision by operations
that give the same bits on every machine, rounded once).
"""

from __future__ import annotations

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.atonc_numbers import exponential
from atonc.machine.emu.cpu.gemmlowp import divide_by_power_of_two, exp_on_negative_values, multiply_high, reciprocal
from atonc.machine.emu.cpu.quantization import clip_codes, quantization
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, Array, onnx_axis, tensor

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
