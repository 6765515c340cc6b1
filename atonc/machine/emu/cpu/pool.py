"""Pooling on the CPU, float and int8.

Published: windows, padding and whether padding counts in an average. Inferred: int8 averages compute in real numbers
and round once; int8 maxima work on the codes, so input and output must be quantised alike.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.quantization import quantization, read_real, write_codes
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, Array, tensor
from atonc.machine.emu.cpu.windows import KernelWindow, padded, read_window, taps


@layer("pool")
def pool(info: StructView, memory: AddressSpace) -> None:
    _pool_float(info, _window(info), memory)


@layer("global_pool")
def global_pool(info: StructView, memory: AddressSpace) -> None:
    _pool_float(info, _whole_image(info), memory)


@layer("pool_integer")
def pool_integer(info: StructView, memory: AddressSpace) -> None:
    window = _window(info)
    if info.enum("general.type") == "LL_SW_AVGPOOL" and window.pads[:2] != window.pads[2:]:
        # the published wrapper hands the paddings over in reverse here, and only here
        raise not_modelled("an int8 average with different padding at both ends", info)
    _pool_integer(info, window, memory)


@layer("global_pool_integer")
def global_pool_integer(info: StructView, memory: AddressSpace) -> None:
    _pool_integer(info, _whole_image(info), memory)


def _window(info: StructView) -> KernelWindow:
    height, width = info.integers("k_shape", 2)
    return read_window(info, (height, width), dilated=False)


def _whole_image(info: StructView) -> KernelWindow:
    _, height, width, _ = tensor(info, "general.input").shape
    return KernelWindow((height, width), (1, 1), (1, 1), (0, 0, 0, 0))


def _pool_float(info: StructView, window: KernelWindow, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    target.write(memory, pooled(source.read(memory, F32), window, info, target.shape).astype(F32), F32)


def _pool_integer(info: StructView, window: KernelWindow, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    before = quantization(info, "is", "izp", memory, sign_from_scale=True)
    after = quantization(info, "os", "ozp", memory, sign_from_scale=True)
    if info.enum("general.type") == "LL_SW_AVGPOOL":
        write_codes(target, pooled(read_real(source, before, memory), window, info, target.shape), after, memory)
        return
    if not before.same_as(after) or source.signed != target.signed:
        raise not_modelled("an int8 maximum between different quantisations", info)
    codes = source.read(memory, source.code_type)
    target.write(memory, pooled(codes, window, info, target.shape), target.code_type)


def pooled(image: Array, window: KernelWindow, info: StructView, out_shape: tuple[int, int, int, int]) -> Array:
    window.check(out_shape, out_shape[3], info.where)
    if image.shape[0] != out_shape[0] or image.shape[3] != out_shape[3]:
        raise fail(f"input {image.shape} and output {out_shape} do not fit", info.where)
    kind = info.enum("general.type")
    if kind == "LL_SW_MAXPOOL":
        lowest = -np.inf if image.dtype.kind == "f" else np.iinfo(image.dtype).min
        reached = padded(image, window, out_shape, lowest)
        return reduce(np.maximum, (under for _, _, under in taps(reached, window, out_shape)))
    if kind != "LL_SW_AVGPOOL":
        raise not_modelled(f"pooling {kind or '(none)'}", info)
    return _average(image.astype(np.float64), window, info, out_shape)


def _average(image: Array, window: KernelWindow, info: StructView, out_shape: tuple[int, int, int, int]) -> Array:
    total = sum(under for _, _, under in taps(padded(image, window, out_shape, 0.0), window, out_shape))
    if info.integer("count_include_pad"):
        return np.asarray(total / (window.kernel[0] * window.kernel[1]))
    inside = np.ones((1, image.shape[1], image.shape[2], 1))
    counted = sum(under for _, _, under in taps(padded(inside, window, out_shape, 0.0), window, out_shape))
    return np.asarray(total / np.maximum(counted, 1))
