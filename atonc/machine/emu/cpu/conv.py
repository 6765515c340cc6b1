"""Convolution on the CPU, float and int8.

Published: layouts (weights are output channel, height, width, input channel of the group), groups, strides,
dilations, padding. Inferred: sums are exact here (float64, then one rounding), where the closed kernels add in
float32 or multiply by a fixed-point factor: at most 1 code apart.
"""

from __future__ import annotations

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.quantization import clip_codes, quantization, round_half_away
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, I32, Array, tensor
from atonc.machine.emu.cpu.windows import padded, read_window, taps

_INTEGER_KINDS = (
    "LL_SW_SSSA_PW_CONV",
    "LL_SW_SSSA_RGB_CONV",
    "LL_SW_SSSA_DW_CONV",
    "LL_SW_SSSA_DILATED_CONV",
    "LL_SW_SSSA_GENERIC_CONV",
    "LL_SW_GENERIC_CONV",
)


@layer("conv")
def conv(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    weights = tensor(info, "weights").read(memory, F32)
    result = convolve(source.read(memory, F32), weights, info, target.shape)
    if info.has("bias.mem.start_offset"):
        result = result + _per_channel(tensor(info, "bias").read(memory, F32), target.shape[3], info)
    target.write(memory, result.astype(F32), F32)


@layer("conv_integer")
def conv_integer(info: StructView, memory: AddressSpace) -> None:
    if info.enum("fwd_func") not in _INTEGER_KINDS:
        raise not_modelled(f"int8 convolution {info.enum('fwd_func') or '(none)'}", info)
    source, target, kernel = (tensor(info, name) for name in ("general.input", "general.output", "weights"))
    before = quantization(info, "is", "izp", memory)
    after = quantization(info, "os", "ozp", memory)
    by = quantization(info, "ws", "wzp", memory, target.shape[3])
    image = source.read(memory, source.code_type).astype(np.int64) - before.zero
    weights = kernel.read(memory, kernel.code_type).astype(np.int64) - by.zero.reshape(-1, 1, 1, 1)
    sums = convolve(image, weights, info, target.shape)
    if info.has("bias.mem.start_offset"):
        sums = sums + _per_channel(tensor(info, "bias").read(memory, I32), target.shape[3], info)
    factor = before.scale.astype(np.float64) * by.scale.astype(np.float64) / after.scale.astype(np.float64)
    target.write(memory, clip_codes(round_half_away(sums * factor) + after.zero, target.signed), target.code_type)


def _per_channel(values: Array, channels: int, info: StructView) -> Array:
    if values.size != channels:
        raise fail(f"{values.size} values for {channels} channels", f"{info.where}.bias")
    return values.reshape(channels).astype(np.float64)


def convolve(image: Array, weights: Array, info: StructView, out_shape: tuple[int, int, int, int]) -> Array:
    """Sums in float64: exact for integers, one rounding short of float32 for floats."""
    groups, outputs, depth = info.integer("ngroup", 1), weights.shape[0], weights.shape[3]
    if not 1 <= groups <= outputs or outputs != out_shape[3] or outputs % groups or image.shape[3] != groups * depth:
        raise fail(
            f"{image.shape[3]} channels, {groups} groups, weights {weights.shape} do not make {out_shape[3]} channels",
            info.where,
        )
    if image.shape[0] != out_shape[0]:
        raise fail("input and output differ in batch size", info.where)
    window = read_window(info, (weights.shape[1], weights.shape[2]), dilated=True)
    window.check(out_shape, outputs * depth, info.where)
    reached = padded(image.astype(np.float64), window, out_shape, 0.0)
    per_group = outputs // groups
    pixels = out_shape[0] * out_shape[1] * out_shape[2]
    total = np.zeros((groups, pixels, per_group))
    for row, column, under in taps(reached, window, out_shape):
        left = under.reshape(pixels, groups, depth).transpose(1, 0, 2)
        right = weights[:, row, column].reshape(groups, per_group, depth).transpose(0, 2, 1)
        total += left @ right.astype(np.float64)
    return total.transpose(1, 0, 2).reshape(out_shape)
