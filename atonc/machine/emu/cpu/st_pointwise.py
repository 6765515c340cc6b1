"""ST's layers on the CPU for one value at a time, for pairs of them, along an axis, and those that only move elements.

Published: the formula of every float function (macros of the runtime's math header), operations and operands (sizes of
1 are broadcast), axes, neutral values (a maximum starts from 0, so it is never negative), epsilon, the whole batch
normalisation, the sign macro (zero counts as negative); of moves all but the closed copy loops. Inferred: int8 layers
compute in real numbers and round once; the order of summation (float64 here) and ties of arg-max.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from functools import reduce as fold
from math import prod
from typing import Any

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.st_math import Quantization, quantization, read_real, real_values, write_codes
from atonc.machine.emu.cpu.struct_view import StructView, fail, layer, not_modelled
from atonc.machine.emu.cpu.tensors import F32, I8, I32, MAX_ELEMENTS, Array, onnx_axis, tensor

Function = Callable[[Array, StructView], Array]

_erf = np.frompyfunc(math.erf, 1, 1)


def _f32(value: float) -> np.float32:
    return np.float32(value)


def _sigmoid(x: Array) -> Array:
    result: Array = _f32(1) / (_f32(1) + np.exp(-x))
    return result


def _clipped_line(x: Array, slope: np.float32, offset: np.float32) -> Array:
    result: Array = np.clip(x * slope + offset, _f32(0), _f32(1))
    return result


def _elu(x: Array, alpha: np.float32) -> Array:
    result: Array = np.maximum(x, 0) + np.minimum(_f32(0), alpha * (np.exp(x) - _f32(1)))
    return result


def _error_function(x: Array) -> Array:
    return np.asarray(_erf(x), F32)


def _gelu(x: Array) -> Array:
    result: Array = x / _f32(2) * (_f32(1) + _error_function(x / np.sqrt(_f32(2))))
    return result


def _round_away(x: Array) -> Array:
    result: Array = np.copysign(np.floor(np.abs(x) + _f32(0.5)), x)
    return result


def _plain(function: Callable[[Array], Array]) -> Function:
    return lambda x, info: function(x)


FUNCTIONS: dict[str, Function] = {
    "LL_SW_RELU": _plain(lambda x: np.where(x <= 0, _f32(0), x)),
    "LL_SW_CLIP": lambda x, i: np.minimum(np.maximum(x, _f32(i.number("min"))), _f32(i.number("max"))),
    "LL_SW_ELU": lambda x, i: _elu(x, _f32(i.number("alpha"))),
    "LL_SW_SELU": lambda x, i: _f32(i.number("gamma")) * _elu(x, _f32(i.number("alpha"))),
    "LL_SW_THRESHOLDEDRELU": lambda x, i: np.where(x <= _f32(i.number("alpha")), _f32(0), x),
    "LL_SW_HARDSIGMOID": lambda x, i: _clipped_line(x, _f32(i.number("alpha")), _f32(i.number("beta"))),
    "LL_SW_HARDSWISH": _plain(lambda x: x * _clipped_line(x, _f32(1) / _f32(6), _f32(0.5))),
    "LL_SW_SIGMOID": _plain(_sigmoid),
    "LL_SW_SWISH": _plain(lambda x: x * _sigmoid(x)),
    "LL_SW_GELU": _plain(_gelu),
    "LL_SW_SOFTPLUS": _plain(lambda x: np.log(_f32(1) + np.exp(x))),
    "LL_SW_SOFTSIGN": _plain(lambda x: x / (_f32(1) + np.abs(x))),
    "LL_SW_ERF": _plain(_error_function),
    "LL_SW_ROUND": _plain(_round_away),
    "LL_SW_RECIPROCAL": _plain(lambda x: _f32(1) / x),
    "LL_SW_NEG": _plain(np.negative),
    "LL_SW_ABS": _plain(np.abs),
    "LL_SW_CEIL": _plain(np.ceil),
    "LL_SW_FLOOR": _plain(np.floor),
    "LL_SW_EXP": _plain(np.exp),
    "LL_SW_LOG": _plain(np.log),
    "LL_SW_SQRT": _plain(np.sqrt),
    "LL_SW_SIN": _plain(np.sin),
    "LL_SW_COS": _plain(np.cos),
    "LL_SW_TAN": _plain(np.tan),
    "LL_SW_SINH": _plain(np.sinh),
    "LL_SW_COSH": _plain(np.cosh),
    "LL_SW_TANH": _plain(np.tanh),
    "LL_SW_ASIN": _plain(np.arcsin),
    "LL_SW_ACOS": _plain(np.arccos),
    "LL_SW_ATAN": _plain(np.arctan),
    "LL_SW_ASINH": _plain(np.arcsinh),
    "LL_SW_ACOSH": _plain(np.arccosh),
    "LL_SW_ATANH": _plain(np.arctanh),
}


@layer("activ")
def activ(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    values, kind = source.read(memory, F32), info.enum("general.type")
    if kind == "LL_SW_PRELU":
        slope = tensor(info, "operand")
        result = np.where(values <= 0, values * slope_for(slope.read(memory, F32), values.shape, slope.where), values)
    elif kind in FUNCTIONS:
        result = FUNCTIONS[kind](values, info)
    else:
        raise not_modelled(f"activation {kind or '(none)'}", info)
    target.write(memory, result, F32)


def slope_for(slope: Array, shape: tuple[int, ...], where: str) -> Array:
    """Slopes for a tensor. ST's compiler writes the number of channels before those of float layers."""
    channels = shape[3]
    if slope.shape == (1, 1, 1, channels + 1) and slope[0, 0, 0, 0] == channels:
        slope = slope[..., 1:]
    if any(n not in (1, of) for n, of in zip(slope.shape, shape, strict=True)):
        raise fail(f"slopes of shape {slope.shape} do not fit {shape}", where)
    return slope


