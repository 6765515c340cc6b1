"""ST's layers on the CPU whose windows slide over an image, matrix products and resizes, float and int8.

Published: windows, layouts (weights are output channel, height, width, input channel of the group), groups, strides,
dilations, padding and whether it counts in an average; operands and transposition flags, and that int8 products run as
one fully connected layer whose weights are stored [output][input] and whose bias QLinearMatMul clears first; mode,
coordinate rule and scales of a resize (in ONNX order: the last two count), and that its int8 kernels get no
quantisation, so they work on codes.

Inferred: sums are exact here (float64, then one rounding), where the closed kernels add in float32 or multiply by a
fixed-point factor: at most 1 code apart; int8 averages compute in real numbers and round once, int8 maxima work on the
codes, so input and output must be quantised alike; the matrices of a float product are the H and W axes (the last two
in ONNX); coordinates in float32 as ONNX defines them, positions outside repeat the edge, int8 resizes rounded half away
from zero like TFLite's: at most 1 apart, and equal where the scale is a power of two.

Positions outside the image have no value, whatever the padding at the far ends says: the output size decides how many
windows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.st_math import clip_codes, quantization, read_real, round_half_away, write_codes
from atonc.machine.emu.cpu.struct_view import StructView, fail, layer, not_modelled
from atonc.machine.emu.cpu.tensors import F32, I32, Array, KernelTensor, tensor, vector

MAX_WORK = 1 << 36  # multiplications or comparisons: more than any layer that a board could run


@dataclass(frozen=True)
class KernelWindow:
    kernel: tuple[int, int]  # height, width
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]  # top, left, bottom, right, as ONNX orders them

    def check(self, out_shape: tuple[int, ...], work_per_tap: int, where: str) -> None:
        (kh, kw), taps = self.kernel, self.kernel[0] * self.kernel[1]
        if min(kh, kw) < 1 or min(self.strides + self.dilations) < 1 or not all(0 <= p < 1 << 16 for p in self.pads):
            raise fail("impossible kernel, stride, dilation or padding", where)
        if taps > 1 << 16 or out_shape[0] * out_shape[1] * out_shape[2] * taps * work_per_tap > MAX_WORK:
            raise fail("the layer is larger than any board could run", where)


def read_window(info: StructView, kernel: tuple[int, int], dilated: bool) -> KernelWindow:
    strides = info.integers("strides", 2)
    dilations = info.integers("dilations", 2) if dilated and info.has("dilations") else (1, 1)
    pads = info.integers("pads", 4) if info.has("pads") else (0, 0, 0, 0)
    return KernelWindow(
        kernel, (strides[0], strides[1]), (dilations[0], dilations[1]), (pads[0], pads[1], pads[2], pads[3])
    )


def padded(image: Array, window: KernelWindow, out_shape: tuple[int, ...], fill: float) -> Array:
    """The image with every position that some window reaches."""
    _, height, width, _ = image.shape
    need = [
        (out_shape[1 + k] - 1) * window.strides[k] + (window.kernel[k] - 1) * window.dilations[k] + 1 for k in (0, 1)
    ]
    top, left = window.pads[:2]
    after = (max(0, need[0] - top - height), max(0, need[1] - left - width))
    if (top + height + after[0]) * (left + width + after[1]) * image.shape[0] * image.shape[3] > 1 << 26:
        raise fail("the padded image is larger than any memory of the board", "pads")
    return np.pad(image, ((0, 0), (top, after[0]), (left, after[1]), (0, 0)), constant_values=fill)


def taps(image: Array, window: KernelWindow, out_shape: tuple[int, ...]) -> Iterator[tuple[int, int, Array]]:
    """For each kernel position its row, column and the pixels under it, one per output pixel."""
    _, height, width, _ = out_shape
    (sh, sw), (dh, dw) = window.strides, window.dilations
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            y, x = row * dh, column * dw
            yield row, column, image[:, y : y + (height - 1) * sh + 1 : sh, x : x + (width - 1) * sw + 1 : sw]


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


def _window(info: StructView) -> KernelWindow:
    height, width = info.integers("k_shape", 2)
    return read_window(info, (height, width), dilated=False)


def _whole_image(info: StructView) -> KernelWindow:
    _, height, width, _ = tensor(info, "general.input").shape
    return KernelWindow((height, width), (1, 1), (1, 1), (0, 0, 0, 0))


def _pool_float(info: StructView, memory: AddressSpace, window_of: Callable[[StructView], KernelWindow]) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    target.write(memory, pooled(source.read(memory, F32), window_of(info), info, target.shape).astype(F32), F32)


def _pool_integer(info: StructView, memory: AddressSpace, window_of: Callable[[StructView], KernelWindow]) -> None:
    window = window_of(info)
    if info.enum("general.type") == "LL_SW_AVGPOOL" and window.pads[:2] != window.pads[2:]:
        # the published wrapper hands the paddings over in reverse here, and only here
        raise not_modelled("an int8 average with different padding at both ends", info)
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


layer("pool")(partial(_pool_float, window_of=_window))
layer("global_pool")(partial(_pool_float, window_of=_whole_image))
layer("pool_integer")(partial(_pool_integer, window_of=_window))
layer("global_pool_integer")(partial(_pool_integer, window_of=_whole_image))


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


def _planes(values: Array) -> Array:
    """B, H, W, C to matrices H x W per batch and channel."""
    return values.transpose(0, 3, 1, 2).astype(np.float64)


def _unplanes(values: Array) -> Array:
    return values.transpose(0, 2, 3, 1)


def _product(a: Array, b: Array, info: StructView) -> Array:
    batches_fit = all(1 in (x, y) or x == y for x, y in zip(a.shape[:2], b.shape[:2], strict=True))
    if a.shape[3] != b.shape[2] or not batches_fit:
        raise fail(f"matrices {a.shape} and {b.shape} cannot be multiplied", info.where)
    if max(a.shape[0], b.shape[0]) * max(a.shape[1], b.shape[1]) * a.shape[2] * a.shape[3] * b.shape[3] > MAX_WORK:
        raise fail("the product is larger than any board could run", info.where)
    result: Array = a @ b
    return result


@layer("matmul")
def matmul(info: StructView, memory: AddressSpace) -> None:
    a, b = (_planes(tensor(info, name).read(memory, F32)) for name in ("general.input", "operand_b"))
    tensor(info, "general.output").write(memory, _unplanes(_product(a, b, info)).astype(F32), F32)


@layer("gemm")
def gemm(info: StructView, memory: AddressSpace) -> None:
    a, b = (_planes(tensor(info, name).read(memory, F32)) for name in ("general.input", "operand_b"))
    a = a.swapaxes(2, 3) if info.integer("tA") else a
    b = b.swapaxes(2, 3) if info.integer("tB") else b
    result = info.number("alpha", 1.0) * _product(a, b, info)
    if info.has("operand_c.mem.start_offset"):
        c = _planes(tensor(info, "operand_c").read(memory, F32))
        if any(n not in (1, of) for n, of in zip(c.shape, result.shape, strict=True)):
            raise fail(f"addend {c.shape} does not fit {result.shape}", info.where)
        result = result + info.number("beta", 1.0) * c
    tensor(info, "general.output").write(memory, _unplanes(result).astype(F32), F32)


def _fully_connected(info: StructView, memory: AddressSpace, clear_bias: bool) -> None:
    source, target, kernel = (tensor(info, name) for name in ("general.input", "general.output", "weights"))
    inputs, outputs = source.elements, target.elements
    if source.shape[0] != 1 or kernel.elements != inputs * outputs:
        raise not_modelled(f"an int8 product of {source.shape} with {kernel.shape}", info, "only vectors are published")
    before, after = quantization(info, "is", "izp", memory), quantization(info, "os", "ozp", memory)
    by = quantization(info, "ws", "wzp", memory, outputs)
    vector = source.read(memory, source.code_type).reshape(inputs).astype(np.int64) - before.zero
    # stored [output][input]: the order in memory counts, not how the four sizes are named
    matrix = memory.read(kernel.address, kernel.elements).view(kernel.code_type).reshape(outputs, inputs)
    sums = (matrix.astype(np.int64) - by.zero.reshape(-1, 1)) @ vector + _bias(info, outputs, memory, clear_bias)
    factor = before.scale.astype(np.float64) * by.scale.astype(np.float64) / after.scale.astype(np.float64)
    codes = clip_codes(round_half_away(sums * factor) + after.zero, target.signed)
    target.write(memory, codes.reshape(target.shape), target.code_type)


layer("qlinearmatmul")(partial(_fully_connected, clear_bias=True))
layer("gemm_integer")(partial(_fully_connected, clear_bias=False))


def _bias(info: StructView, outputs: int, memory: AddressSpace, clear: bool) -> Array:
    if not info.has("bias.mem.start_offset"):
        return np.zeros(outputs, np.int64)
    bias = tensor(info, "bias")
    if bias.elements != outputs:
        raise fail(f"{bias.elements} values for {outputs} outputs", bias.where)
    raw = memory.view(bias.address, 4 * outputs)
    if clear:
        raw[:] = 0
    return raw.view(I32).astype(np.int64)


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
