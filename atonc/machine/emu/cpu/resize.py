"""Resize on the CPU, float and int8.

Published: mode, coordinate rule, scales (in ONNX order: the last two count), and that the int8 kernels get no
quantisation, so they work on codes. Inferred: coordinates in float32 as ONNX defines them, positions outside repeat
the edge, int8 results rounded half away from zero like TFLite's: at most 1 apart, and equal where the scale is a
power of two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.quantization import clip_codes, quantization, round_half_away
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, Array, KernelTensor, tensor, vector

_HALF = np.float32(0.5)
# output position, scale, input size, output size -> input position
Coordinates = Callable[[Array, np.float32, int, int], Array]

COORDINATES: dict[str, Coordinates] = {
    "HALF_PIXEL": lambda x, s, n, m: (x + _HALF) / s - _HALF,
    "PYTORCH_HALF_PIXEL": lambda x, s, n, m: (x + _HALF) / s - _HALF if m > 1 else np.zeros_like(x),
    "ALIGN_CORNERS": lambda x, s, n, m: x * np.float32(n - 1) / np.float32(m - 1) if m > 1 else np.zeros_like(x),
    "ASYMMETRIC": lambda x, s, n, m: x / s,
    "TF_HALF_PIXEL_FOR_NN": lambda x, s, n, m: (x + _HALF) / s,
}
NEAREST: dict[str, Callable[[Array], Array]] = {
    "ROUND_PREFER_FLOOR": lambda x: np.ceil(x - _HALF),
    "ROUND_PREFER_CEIL": lambda x: np.floor(x + _HALF),
    "FLOOR": np.floor,
    "CEIL": np.ceil,
}


@layer("resize")
def resize(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    target.write(memory, _resized(source.read(memory, F32), info, target, memory).astype(F32), F32)


@layer("resize_integer")
def resize_integer(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    _require_equal_quantization(info, memory)
    if source.signed != target.signed:
        raise not_modelled("a resize between int8 and uint8", info)
    result = _resized(source.read(memory, source.code_type), info, target, memory)
    if result.dtype.kind == "f":
        result = clip_codes(round_half_away(result.astype(np.float64)), target.signed)
    target.write(memory, result, target.code_type)


def _require_equal_quantization(info: StructView, memory: AddressSpace) -> None:
    names = ("is", "izp", "os", "ozp")
    if not info.has("ozp.mem.start_offset") and info.integer("sizes.dim.num_elem") == 1:
        names = ("sizes", "is", "izp", "os")  # release 3.0.0 names them one position too early
    if not all(info.has(f"{name}.mem.start_offset") for name in names):
        return
    before, after = (quantization(info, names[k], names[k + 1], memory) for k in (0, 2))
    if not before.same_as(after):
        raise not_modelled("an int8 resize between different quantisations", info)


def _resized(image: Array, info: StructView, target: KernelTensor, memory: AddressSpace) -> Array:
    if image.shape[0] != target.shape[0] or image.shape[3] != target.shape[3]:
        raise fail(f"a resize from {image.shape} to {target.shape} would change batch or channels", info.where)
    mode = info.enum("mode")
    rows, columns = (_positions(info, axis, image.shape[axis], target.shape[axis], memory) for axis in (1, 2))
    if mode == "RESIZE_NEAREST":
        return _nearest(image, rows, columns, info)
    if mode == "RESIZE_LINEAR":
        return _along(_along(image.astype(F32), rows, 1), columns, 2)
    raise not_modelled(f"resize mode {mode or 'RESIZE_ZEROS'}", info)


def _positions(info: StructView, axis: int, size: int, out_size: int, memory: AddressSpace) -> Array:
    rule = info.enum("coord_transf_mode") or "HALF_PIXEL"  # what zero means in C
    scale = vector(info, "scales", memory, F32, at_least=4)[axis + 1]
    if not np.isfinite(scale) or scale <= 0:
        raise fail("a scale must be a positive number", f"{info.where}.scales")
    if rule not in COORDINATES:
        raise not_modelled(f"coordinate rule {rule}", info)
    return COORDINATES[rule](np.arange(out_size, dtype=F32), scale, size, out_size)


def _nearest(image: Array, rows: Array, columns: Array, info: StructView) -> Array:
    mode = info.enum("nearest_mode") or "ROUND_PREFER_FLOOR"
    if mode not in NEAREST:
        raise not_modelled(f"nearest mode {mode}", info)
    picks = [
        np.clip(NEAREST[mode](p), 0, n - 1).astype(np.int64)
        for p, n in ((rows, image.shape[1]), (columns, image.shape[2]))
    ]
    return image[:, picks[0]][:, :, picks[1]]


def _along(image: Array, positions: Array, axis: int) -> Array:
    """Linear interpolation along one axis, in float32."""
    inside = np.clip(positions, 0, image.shape[axis] - 1)
    low = np.floor(inside).astype(np.int64)
    high = np.minimum(low + 1, image.shape[axis] - 1)
    weight = (inside - low.astype(F32)).reshape([-1 if k == axis else 1 for k in range(4)])
    result: Array = np.take(image, low, axis) * (F32.type(1) - weight) + np.take(image, high, axis) * weight
    return result