@layer("activ_integer")
def activ_integer(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    before = quantization(info, "is", "izp", memory, source.shape[3])
    after = quantization(info, "os", "ozp", memory, target.shape[3])
    values, kind = read_real(source, before, memory), info.enum("general.type")
    if kind == "LL_SW_RELU":
        result: Array = np.maximum(values, 0.0)
    elif kind == "LL_SW_PRELU":
        slope = slope_for(_quantised_slope(info, memory), values.shape, info.where)
        result = np.where(values <= 0, values * slope, values)
    else:
        raise not_modelled(f"int8 activation {kind or '(none)'}", info)
    write_codes(target, result, after, memory)


def _quantised_slope(info: StructView, memory: AddressSpace) -> Array:
    """Slopes are codes with their own scale, or plain floats where they have none."""
    slope = tensor(info, "operand")
    if not info.has("operand_s.mem.start_offset"):
        return slope.read(memory, F32).astype(np.float64)
    by: Quantization = quantization(info, "operand_s", "operand_zp", memory, slope.shape[3])
    return real_values(slope.read(memory, slope.code_type), by)


Operation = Callable[[Array, Array], Array]

OPERATIONS: dict[str, Operation] = {
    "LL_SW_ARITHADD": np.add,
    "LL_SW_ARITHSUM": np.add,
    "LL_SW_ARITHSUB": np.subtract,
    "LL_SW_ARITHMUL": np.multiply,
    "LL_SW_ARITHDIV": np.divide,
    "LL_SW_POW": np.power,
    "LL_SW_MIN": np.minimum,
    "LL_SW_MAX": np.maximum,
    "LL_SW_MOD": np.fmod,  # the runtime calls it floor-mod, but its macro is C's fmodf
}
_INTEGER = ("LL_SW_ARITHSUM", "LL_SW_ARITHSUB", "LL_SW_ARITHMUL", "LL_SW_ARITHDIV")


@layer("arith")
def arith(info: StructView, memory: AddressSpace) -> None:
    kind = info.enum("general.type")
    if kind not in OPERATIONS:
        raise not_modelled(f"element-wise operation {kind or '(none)'}", info)
    target = tensor(info, "general.output")
    operands = [tensor(info, name).read(memory, F32) for name in _operand_names(info, kind)]
    target.write(memory, fold(_broadcasting(OPERATIONS[kind], info), operands), F32)


def _operand_names(info: StructView, kind: str) -> list[str]:
    """Only a sum uses the third and fourth operand."""
    count = info.integer("num_of_inputs", 2) if kind == "LL_SW_ARITHSUM" else 2
    names = ["general.input", "operand", "operand1", "operand2"]
    return names[:count] if count in (3, 4) else names[:2]


def _broadcasting(operation: Operation, info: StructView) -> Operation:
    def apply(a: Array, b: Array) -> Array:
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError as cause:
            raise fail(f"shapes {a.shape} and {b.shape} do not fit each other", info.where) from cause
        return operation(a, b)

    return apply


@layer("eltwise_integer")
def eltwise_integer(info: StructView, memory: AddressSpace) -> None:
    kind = info.enum("general.type")
    if kind not in _INTEGER:
        raise not_modelled(f"int8 element-wise operation {kind or '(none)'}", info)
    left, right, target = (tensor(info, name) for name in ("general.input", "operand", "general.output"))
    a = read_real(left, quantization(info, "is", "izp", memory, left.shape[3], sign_from_scale=True), memory)
    by = quantization(info, "operand_s", "operand_zp", memory, right.shape[3], sign_from_scale=True)
    b = read_real(right, by, memory)
    after = quantization(info, "os", "ozp", memory, target.shape[3], sign_from_scale=True)
    write_codes(target, _broadcasting(OPERATIONS[kind], info)(a, b), after, memory)


_EPSILON = np.float32(0.00001)


@layer("reduce")
def reduce(info: StructView, memory: AddressSpace) -> None:
    values = tensor(info, "general.input").read(memory, F32).astype(np.float64)
    output = tensor(info, "general.output")
    output.write(memory, _reduced(values, output.shape, info).astype(F32), F32)


def _reduced(values: Array, wanted: tuple[int, ...], info: StructView) -> Array:
    """Only the logarithm of a sum is told its axis; the others follow from the two shapes (published)."""
    kind = info.enum("general.type")
    axes = tuple(k for k, (size, left) in enumerate(zip(values.shape, wanted, strict=True)) if left == 1 != size)
    if kind == "LL_SW_REDUCESUM":
        return np.asarray(values.sum(axes, keepdims=True))
    if kind == "LL_SW_REDUCEMIN":
        return np.asarray(values.min(axes, keepdims=True))
    if kind == "LL_SW_REDUCEMAX":
        return np.asarray(np.maximum(values.max(axes, keepdims=True), 0))
    if kind == "LL_SW_REDUCELOGSUMEXP":
        axis = onnx_axis(info)
        top = values.max(axis, keepdims=True)
        return np.asarray(top + np.log(np.exp(values - top).sum(axis, keepdims=True)))
    raise not_modelled(f"reduction {kind or '(none)'}", info, "the published wrapper has no such operation")


def _arg(info: StructView, memory: AddressSpace, integer: bool, largest: bool) -> None:
    axis, source = onnx_axis(info), tensor(info, "general.input")
    values = source.read(memory, I8 if integer else F32)
    last = bool(info.integer("select_last_index"))
    ordered = np.flip(values, axis) if last else values
    found = np.expand_dims((np.argmax if largest else np.argmin)(ordered, axis=axis), axis)
    indices = values.shape[axis] - 1 - found if last else found
    tensor(info, "general.output").write(memory, indices.astype(I32), I32)


layer("argmax")(partial(_arg, integer=False, largest=True))
layer("argmin")(partial(_arg, integer=False, largest=False))
layer("argmax_integer")(partial(_arg, integer=True, largest=True))
layer("argmin_integer")(partial(_arg, integer=True, largest=False))


@layer("sign")
def sign(info: StructView, memory: AddressSpace) -> None:
    values = tensor(info, "general.input").read(memory, F32)
    tensor(info, "general.output").write(memory, np.where(values > 0, 1, -1).astype(F32), F32)


def _channel_values(info: StructView, name: str, channels: int, memory: AddressSpace) -> Array:
    values = tensor(info, name).read(memory, F32)
    if values.size != channels:
        raise fail(f"{values.size} values for {channels} channels", f"{info.where}.{name}")
    return values.reshape(channels)


@layer("bn")
def bn(info: StructView, memory: AddressSpace) -> None:
    values = tensor(info, "general.input").read(memory, F32)
    names = ("mean", "var", "scale", "bias")
    mean, var, scale, bias = (_channel_values(info, name, values.shape[3], memory) for name in names)
    result = (values - mean) / np.sqrt(var + _EPSILON) * scale + bias
    tensor(info, "general.output").write(memory, result, F32)


@layer("instance_normalization")
def instance_normalization(info: StructView, memory: AddressSpace) -> None:
    values = tensor(info, "general.input").read(memory, F32).astype(np.float64)
    scale, bias = (_channel_values(info, name, values.shape[3], memory) for name in ("scale", "bias"))
    mean, var = values.mean((1, 2), keepdims=True), values.var((1, 2), keepdims=True)
    result = (values - mean) / np.sqrt(var + float(_EPSILON)) * scale + bias
    tensor(info, "general.output").write(memory, result.astype(F32), F32)


@layer("lpnormalization")
def lpnormalization(info: StructView, memory: AddressSpace) -> None:
    order = info.integer("p")
    if order not in (1, 2):
        raise not_modelled(f"a norm of order {order}", info)
    values = tensor(info, "general.input").read(memory, F32).astype(np.float64)
    size = (np.abs(values) ** order).sum(onnx_axis(info), keepdims=True) ** (1 / order)
    tensor(info, "general.output").write(memory, (values / size).astype(F32), F32)


# the runtime counts axes batch, channel, width, height
_RUNTIME_AXIS = {0: 0, 1: 3, 2: 2, 3: 1}


def _gather(info: StructView, memory: AddressSpace, dtype: np.dtype[Any]) -> None:
    values, target = tensor(info, "general.input").read(memory, dtype), tensor(info, "general.output")
    axis = _own_axis(values.shape, onnx_axis(info))
    indices = tensor(info, "operand").read(memory, I32).reshape(-1).astype(np.int64)
    indices = np.where(indices < 0, indices + values.shape[axis], indices)
    if np.any((indices < 0) | (indices >= values.shape[axis])):
        raise fail(f"an index outside the {values.shape[axis]} elements of its axis", info.where)
    found = np.take(values, indices, axis)
    if found.size != target.elements or (found.size > 1 and indices.size != target.shape[axis]):
        raise not_modelled(f"a gather of {indices.size} indices into {target.shape}", info)
    target.write(memory, found.reshape(target.shape), dtype)


def _own_axis(shape: tuple[int, ...], axis: int) -> int:
    """The second of two dimensions is the channels to the wrapper, where ST's compiler stores it as the width. Its loop
    steps from value to value (inferred: a published network of 1.1.1 relies on it), so a vector has one axis only."""
    long = max(range(len(shape)), key=shape.__getitem__)
    return long if shape[axis] == 1 and prod(shape) == shape[long] else axis


layer("gather")(partial(_gather, dtype=F32))
layer("gather_integer")(partial(_gather, dtype=I8))


def _tile(info: StructView, memory: AddressSpace, dtype: np.dtype[Any]) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    n, c, h, w = info.integers("repeats", 4)
    if min(n, c, h, w) < 1 or n * c * h * w * source.elements > MAX_ELEMENTS:
        raise fail("impossible repetitions", info.where)
    target.write(memory, np.tile(source.read(memory, dtype), (n, h, w, c)), dtype)


layer("tile")(partial(_tile, dtype=F32))
layer("tile_integer")(partial(_tile, dtype=I8))


@layer("concat")
def concat(info: StructView, memory: AddressSpace) -> None:
    count, axis = info.integer("num_of_inputs", 2), info.integer("concat_axis")
    if axis not in _RUNTIME_AXIS or not 2 <= count <= 4:
        raise not_modelled(f"a concatenation of {count} tensors along axis {axis}", info)
    names = ("general.input", "operand", "operand1", "operand2")[:count]
    parts, along = [tensor(info, name).read(memory, F32) for name in names], _RUNTIME_AXIS[axis]
    if len({np.delete(part.shape, along).tobytes() for part in parts}) != 1:
        raise fail(f"shapes {[part.shape for part in parts]} do not fit each other", info.where)
    tensor(info, "general.output").write(memory, np.concatenate(parts, along), F32)
