"""Activations on the CPU, float and int8.

Published: the formula of every float function (macros of the runtime's math header) and the parameters of each layer.
Inferred: int8 activations compute in real numbers and round once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.quantization import Quantization, quantization, read_real, real_values, write_codes
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, Array, KernelTensor, tensor

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
        result = _prelu(values, tensor(info, "operand"), memory)
    elif kind in FUNCTIONS:
        result = FUNCTIONS[kind](values, info)
    else:
        raise not_modelled(f"activation {kind or '(none)'}", info)
    target.write(memory, result, F32)


def _prelu(values: Array, slope: KernelTensor, memory: AddressSpace) -> Array:
    return np.where(values <= 0, values * slope_for(slope.read(memory, F32), values.shape, slope.where), values)


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
